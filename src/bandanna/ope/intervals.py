"""Intervals for means and ratios: sampling, noise, skewness, and what clipping hides.

A mean of n numbers whose sum has skewness g (third moment by the deviation's cube) is studentised, and Hall's (1992)
transform of that has no skewness to first order:

    y = T + g (2 T^2 + 1)/6 + g^2 T^3 / 27 (+ ...),     T = 3/g ((1 + g (y - g/6))^{1/3} - 1).

A ratio U/V is in the interval of Fieller (1954) where U - theta V is compatible with 0: its variance is a parabola in
theta, noise of both sums included, so the ends are roots of one.

Where weights are clipped, the value is known up to an interval of length D only. Imbens and Manski (2004): ends that
are C standard errors outside of it cover the value with probability Phi(C + D/se) - Phi(-C).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from scipy import optimize, special

_STRAIGHT = 1e-8  # skewness below which nothing is transformed
_FEW, _MANY = 3.0, 1e6  # degrees of freedom, at least and as good as infinitely many


def critical(level: float, apart: float) -> float:
    """C with Phi(C + apart) - Phi(-C) = level; apart = D/se: from 1.96 for 0 down to 1.645, for 95 %."""
    most = float(special.ndtri((1 + level) / 2))
    if not apart > 0:
        return most
    least = float(special.ndtri(level)) if level > 0.5 else -most

    def short(c: float) -> float:
        return float(special.ndtr(c + min(apart, 60.0)) - special.ndtr(-c)) - level

    return most if short(most) <= 0 else least if short(least) >= 0 else float(optimize.brentq(short, least, most))


def quantile(z: float, skew: float, freedom: float) -> float:
    """Of the studentised mean, where the normal one is z; the variance has so many degrees of freedom."""
    y = z if freedom > _MANY else float(special.stdtrit(max(freedom, _FEW), special.ndtr(z)))
    return y if abs(skew) < _STRAIGHT else 3 / skew * (math.cbrt(1 + skew * (y - skew / 6)) - 1)


class Law(ABC):
    """How an estimate is distributed about what it estimates."""

    estimate: float
    stderr: float
    noise: float  # standard deviation of what was added for privacy, 0 without

    @abstractmethod
    def limits(self, z: float) -> tuple[float, float]:
        """The ends that are z standard errors away."""


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """The share of a target's probability that clipping has cut off, and how far it may pull the estimate, by sides.

    The value lies between estimate - `below` share and estimate + `above` share, whatever rewards are hidden.
    """

    share: float = 0.0
    stderr: float = 0.0
    below: float = 0.0
    above: float = 0.0

    def turned(self) -> Hidden:
        """Of the estimate with the other sign."""
        return Hidden(share=self.share, stderr=self.stderr, below=self.above, above=self.below)


def ends(law: Law, hidden: tuple[Hidden, ...], level: float) -> tuple[float, float]:
    """An interval for what an estimate and hidden parts allow; the error of a hidden share counts in its end."""
    parts = [each for each in hidden if each.share > 0]
    below = sum(each.below * each.share for each in parts)
    above = sum(each.above * each.share for each in parts)
    apart = (below + above) / law.stderr if law.stderr > 0 else math.inf
    z = critical(level, apart if below + above > 0 else 0.0)
    low, high = law.limits(z)
    errors = [min(each.stderr, each.share / 2) for each in parts]  # less of one that may be none
    down = math.hypot(law.estimate - low, *(z * each.below * e for each, e in zip(parts, errors, strict=True)))
    up = math.hypot(high - law.estimate, *(z * each.above * e for each, e in zip(parts, errors, strict=True)))
    return (low if not parts else law.estimate - down - below), (high if not parts else law.estimate + up + above)


@dataclass(frozen=True, kw_only=True)
class Mean(Law):
    """A mean, or what is nearly one."""

    estimate: float
    stderr: float
    noise: float = 0.0
    skew: float = 0.0  # of the mean
    freedom: float = math.inf  # of its standard error

    def limits(self, z: float) -> tuple[float, float]:
        """By Hall's transform."""
        return tuple(self.estimate - self.stderr * quantile(side, self.skew, self.freedom) for side in (z, -z))  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Ratio(Law):
    """1/2 + U/V, of sums with var(U - theta V) = a - 2 theta b + theta^2 c, noise included."""

    value: float  # U
    weight: float  # V
    spread: tuple[float, float, float]  # a, b, c
    noise: float = 0.0
    skew: float = 0.0
    freedom: float = math.inf

    @property
    def _theta(self) -> float:
        """U/V, where it is one of a reward."""
        return min(max(self.value / self.weight, -0.5), 0.5) if self.weight > 0 else 0.0

    @property
    def estimate(self) -> float:  # type: ignore[override]
        """In [0, 1]; 1/2 where nothing weighs anything."""
        return 0.5 + self._theta

    @property
    def stderr(self) -> float:  # type: ignore[override]
        """To first order."""
        theta, (a, b, c) = self._theta, self.spread
        return math.sqrt(max(a - 2 * theta * b + theta**2 * c, 0.0)) / self.weight if self.weight > 0 else math.inf

    def limits(self, z: float) -> tuple[float, float]:
        """By Fieller; all rewards where the weight may be none."""
        return tuple(0.5 + self._end(quantile(side, self.skew, self.freedom), side) for side in (z, -z))  # type: ignore[return-value]

    def _end(self, q: float, side: float) -> float:
        """theta with (U - theta V) / sd(theta) = q."""
        far = -0.5 if side > 0 else 0.5
        a = self.weight**2 - q * q * self.spread[2]
        b = self.value * self.weight - q * q * self.spread[1]
        c = self.value**2 - q * q * self.spread[0]
        if self.weight <= 0 or a <= 0:
            return far
        root = math.sqrt(max(b * b - a * c, 0.0))
        return min(max((b - math.copysign(root, q)) / a, -0.5), 0.5)
