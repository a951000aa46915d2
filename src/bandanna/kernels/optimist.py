"""Optimism on running sums of single rounds: estimate, choose, earn, add, release - one seed after the other.

The NumPy code is `Confidence.estimate` or `Ellipsoid.estimate`, `choice.scores`, `linalg.favoured` and
`LinearReport.pack`. With noise, inverses have the very same bits, since the same sweeps are made; what is a product of
matrices there differs by some units in the last place. Without noise, one of two inverses follows by rank-one updates,
as in `players.recursion`. Fresh arms that are drawn by a rule never leave the cache: they are drawn here.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.kernels.eights import room
from bandanna.kernels.estimates import begin_exactly, estimate, estimate_exactly, grow
from bandanna.kernels.jit import jit
from bandanna.kernels.optimism import DONE, INDEFINITE, OUTSIDE
from bandanna.kernels.pointing import pointing_columns
from bandanna.kernels.scoring import Singles, along, columns, in_single, most, squares
from bandanna.kernels.ziggurat import Words

_ABOVE = math.sqrt(2.0)
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
    words: Words,  # (S, 4): of the generators that draw the arms, changed; or empty: these are given
    truth: Floats,  # (S, d): the parameter, of which their means are
    length: Floats,  # (1,): of the first entries of such an arm; the last is `last`
    last: float,
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
    draws, exact = len(words) > 0, noise.size == 0
    fresh, pairs = draws or blocks > 1 or end - begin == 1, d * (d + 1) // 2
    tabled = not fresh and pairs * n_arms <= _TABLE
    x, table = np.empty((d, n_arms)), np.empty((pairs if tabled else 0, n_arms))
    spread, index, single = np.empty(n_arms), np.empty(n_arms), np.empty(n_arms, dtype=np.float32)
    gram, gain, matrix, column = room(d), room(d), room(d), np.empty(d)
    own, known, best = np.empty(d), np.empty((d, d)), 0.0
    drawn, worth = np.empty((d - 1) * n_arms if draws else 0), np.empty(n_arms)
    for s in range(place[0], seeds):
        start = place[1] if s == place[0] else begin
        if exact:
            begin_exactly(total[s], floors[begin] / scale if scale > 0 else weights[begin], known, column)
        for t in range(start, end):
            if not draws and (fresh or t == start):
                worth = means[s, t - begin if fresh else 0]
                columns(arms[s, t - begin if fresh else 0], x)
                if not _inside(x, spread):
                    place[0], place[1], place[2] = s, t, 0
                    return OUTSIDE
                if tabled:
                    _tabulate(x, table)
                best = most(worth)
            if exact:
                estimate_exactly(total[s], scale, floors[t], weights[t], known, column, own, theta, inverse)
            elif place[2] == 1:
                place[2] = 0
            elif not estimate(
                released[s], scale, floors[t], weights[t], gram, gain, matrix, column, own, theta, inverse
            ):
                place[0], place[1] = s, t
                return INDEFINITE
            if draws:
                pointing_columns(words[s], length[0], d - 1, last, drawn, spread, x)
                best = _worth(x, truth[s], worth)
            if tabled:
                _spread(inverse, table, spread)
            else:
                squares(x, inverse, index, spread)
            along(x, theta, index)
            for k in range(n_arms):
                index[k] += radii[t] * math.sqrt(max(spread[k], 0.0))
            count = _tied(index, single)
            rank = 0
            if by_coins and count > 1:
                rank = int(coins[s, used[s]] * count)
                used[s] += 1
            arm = _of_rank(single, rank)
            mean = worth[arm]
            reward = 1.0 if uniforms[s, t] < mean else 0.0
            actions[s, t], rewards[s, t], losses[s, t] = arm, reward, best - mean
            _add(x[:, arm], told[0] + (told[1] - told[0]) * reward, own, total[s])
            if exact:
                grow(known, own, column)
            else:
                for i in range(total.shape[1]):
                    released[s, i] = total[s, i] + noise[s, t, i]
    return DONE


@jit
def _worth(x: Floats, truth: Floats, out: Floats) -> float:
    """<x, theta> of arms in columns, in [0, 1], as `LinearWorld.means` has it; the largest."""
    along(x, truth, out)
    for k in range(len(out)):
        out[k] = min(max(out[k], 0.0), 1.0)
    return most(out)


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
def _tied(index: Floats, single: Singles) -> int:
    """How many arms are tied: their index in single precision, filled, is the largest."""
    peak, count = in_single(index, single), 0
    for k in range(len(single)):
        count += 1 if single[k] == peak else 0
    return count


@jit
def _of_rank(single: Singles, rank: int) -> int:
    """The tied arm of this rank."""
    peak = most(single)
    for k in range(len(single)):
        if single[k] == peak:
            if rank == 0:
                return k
            rank -= 1
    return 0


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
