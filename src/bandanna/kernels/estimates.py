"""Estimates of an `Optimism` from released sums: with noise by an elimination and an inverse, of exact sums by rank-one
updates and an inverse."""

from __future__ import annotations

import math

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit, part
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
    """theta and P^{-1} of an `Optimism` from exact sums and A^{-1}.

    With A = G + lambda I, lambda = weight, or floor / scale,
    P = A where scale is 0; else G (s^2 A)^{-1} G = (G - lambda I + lambda^2 A^{-1}) / s^2, so that with M = s^2 P

        M = G + lambda^2 A^{-1} + (s^2 weight - lambda) I,  theta = M^{-1} (v - lambda A^{-1} v),  P^{-1} = s^2 M^{-1}:

    one inverse a round, since the weight moves.
    """
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
def _positive_inverse(a: Floats, column: Floats) -> bool:
    """In place: sweeps above the diagonal, then the rest; False if a pivot is not positive."""
    d = len(a)
    for k in range(d):
        if not a[k, k] > 0:
            return False
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
    return True


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


@jit
def estimate(
    released: Floats,
    scale: float,
    floor: float,
    weight: float,
    system: Floats,  # (d, 2 d + 1), room for numbers, as are the next
    vector: Floats,
    column: Floats,
    theta: Floats,
    inverse: Floats,
) -> bool:
    """theta and P^{-1} of an `Optimism`, filled; False if a matrix is not positive definite."""
    d = len(theta)
    _unpack(released, inverse)
    for i in range(d):
        vector[i] = released[i]
    if scale > 0 and not _gain(scale, floor, system, column, vector, inverse):
        return False
    for i in range(d):
        inverse[i, i] += weight
    if not _positive_inverse(inverse, column):
        return False
    times(inverse, vector, theta)
    return True


@part
def _gain(scale: float, floor: float, system: Floats, over: Floats, vector: Floats, gram: Floats) -> bool:
    """G R^{-1} v in place of v, and G R^{-1} G in that of G, above the diagonal; False if R is not positive definite.

    With R = L D L^T, elimination makes [D L^T, W, w] of [R, G, v], W = L^{-1} G, w = L^{-1} v. Then these are
    sum_k W_k w_k / D_k and sum_k W_k W_k^T / D_k: without an inverse, and symmetric. `over`: room for 1 / D.
    """
    d = len(vector)
    for i in range(d):
        for j in range(d):
            system[i, j], system[i, d + j] = scale * gram[i, j], gram[i, j]
            gram[i, j] = 0.0
        system[i, i] += floor
        system[i, 2 * d], vector[i] = vector[i], 0.0
    for k in range(d):
        if not system[k, k] > 0:
            return False
        over[k] = 1 / system[k, k]
        for i in range(k + 1, d):
            factor = system[k, i] * over[k]
            for j in range(i, 2 * d + 1):
                system[i, j] -= factor * system[k, j]
    for k in range(d):
        for i in range(d):
            factor = system[k, d + i] * over[k]
            vector[i] += factor * system[k, 2 * d]
            for j in range(i, d):
                gram[i, j] += factor * system[k, d + j]
    return True
