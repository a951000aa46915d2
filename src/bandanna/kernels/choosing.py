"""The arm of the largest index by the tie rule of `core.linalg`: arms are tied that are equal in single precision."""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit

_LARGEST = float(np.finfo(np.float32).max)


@jit
def most(values: Floats) -> float:
    """The largest, of eight at a time: one after the other would wait for each comparison."""
    n, p = len(values), values[0]
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = p
    for k in range(7, n, 8):
        p0, p1 = max(p0, values[k - 7]), max(p1, values[k - 6])
        p2, p3 = max(p2, values[k - 5]), max(p3, values[k - 4])
        p4, p5 = max(p4, values[k - 3]), max(p5, values[k - 2])
        p6, p7 = max(p6, values[k - 1]), max(p7, values[k])
    for k in range(n - n % 8, n):
        p0 = max(p0, values[k])
    peak: float = max(max(max(p0, p1), max(p2, p3)), max(max(p4, p5), max(p6, p7)))
    return peak


@jit
def tied(index: Floats) -> tuple[int, int]:
    """How many arms are tied, and the first of them, as `linalg.favoured`; rounding keeps the order, so that the
    largest in single precision is the largest, rounded.

    A row with a number beyond single precision is divided by a power of two first, in place.
    """
    n, beyond = len(index), 0
    for k in range(n):
        beyond += 0 if abs(index[k]) <= _LARGEST else 1
    if beyond > 0:
        _divide(index)
    peak, count, first = np.float32(most(index)), 0, n
    for k in range(n):
        equal = np.float32(index[k]) == peak
        count += 1 if equal else 0
        first = min(first, k if equal else n)
    return count, first % n


@jit
def _divide(index: Floats) -> None:
    """By a power of two, so that the largest is below 1."""
    size = 0.0
    for k in range(len(index)):
        size = max(size, abs(index[k]))
    shift = -math.frexp(size)[1]
    for k in range(len(index)):
        index[k] = math.ldexp(index[k], shift)


@jit
def of_rank(index: Floats, rank: int, first: int) -> int:
    """The tied arm of this rank, after `tied` has found the first."""
    peak = np.float32(index[first])
    for k in range(first, len(index)):
        if np.float32(index[k]) == peak:
            if rank == 0:
                return k
            rank -= 1
    return first
