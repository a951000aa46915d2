"""How far the error of a sum goes: the variance that is known of it, and the probability of an error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats

_NODES = 64
_FARTHEST = 4.0  # standard errors below the least possible variance: a released one that is lower is taken for this
_MOST_SKEW = 0.5  # of the short tail
_LONGEST_SKEW = 1.0


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The variance of an error; each a number or an array, all of one shape.

    sampled  that of sampling, exact or as it was released: then perhaps negative
    noise    that of the noise: public, and exact or an upper bound
    error    standard deviation of the noise in `sampled`, 0 where it is exact
    third    third cumulant of sampling, exact or as it was estimated
    steepest upper bounds of the third cumulant of the error downwards and upwards, where `third` was estimated
    lean     covariance of the noise of the sum with the noise in `sampled`
    extra    of one unseen person, on top of what was released
    laplace  the noise has the tails of Laplace's law, else those of the normal one
    """

    sampled: float | Floats
    noise: float | Floats = 0.0
    error: float | Floats = 0.0
    third: float | Floats = 0.0
    steepest: tuple[float | Floats, float | Floats] | None = None
    lean: float | Floats = 0.0
    extra: float | Floats = 0.0
    laplace: bool = False

    def over(self, n: int) -> Spread:
        """Of the sum divided by n."""
        steepest = None if self.steepest is None else (self.steepest[0] / n**3, self.steepest[1] / n**3)
        return replace(
            self,
            sampled=self.sampled / n**2,
            noise=self.noise / n**2,
            error=self.error / n**2,
            third=self.third / n**3,
            steepest=steepest,
            lean=self.lean / n**3,
        )

    def towards(self, side: int, surprise: float | Floats) -> Spread:
        """As it matters for an end above (1) or below (-1) the estimate, with one more person so far on that side.

        A negative third cumulant brings the end nearer. An estimated one does so as far as the upper bound allows. A
        variance that moves with the sum is skewness too: the deviate of an error d changes by d^2/2 times the
        covariance, which is 3/2 of what a third cumulant of that size does where d is large.
        """
        third = side * self.third
        if self.steepest is not None:
            third = np.maximum(third, np.minimum(self.steepest[(side + 1) // 2], 0.0))
        third = third + 1.5 * side * self.lean + surprise**3
        return replace(self, third=third, steepest=None, lean=0.0, extra=self.extra + surprise**2)


@lru_cache(maxsize=1)
def _shares() -> Floats:
    """Middles of parts of equal probability."""
    return (np.arange(_NODES) + 0.5) / _NODES


def variances(spread: Spread) -> tuple[Floats, Floats]:
    """Variances that the sum may have, (..., nodes), and their weights: a normal law cut at the noise, times v."""
    sampled, noise, error, extra = (
        np.asarray(each, dtype=float)[..., None] for each in (spread.sampled, spread.noise, spread.error, spread.extra)
    )
    if not np.any(error > 0):
        v = np.maximum(sampled, 0.0) + noise + extra
        return v, np.ones_like(v)
    error = np.maximum(error, 1e-300)
    released = np.maximum(sampled, -_FARTHEST * error)
    least = np.maximum(-released / error, -40.0)  # of a normal deviate: sampling variances are not negative
    deviate = -special.ndtri(special.ndtr(-least) * (1 - _shares()))
    v = noise + np.maximum(released + error * deviate, 0.0)
    return v + extra, v


def mean_variance(spread: Spread) -> float:
    """Of one sum."""
    v, weights = variances(spread)
    return float(np.sum(v * weights) / np.sum(weights))


def beyond(distance: Floats, spread: Spread) -> Floats:
    """The probability of an error of this distance or more, where `third` is as `towards` a side has it."""
    v, weights = variances(spread)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(v)
        d = np.where(v > 0, distance[..., None] / root, np.where(distance[..., None] > 0, np.inf, 0.0))
        g = np.where(v > 0, np.asarray(spread.third)[..., None] / (v * root), 0.0)
        y = deviation(d, g)
        share = np.where(v > 0, np.asarray(spread.noise)[..., None] / v, 0.0)
    chance = laplace_tail(y, np.clip(share, 0.0, 1.0)) if spread.laplace else special.ndtr(-y)
    return np.asarray(np.sum(weights * chance, axis=-1) / np.sum(weights, axis=-1))


def deviation(d: Floats, g: Floats) -> Floats:
    """The normal deviate as likely as a studentised sum at d, of skewness g; g > 0 where this side's end is farther.

    There the variance under what is tested is v (1 + g d), and the tail of a sum of that variance is short; on the
    other side it is Hall's transform. Both are d - g (2 d^2 + 1)/6 to first order.
    """
    long = np.clip(g, 0.0, _LONGEST_SKEW)
    score = d / np.sqrt(1 + long * d)
    score = np.where(np.isinf(d), np.inf, score)
    short = np.clip(-g, 1e-9, _MOST_SKEW)
    hall = d + short * d * d / 3 + short**2 * d**3 / 27 + short / 6
    return np.asarray(np.where(g > 0, score + long * (score * score - 1) / 6, hall))


def laplace_tail(y: Floats, share: Floats) -> Floats:
    """P(X >= y) of X with variance 1, of which Laplace noise has this share and a normal law the rest."""
    b = np.sqrt(np.maximum(share, 1e-12) / 2)
    a = np.sqrt(np.maximum(1 - share, 1e-12))
    ratio = a / b
    size = np.abs(y)
    size = np.where(np.isinf(size), 1e9, size)
    one = np.exp(np.minimum(ratio**2 / 2 - size / b + special.log_ndtr(size / a - ratio), 0.0))
    two = np.exp(np.minimum(ratio**2 / 2 + size / b + special.log_ndtr(-size / a - ratio), 0.0))
    upper = special.ndtr(-size / a) + (one - two) / 2
    mixed = np.where(y >= 0, upper, 1 - upper)
    return np.asarray(np.where(share > 1e-4, mixed, special.ndtr(-y)))
