"""Estimates of an `Optimism` from released sums: with noise by two inverses, of exact sums by rank-one updates."""

from __future__ import annotations

import math

from bandanna.core.arrays import Floats
from bandanna.kernels.eights import product, sweep
from bandanna.kernels.jit import part
from bandanna.kernels.scoring import copy, inner, swept, times


@part
def begin_exactly(total: Floats, ridge: float, known: Floats, column: Floats) -> None:
    """A^{-1} = (G + lambda I)^{-1} of exact sums."""
    _unpack(total, known)
    for i in range(len(known)):
        known[i, i] += ridge
    swept(known, column)


@part
def grow(known: Floats, x: Floats, step: Floats) -> None:
    """A^{-1} with one more x x^T in A (Sherman and Morrison 1950)."""
    times(known, x, step)
    grown = 1 + inner(step, x)
    for i in range(len(x)):
        for j in range(len(x)):
            known[i, j] -= step[i] * step[j] / grown


@part
def estimate_exactly(
    total: Floats,
    scale: float,
    floor: float,
    weight: float,
    known: Floats,
    column: Floats,
    vector: Floats,
    theta: Floats,
    inverse: Floats,
) -> None:
    """theta and P^{-1} of an `Optimism` from exact sums and A^{-1}, as `players.recursion`."""
    d = len(theta)
    times(known, total[:d], theta)
    if scale == 0:
        for i in range(d):
            copy(known[i], inverse[i])
        return
    ridge = floor / scale
    _unpack(total, inverse)
    for i in range(d):
        vector[i] = total[i] - ridge * theta[i]
        inverse[i, i] += scale * weight - ridge
        for j in range(d):
            inverse[i, j] += ridge * ridge * known[i, j]
    _positive_inverse(inverse, column)
    times(inverse, vector, theta)
    for i in range(d):
        for j in range(d):
            inverse[i, j] *= scale


@part
def _positive_inverse(a: Floats, column: Floats) -> None:
    """Of a positive definite matrix, in place: sweeps above the diagonal, then the rest."""
    d = len(a)
    for k in range(d):
        pivot = 1 / a[k, k]
        for i in range(d):
            column[i] = a[i, k] if i < k else a[k, i]
        for i in range(d):
            factor = column[i] * pivot
            for j in range(i, d):
                a[i, j] -= factor * column[j]
        for i in range(d):
            if i < k:
                a[i, k] = column[i] * pivot
            else:
                a[k, i] = column[i] * pivot
        a[k, k] = -pivot
    for i in range(d):
        for j in range(i, d):
            a[i, j] = a[j, i] = -a[i, j]


@part
def _unpack(total: Floats, gram: Floats) -> None:
    """G of packed sums."""
    d = len(gram)
    place = 2 * d
    for i in range(d):
        gram[i, i] = total[d + i]
        for j in range(i + 1, d):
            gram[i, j] = gram[j, i] = total[place] * math.sqrt(0.5)
            place += 1


@part
def estimate(
    released: Floats,
    scale: float,
    floor: float,
    weight: float,
    gram: Floats,  # (d, 8 or d), as `room` makes them: for G, G R^{-1} and the inverses
    gain: Floats,
    matrix: Floats,
    column: Floats,
    vector: Floats,
    theta: Floats,
    inverse: Floats,  # (d, d)
) -> bool:
    """theta and P^{-1} of an `Optimism`, filled; False if a matrix is not positive definite."""
    d = len(theta)
    _unpack(released, gram)
    copy(released, vector)
    for i in range(d):
        one, own = gram[i], matrix[i]
        for j in range(len(one)):
            own[j] = scale * one[j] + 0.0 if scale > 0 else one[j]
    if scale > 0:
        for i in range(d):
            matrix[i, i] += floor
        if not sweep(matrix, column):  # R^{-1}
            return False
        product(gram, matrix, gain)
        product(gain, gram, matrix)
        times(gain, released[:d], vector)
    for i in range(d):
        matrix[i, i] += weight
    if not sweep(matrix, column):  # P^{-1}
        return False
    times(matrix, vector, theta)
    for i in range(d):
        copy(matrix[i], inverse[i])
    return True
