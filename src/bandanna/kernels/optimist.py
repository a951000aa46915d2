"""Optimism on running sums of single rounds: estimate, choose, earn, add, release - one seed after the other.

The NumPy code is `Confidence.estimate` or `Ellipsoid.estimate`, `choice.scores`, `linalg.favoured` and
`LinearReport.pack`; estimates and indices differ by some units in the last place. Without noise, with A = G + lambda I,
lambda = weight, or floor / scale, A^{-1} follows by rank-one updates and P by A^{-1} (`estimates.estimate_exactly`).
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.choosing import most, of_rank, tied
from bandanna.kernels.estimates import begin_exactly, estimate, estimate_exactly, grow
from bandanna.kernels.jit import jit
from bandanna.kernels.optimism import DONE, INDEFINITE, OUTSIDE
from bandanna.kernels.scoring import along, columns, copy, squares

_ABOVE = math.sqrt(2.0)
_TOGETHER = 16  # arms of which loops take a multiple: a few that are left over would be taken one by one
_TABLE = 1 << 17  # numbers in a table of products; of more arms they are made in every round


@jit
def optimist(
    begin: int,
    end: int,
    arms: Floats,  # (S, n or 1, K, d): of the rounds from `begin` to `end`, or of all of them
    means: Floats,  # (S, n or 1, K)
    uniforms: Floats,  # (S, N): a reward is 1 where its number is below the mean
    coins: Floats,  # (S, N): the next numbers for ties, of which a seed has used `used`
    noise: Floats,  # (S, N, dim), or empty: of the running sums after each round
    total: Floats,  # (S, dim): exact sums, changed
    released: Floats,  # (S, dim): with their noise, changed
    scale: float,  # s^2 of an `Optimism`, and its tables, (N,)
    floors: Floats,
    weights: Floats,
    radii: Floats,
    told: Floats,  # (2,): what is reported of rewards 0 and 1
    by_coins: bool,  # whether coins decide about ties
    place: Ints,  # (3,): seed and round to go on with, and whether theta and inverse are given; changed
    theta: Floats,  # (d,)
    inverse: Floats,  # (d, d)
    used: Ints,  # (S,), changed
    actions: Ints,  # (S, N), filled; so are rewards and losses
    rewards: Floats,
    losses: Floats,
) -> int:
    """DONE; or INDEFINITE, OUTSIDE: the matrix, an arm of the round at `place` has to be dealt with first."""
    seeds, blocks, n_arms, d = arms.shape
    fresh, exact, pairs = blocks > 1 or end - begin == 1, noise.size == 0, d * (d + 1) // 2
    tabled = not fresh and pairs * n_arms <= _TABLE
    wide = -(-n_arms // _TOGETHER) * _TOGETHER
    x, table = np.zeros((d, wide)), np.empty((pairs if tabled else 0, wide))
    values, spread, scores, best = np.zeros(wide), np.empty(wide), np.empty(wide), 0.0
    worth, index = values[:n_arms], scores[:n_arms]
    own, column, known = np.empty(d), np.empty(d), np.empty((d, d))
    system = np.empty((d, 2 * d + 1))
    for s in range(place[0], seeds):
        start = place[1] if s == place[0] else begin
        sums, seen = total[s], released[s]
        if exact:
            begin_exactly(sums, floors[begin] / scale if scale > 0 else weights[begin], known, column)
        for t in range(start, end):
            if fresh or t == start:
                columns(arms[s, t - begin if fresh else 0], x)
                copy(means[s, t - begin if fresh else 0], worth)
                best = most(worth)
                if not _inside(x, spread):
                    place[0], place[1], place[2] = s, t, 0
                    return OUTSIDE
                if tabled:
                    _tabulate(x, table)
            if exact:
                estimate_exactly(sums, scale, floors[t], weights[t], known, column, own, theta, inverse)
            elif place[2] == 1:
                place[2] = 0
            elif not estimate(seen, scale, floors[t], weights[t], system, own, column, theta, inverse):
                place[0], place[1] = s, t
                return INDEFINITE
            if tabled:
                _spread(inverse, table, spread)
            else:
                squares(x, inverse, scores, spread)
            along(x, theta, scores)
            for k in range(wide):
                scores[k] += radii[t] * math.sqrt(max(spread[k], 0.0))
            count, arm = tied(index)
            if by_coins and count > 1:
                arm = of_rank(index, int(coins[s, used[s]] * count), arm)
                used[s] += 1
            mean = worth[arm]
            reward = 1.0 if uniforms[s, t] < mean else 0.0
            actions[s, t], rewards[s, t], losses[s, t] = arm, reward, best - mean
            _add(x[:, arm], told[0] + (told[1] - told[0]) * reward, own, sums)
            if exact:
                grow(known, own, column)
            else:
                for i in range(len(sums)):
                    seen[i] = sums[i] + noise[s, t, i]
    return DONE


@jit
def _inside(x: Floats, length: Floats) -> bool:
    """Whether no arm (d, K) is longer than 1, by more than rounding errors; `length`: (K,)."""
    d, n_arms = x.shape
    length[:] = 0.0
    for i in range(d):
        row = x[i]
        for k in range(n_arms):
            length[k] += row[k] * row[k]
    limit = 1 + (d + 8) * 2.0**-52
    outside = 0
    for k in range(n_arms):
        outside += 0 if length[k] <= limit * limit else 1  # nor what is not a number
    return outside == 0


@jit
def _tabulate(x: Floats, table: Floats) -> None:
    """x_i x_j of arms (d, K), doubled above the diagonal: of those that stay."""
    d, n_arms = x.shape
    place = 0
    for i in range(d):
        one = x[i]
        for j in range(i, d):
            two, products, times = x[j], table[place], 1.0 if i == j else 2.0
            for k in range(n_arms):
                products[k] = one[k] * two[k] * times
            place += 1


@jit
def _spread(inverse: Floats, table: Floats, spread: Floats) -> None:
    """|x|^2_{P^{-1}} of tabulated arms, (K,)."""
    place = 0
    spread[:] = 0.0
    for i in range(len(inverse)):
        for j in range(i, len(inverse)):
            weight, row = inverse[i, j], table[place]
            for k in range(len(spread)):
                spread[k] += weight * row[k]
            place += 1


@jit
def _add(features: Floats, reward: float, x: Floats, total: Floats) -> None:
    """One more report: x y, x_i^2, sqrt 2 x_i x_j, of features that are no longer than 1 by rounding errors either."""
    d, length = len(x), 0.0
    for i in range(d):
        length += features[i] * features[i]
    length = math.sqrt(length)
    for i in range(d):
        x[i] = features[i] * (1 / length) if length > 1 else features[i]
    place = 2 * d
    for i in range(d):
        total[i] += x[i] * reward
        total[d + i] += x[i] * x[i]
        for j in range(i + 1, d):
            total[place] += _ABOVE * x[i] * x[j]
            place += 1
