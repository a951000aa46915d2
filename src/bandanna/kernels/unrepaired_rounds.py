"""Many rounds of `unrepaired`, one seed after the other: choose, earn, add.

Where no noise joins, V grows by x x^T, and with y = V^-1 x (Sherman and Morrison 1950)

    V^-1 -= y y^T / (1 + <x, y>),     |b|^2_{V^-1} -= <b, y>^2 / (1 + <x, y>)  for every arm b:

d K products instead of d^2 K / 2. Both are computed anew from the sums after some rounds, and wherever 1 + <x, y> is
below 1, so that rounding errors do not add up. The NumPy code is `_singles` of `bandanna.papers.p000.published`, and
makes the same sums to the last bit.
"""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.jit import jit, part
from bandanna.kernels.scoring import along, inner, times
from bandanna.kernels.unrepaired import favourite, inverted, widths

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


@part
def _grown(arms: Floats, x: Floats, inverse: Floats, width: Floats, step: Floats, across: Floats) -> bool:
    """V^-1 and |b|^2 of all arms with one more x x^T in V; False, and nothing done, where 1 + <x, y> is below 1."""
    times(inverse, x, step)
    grown = 1 + inner(step, x)
    if not grown >= 1:
        return False
    for i in range(len(x)):
        for j in range(len(x)):
            inverse[i, j] -= step[i] * step[j] / grown
    along(arms, step, across)
    for k in range(len(width)):
        width[k] -= across[k] * across[k] / grown
    return True
