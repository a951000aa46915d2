"""Optimism with a disturbed matrix as it is, indefinite or not: the inverse, and the first arm of the largest index.

The NumPy code is `_Problem.choose` of `bandanna.papers.p000.published`; indices differ by some units in the last place.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, part
from bandanna.kernels.scoring import along


@jit
def unrepaired(
    statistic: Floats,  # (S, D): the vector, then the upper triangle of the matrix, row by row
    columns: Floats,  # (S, d, K): arms as columns
    ridge: float,
    radius: float,
    actions: Ints,  # (S,), filled
) -> bool:
    """argmax_x <x, theta> + radius |x|_{V^-1}, where NaN is the largest; False if a V is singular."""
    seeds, d, n_arms = columns.shape
    inverse, rows, spare = np.empty((d, d)), np.empty(d, dtype=np.int64), np.empty(d)
    width, index = np.empty(n_arms), np.empty(n_arms)
    for s in range(seeds):
        if not inverted(statistic[s], ridge, inverse, rows, spare):
            return False
        widths(columns[s], inverse, index, width)
        actions[s] = favourite(columns[s], inverse, statistic[s], radius, width, spare, index)
    return True


@part
def inverted(statistic: Floats, ridge: float, inverse: Floats, rows: Ints, spare: Floats) -> bool:
    """V^-1 of one seed, filled; False if there is none. `rows` and `spare`: room for d numbers."""
    d = len(inverse)
    place = d
    for i in range(d):
        for j in range(i, d):
            inverse[i, j] = inverse[j, i] = statistic[place]
            place += 1
        inverse[i, i] += ridge
    return _invert(inverse, rows, spare)


@part
def widths(x: Floats, inverse: Floats, inner: Floats, width: Floats) -> None:
    """|x|^2_{V^-1} of arms in columns (d, K), (K,), filled; `inner`: room for as many numbers."""
    d, n_arms = x.shape
    width[:] = 0.0
    for i in range(d):
        first, weight = x[i], inverse[i, i]
        for k in range(n_arms):
            inner[k] = weight * first[k]
        for j in range(i + 1, d):
            second, weight = x[j], inverse[i, j] + inverse[j, i]
            for k in range(n_arms):
                inner[k] += weight * second[k]
        for k in range(n_arms):
            width[k] += first[k] * inner[k]


@part
def favourite(
    x: Floats, inverse: Floats, vector: Floats, radius: float, width: Floats, theta: Floats, index: Floats
) -> int:
    """The arm of the largest index, from V^-1, what was released and |x|^2 of all arms; `theta`, `index`: filled."""
    d, n_arms = x.shape
    for i in range(d):
        theta[i] = 0.0
        for j in range(d):
            theta[i] += inverse[i, j] * vector[j]
    along(x, theta, index)
    for k in range(n_arms):
        index[k] += radius * np.sqrt(width[k])
    return _largest(index)


@part
def _invert(a: Floats, rows: Ints, spare: Floats) -> bool:
    """The inverse in place, by Gauss and Jordan with the largest pivot of each column; False if there is none."""
    d = len(a)
    for k in range(d):
        top = k
        for i in range(k + 1, d):
            if abs(a[i, k]) > abs(a[top, k]):
                top = i
        rows[k], pivot = top, a[top, k]
        if pivot == 0:
            return False
        if top != k:
            for j in range(d):
                a[k, j], a[top, j] = a[top, j], a[k, j]
        a[k, k] = 1.0
        for j in range(d):
            a[k, j] /= pivot
        for i in range(d):
            spare[i] = a[i, k]
        for i in range(d):
            if i != k:
                times = spare[i]
                a[i, k] = 0.0
                for j in range(d):
                    a[i, j] -= times * a[k, j]
    for k in range(d - 1, -1, -1):  # rows that were exchanged are columns of the inverse
        if rows[k] != k:
            for i in range(d):
                a[i, k], a[i, rows[k]] = a[i, rows[k]], a[i, k]
    return True


@part
def _largest(index: Floats) -> int:
    """The first NaN, else the first of the largest, as `np.argmax` has it."""
    best = 0
    for k in range(len(index)):
        if math.isnan(index[k]):
            return k
        if index[k] > index[best]:
            best = k
    return best
