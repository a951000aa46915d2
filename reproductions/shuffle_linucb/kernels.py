"""Optimism with a disturbed matrix as it is, indefinite or not: the inverse, and the first arm of the largest index.

`unrepaired` chooses once; its NumPy code is `_PlanProblem.choose` of `published`, whose indices differ by some units
in the
last place. `unrepaired_rounds` plays many rounds, one seed after the other: choose, earn, add.

Where no noise joins, V grows by x x^T, and with y = V^-1 x (Sherman and Morrison 1950)

    V^-1 -= y y^T / (1 + <x, y>),     |b|^2_{V^-1} -= <b, y>^2 / (1 + <x, y>)  for every arm b:

d K products instead of d^2 K / 2. Both are computed anew from the sums after some rounds, and wherever 1 + <x, y> is
below 1, so that rounding errors do not add up. The NumPy code is `_singles` of `published`, and makes
the same sums to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.numeric.kernels import compute_scores, inner, jit, jit_internal, multiply_vector
from bandanna.types import Floats, Ints


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


@jit_internal
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


@jit_internal
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


@jit_internal
def favourite(
    x: Floats, inverse: Floats, vector: Floats, radius: float, width: Floats, theta: Floats, index: Floats
) -> int:
    """The arm of the largest index, from V^-1, what was released and |x|^2 of all arms; `theta`, `index`: filled."""
    d, n_arms = x.shape
    for i in range(d):
        theta[i] = 0.0
        for j in range(d):
            theta[i] += inverse[i, j] * vector[j]
    compute_scores(x, theta, index)
    for k in range(n_arms):
        index[k] += radius * np.sqrt(width[k])
    return _largest(index)


@jit_internal
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


@jit_internal
def _largest(index: Floats) -> int:
    """The first NaN, else the first of the largest, as `np.argmax` has it."""
    best = 0
    for k in range(len(index)):
        if math.isnan(index[k]):
            return k
        if index[k] > index[best]:
            best = k
    return best


_ROUNDS = 32  # after which V^-1 is computed anew


@jit
def unrepaired_rounds(
    statistic: Floats,  # (S, D), changed
    columns: Floats,  # (S, d, K): arms as columns
    reports: Floats,  # (S, K, D): of each arm, at reward 1
    means: Floats,  # (S, K)
    uniforms: Floats,  # (S, N): a reward is 1 where its number is below the mean
    noise: Floats,  # (S, M, D)
    joins: Ints,  # (N,): which of the M is added after each round, or -1
    ridge: float,
    radius: float,
    actions: Ints,  # (S, N), filled
) -> bool:
    """N rounds of all seeds; False if a matrix is singular."""
    seeds, d, n_arms = columns.shape
    inverse, rows, spare, x = np.empty((d, d)), np.empty(d, dtype=np.int64), np.empty(d), np.empty(d)
    width, index = np.empty(n_arms), np.empty(n_arms)
    for s in range(seeds):
        arms, own, known = columns[s], statistic[s], 0  # rounds since V^-1 was computed; 0: it must be
        for t in range(actions.shape[1]):
            if known == 0:
                if not inverted(own, ridge, inverse, rows, spare):
                    return False
                widths(arms, inverse, index, width)
            arm = favourite(arms, inverse, own, radius, width, spare, index)
            actions[s, t], report = arm, reports[s, arm]
            reward = 1.0 if uniforms[s, t] < means[s, arm] else 0.0
            for i in range(len(own)):
                added = report[i] * reward if i < d else report[i]
                own[i] += added if joins[t] < 0 else added + noise[s, joins[t], i]
            known = known + 1 if joins[t] < 0 and known + 1 < _ROUNDS else 0
            if known > 0:
                for i in range(d):
                    x[i] = arms[i, arm]
                known = known if _grown(arms, x, inverse, width, spare, index) else 0
    return True


@jit_internal
def _grown(arms: Floats, x: Floats, inverse: Floats, width: Floats, step: Floats, across: Floats) -> bool:
    """V^-1 and |b|^2 of all arms with one more x x^T in V; False, and nothing done, where 1 + <x, y> is below 1."""
    multiply_vector(inverse, x, step)
    grown = 1 + inner(step, x)
    if not grown >= 1:
        return False
    for i in range(len(x)):
        for j in range(len(x)):
            inverse[i, j] -= step[i] * step[j] / grown
    compute_scores(arms, step, across)
    for k in range(len(width)):
        width[k] -= across[k] * across[k] / grown
    return True
