"""With which probability the arm of a device's draw is the best one: the propensity that is logged with a decision.

Draws are Gaussian. With one parameter for all arms, theta = mean + L z, arm k wins where all <x_k - x_j, theta> >= 0:

* two arms: Phi(<x_1 - x_2, mean> / |L^T (x_1 - x_2)|), exactly;
* more: z = r u with a direction u and a signed radius r, |r| ~ chi_d. Along u arm k wins on an interval of r, whose
  probability is exact; it is averaged over DIRECTIONS fixed directions, with the standard error of that average.

Of an arm that was taken the probability is not 0. Where none of the directions meets the region in which it wins, MORE
times as many are averaged; if all of them miss it, half of one counts as having met it, with as large an error.

With a parameter of its own for each arm the scores are independent: one integral over that of arm k.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats, Ints
from bandanna.core.linalg import inner

DIRECTIONS = 2048
MORE = 16
_NODES = 2001  # of an integral over +- 9 standard deviations, at most
_FEWER = (64, 96, 128, 192, 256, 384, 512, 768, 1024)  # where the integrand is smooth enough for them
_AT_ONCE = 1 << 18  # numbers of integrals that are computed together
_LEVEL = 1e-150  # what is nearer to 0 counts as 0: its reciprocal's square would be no number


def of_shared(
    mean: Floats, root: Floats, contexts: Floats, actions: Ints, *, taken: bool = False
) -> tuple[Floats, Floats]:
    """(d,), (d, d), (n, K, d), (n,) -> probabilities and their standard errors, (n,).

    taken: these arms were drawn, so that no probability is 0
    """
    best = np.take_along_axis(contexts, actions[:, None, None], axis=1)
    apart = best - contexts  # (n, K, d)
    same = np.sum(np.all(apart == 0, axis=-1), axis=-1)  # arms that are equal share
    if contexts.shape[1] == 2:
        other = np.take_along_axis(apart, 1 - actions[:, None, None], axis=1)[:, 0]
        along = (other[:, None, :] @ root)[:, 0]  # each by itself
        chance = special.ndtr(_ratio(inner(other, np.broadcast_to(mean, other.shape)), np.sqrt(inner(along, along))))
        return np.where(same > 1, 0.5, chance), np.zeros(len(actions))
    again = np.zeros(1, dtype=np.int64)
    if len(apart) > 1:
        apart, again = np.unique(apart, axis=0, return_inverse=True)  # decisions that are alike are computed once
    spread = root @ directions(len(mean)).T  # (d, directions)
    found = [_averaged(mean, root, spread, each, taken=taken) for each in apart]
    chances, errors = np.array(found).reshape(-1, 2)[again.ravel()].T
    return chances / same, errors / same


def _averaged(mean: Floats, root: Floats, spread: Floats, apart: Floats, *, taken: bool) -> tuple[float, float]:
    """Of one decision, (K, d): the average over directions and its standard error."""
    chances = _along(apart, mean, spread)
    if taken and not chances.any():
        more = [_along(apart, mean, root @ _drawn(len(mean), block).T) for block in range(1, MORE)]
        chances = np.concatenate([chances, *more])
        if not chances.any():
            return 0.5 / len(chances), 0.5 / len(chances)
    return float(np.mean(chances)), float(np.std(chances)) / math.sqrt(len(chances))


def _along(apart: Floats, mean: Floats, spread: Floats) -> Floats:
    """P(<a_j, mean> + r <a_j, s> >= 0 for all j) of the a_j of `apart` (K, d) and s of `spread` (d, directions).

    With levels l_j = <a_j, mean> and t = 1/r this is t >= w_j where l_j > 0 and t <= w_j where l_j < 0, for r > 0, with
    w_j = <-a_j / l_j, s>; for r < 0 it is the same of -s. So one product, of which the largest and least are taken.
    """
    level = apart @ mean  # (K,)
    ahead, behind = level > _LEVEL, level < -_LEVEL
    even = ~(ahead | behind) & np.any(apart != 0, axis=-1)
    none = np.zeros((0, spread.shape[-1]))
    above = (-apart[ahead] / level[ahead, None]) @ spread if ahead.any() else none
    below = (-apart[behind] / level[behind, None]) @ spread if behind.any() else none
    beside = apart[even] @ spread if even.any() else none
    sides = []
    for one in (1.0, -1.0):  # the sign of r
        least = np.max(above, axis=0, initial=0.0) if one > 0 else -np.min(above, axis=0, initial=0.0)
        most = np.min(below, axis=0, initial=np.inf) if one > 0 else -np.max(below, axis=0, initial=-np.inf)
        wins = (most > least) & np.all(one * beside >= 0, axis=0)
        side = np.zeros(len(wins))
        with np.errstate(divide="ignore"):
            side[wins] = _within(1 / least[wins], len(mean)) - _within(1 / most[wins], len(mean))
        sides.append(side)
    return np.asarray(0.5 * (sides[0] + sides[1]))


def _within(radius: Floats, dim: int) -> Floats:
    """P(|z| <= radius)."""
    return np.asarray(special.gammainc(dim / 2, radius**2 / 2))


@np.errstate(divide="ignore", invalid="ignore")
def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / below)


@lru_cache(maxsize=32)
def directions(dim: int) -> Floats:
    """A fixed sample of uniform directions, (DIRECTIONS, d); public."""
    return _drawn(dim, 0)


def _drawn(dim: int, block: int) -> Floats:
    drawn = np.random.default_rng(block).standard_normal((DIRECTIONS, dim))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    drawn.setflags(write=False)
    return drawn


def of_own(mean: Floats, spread: Floats, actions: Ints) -> Floats:
    """Independent scores N(mean, spread^2) of arms, (n, K): the chance that the chosen one is the largest, (n,)."""
    if len(actions) > 1:  # decisions that are alike are computed once
        alike = np.concatenate([mean, spread, actions[:, None]], axis=1)
        _, first, again = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        if len(first) < len(actions):
            return of_own(mean[first], spread[first], actions[first])[again.ravel()]
    found = np.zeros(len(actions))
    nodes = _nodes(spread, actions)
    for count in np.unique(nodes):
        rows, most = np.flatnonzero(nodes == count), max(_AT_ONCE // (int(count) * mean.shape[1]), 1)
        for part in np.split(rows, range(most, len(rows), most)):
            found[part] = _integrated(mean[part], spread[part], actions[part], int(count))
    return found


def _nodes(spread: Floats, actions: Ints) -> Ints:
    """How many nodes an integral needs, (n,): each by itself.

    In the complex plane the integrand grows as exp(s y^2 / 2), s = 1 + sum_j (spread_k / spread_j)^2, so that the
    trapezoidal rule of step h errs by about exp(-2 pi^2 / (s h^2)): below 1e-17 for h <= 0.7 / sqrt s.
    """
    own = np.take_along_axis(spread, actions[:, None], axis=1)
    widths = np.sqrt(np.sum(_ratio(own, spread) ** 2, axis=1))  # sqrt s: the arm itself adds the 1
    wanted = np.where(widths > 0, widths, np.inf) * (18 / 0.7) + 1  # NaN, where nothing varies: the most
    return np.take([*_FEWER, _NODES], np.searchsorted(_FEWER, wanted))


def _integrated(mean: Floats, spread: Floats, actions: Ints, count: int) -> Floats:
    """By the trapezoidal rule on so many nodes, which is as exact as a smooth integrand is."""
    nodes = np.linspace(-9.0, 9.0, count)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    rows = np.arange(len(actions))
    at = mean[rows, actions, None] + spread[rows, actions, None] * nodes  # (n, nodes)
    below = special.ndtr(_ratio(at[:, None, :] - mean[..., None], spread[..., None]))  # (n, K, nodes)
    below[rows, actions] = 1.0
    return np.asarray(np.sum(np.prod(below, axis=1) * weights, axis=-1))
