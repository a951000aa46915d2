"""With which probability the arm of a device's draw is the best one: the propensity that is logged with a decision.

Draws are Gaussian. With one parameter for all arms, theta = mean + L z, arm k wins where all <x_k - x_j, theta> >= 0:

* two arms: Phi(<x_1 - x_2, mean> / |L^T (x_1 - x_2)|), exactly;
* more: z = r u with a direction u and a signed radius r, |r| ~ chi_d. Along u arm k wins on an interval of r, whose
  probability is exact; it is averaged over DIRECTIONS fixed directions, with the standard error of that average.

With a parameter of its own for each arm the scores are independent: one integral over that of arm k.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats, Ints
from bandanna.core.linalg import inner

DIRECTIONS = 2048
_NODES = 2001  # of an integral over +- 9 standard deviations
_PART = 16  # decisions at once


def of_shared(mean: Floats, root: Floats, contexts: Floats, actions: Ints) -> tuple[Floats, Floats]:
    """(d,), (d, d), (n, K, d), (n,) -> probabilities and their standard errors, (n,)."""
    best = np.take_along_axis(contexts, actions[:, None, None], axis=1)
    apart = best - contexts  # (n, K, d)
    same = np.sum(np.all(apart == 0, axis=-1), axis=-1)  # arms that are equal share
    if contexts.shape[1] == 2:
        other = np.take_along_axis(apart, 1 - actions[:, None, None], axis=1)[:, 0]
        along = (other[:, None, :] @ root)[:, 0]  # each by itself
        chance = special.ndtr(_ratio(inner(other, np.broadcast_to(mean, other.shape)), np.sqrt(inner(along, along))))
        return np.where(same > 1, 0.5, chance), np.zeros(len(actions))
    apart, again = np.unique(apart, axis=0, return_inverse=True)  # decisions that are alike are computed once
    spread = root @ directions(len(mean)).T  # (d, directions)
    parts = [_along(part @ mean, part @ spread, len(mean)) for part in np.split(apart, range(_PART, len(apart), _PART))]
    chances = np.concatenate(parts)[again.ravel()]  # (n, directions)
    error = np.std(chances, axis=-1) / np.sqrt(chances.shape[-1])
    return np.mean(chances, axis=-1) / same, error / same


def _along(level: Floats, slope: Floats, dim: int) -> Floats:
    """P(level_j + r slope_j >= 0 for all j), (n, K) and (n, K, directions) -> (n, directions)."""
    crossing = -_ratio(level[..., None], slope)  # of a slope of 0: minus or plus infinity, or 0 / 0 for an equal arm
    low = np.max(np.where(slope > 0, crossing, -np.inf), axis=1)
    high = np.min(np.where(slope < 0, crossing, np.inf), axis=1)
    never = np.any((slope == 0) & (level[..., None] < 0), axis=1)
    return np.where(never, 0.0, np.maximum(_below(high, dim) - _below(low, dim), 0.0))


def _below(radius: Floats, dim: int) -> Floats:
    """P(r <= radius) of a signed radius whose size is chi-distributed."""
    return np.asarray(0.5 + 0.5 * np.sign(radius) * special.gammainc(dim / 2, radius**2 / 2))


@np.errstate(divide="ignore", invalid="ignore")
def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / below)


@lru_cache(maxsize=32)
def directions(dim: int) -> Floats:
    """A fixed sample of uniform directions, (DIRECTIONS, d); public."""
    drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, dim))
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
    nodes = np.linspace(-9.0, 9.0, _NODES)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()  # the trapezoidal rule, which is as exact as a smooth integrand is
    rows = np.arange(len(actions))
    at = mean[rows, actions, None] + spread[rows, actions, None] * nodes  # (n, nodes)
    below = special.ndtr(_ratio(at[:, None, :] - mean[..., None], spread[..., None]))  # (n, K, nodes)
    below[rows, actions] = 1.0
    return np.asarray(np.sum(np.prod(below, axis=1) * weights, axis=-1))
