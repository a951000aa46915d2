"""Small matrices whose rows have room for eight numbers, of which a processor takes several at once.

A loop over five numbers costs more for its ends than for its numbers. Here a row is eight of them, one by one in the
source: zeros stand behind the last column, and nothing of what is made of them comes back. Each number is what `swept`
and a product of matrices make of it, bit for bit. Wider matrices are (d, d), and go through the loops.
"""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit
from bandanna.kernels.scoring import swept

_ROW = 8


@jit
def room(d: int) -> Floats:
    """For a matrix of d columns: (d, 8), or (d, d) where it is wider."""
    return np.zeros((d, max(d, _ROW)))


@jit
def sweep(a: Floats, column: Floats) -> bool:
    """The inverse, in place, as `swept`; False if a pivot is not positive."""
    return _swept(a, column) if a.shape[1] == _ROW else swept(a, column)


@jit
def _swept(a: Floats, column: Floats) -> bool:
    d = len(a)
    for k in range(d):
        row = a[k]
        pivot = row[k]
        if not pivot > 0:
            return False
        for i in range(d):
            column[i] = a[i, k]
        r0, r1, r2, r3 = row[0] / pivot, row[1] / pivot, row[2] / pivot, row[3] / pivot
        r4, r5, r6, r7 = row[4] / pivot, row[5] / pivot, row[6] / pivot, row[7] / pivot
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = r0, r1, r2, r3, r4, r5, r6, r7
        for i in range(d):
            if i == k:
                continue
            own, times, ahead = a[i], column[i], row[i]
            own[0] = ahead if k == 0 else own[0] - times * r0
            own[1] = ahead if k == 1 else own[1] - times * r1
            own[2] = ahead if k == 2 else own[2] - times * r2
            own[3] = ahead if k == 3 else own[3] - times * r3
            own[4] = ahead if k == 4 else own[4] - times * r4
            own[5] = ahead if k == 5 else own[5] - times * r5
            own[6] = ahead if k == 6 else own[6] - times * r6
            own[7] = ahead if k == 7 else own[7] - times * r7
        row[k] = -1 / pivot
    for i in range(d):
        own = a[i]
        for j in range(_ROW):
            own[j] = -own[j]
    return True


@jit
def product(a: Floats, b: Floats, out: Floats) -> None:
    """a b, of as many rows each."""
    if out.shape[1] == _ROW:
        _product(a, b, out)
        return
    d = len(a)
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
        for m in range(d):
            for j in range(d):
                out[i, j] += a[i, m] * b[m, j]


@jit
def _product(a: Floats, b: Floats, out: Floats) -> None:
    for i in range(len(a)):
        o0 = o1 = o2 = o3 = o4 = o5 = o6 = o7 = 0.0
        for m in range(len(a)):
            times, row = a[i, m], b[m]
            o0, o1, o2, o3 = o0 + times * row[0], o1 + times * row[1], o2 + times * row[2], o3 + times * row[3]
            o4, o5, o6, o7 = o4 + times * row[4], o5 + times * row[5], o6 + times * row[6], o7 + times * row[7]
        own = out[i]
        own[0], own[1], own[2], own[3], own[4], own[5], own[6], own[7] = o0, o1, o2, o3, o4, o5, o6, o7
