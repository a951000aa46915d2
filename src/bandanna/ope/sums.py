"""What an estimate and its interval are made of: sums over everybody, exact or released."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.arrays import Floats
from bandanna.ope.weighing import Weighed

_MOST_SKEW = 0.5


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Of one target, with rho = r - 1/2.

    value, weight  sums of w rho and of w
    squares        sums of w^2 rho^2, w^2 rho and w^2
    noise          variances of what was added to these five
    hidden         the share of the target's probability that clipping has cut off, and its standard error
    size           effective sample size, where it is known
    slack          how far the sum of w^2 rho may be from where it is if weights do not go with rewards
    """

    value: float
    weight: float
    squares: tuple[float, float, float]
    noise: tuple[float, ...]
    hidden: tuple[float, float]
    size: float | None
    private: bool
    guarantee: Guarantee | None
    slack: float = 0.0

    def at(self, theta: float) -> float:
        """The sum of w^2 (rho - theta)^2."""
        a, b, c = self.squares
        return max(a - 2 * theta * b + theta**2 * c, 0.0)

    def added(self, theta: float) -> float:
        """The variance of the noise in the sum of w (rho - theta)."""
        return self.noise[0] + theta**2 * self.noise[1]

    def freedom(self, theta: float) -> float:
        """Degrees of freedom of the variance at theta (Satterthwaite 1946): twice its square by its own variance.

        That of the middle term is no more than a uniform one's, between what weights and rewards allow.
        """
        cross = min(self.noise[3], self.slack**2 / 3)
        wobble = self.noise[2] + 4 * theta**2 * cross + theta**4 * self.noise[4]
        return 2 * (self.at(theta) + self.added(theta)) ** 2 / wobble if wobble > 0 else math.inf

    def skew(self, theta: float) -> float:
        """Of the sum of w (rho - theta) and its noise, about: w^3 is taken for w^2 times the mean weight of weights.

        And rho^3 for rho times the mean of rho^2: exact for rewards of 0 or 1 and weights of 0 or M.
        """
        a, b, c = self.squares
        if not (c > 0 and self.weight > 0):
            return 0.0
        third = (c / self.weight) * (b * a / c - 3 * theta * a + 3 * theta**2 * b - theta**3 * c)
        spread = self.at(theta) + self.added(theta)
        return min(max(third / spread**1.5, -_MOST_SKEW), _MOST_SKEW) if spread > 0 else 0.0


def cut_off(excess: Floats) -> tuple[float, float]:
    """The mean of what was cut off, (n,), and its standard error; nothing is nothing."""
    share, n = float(np.mean(excess)), len(excess)
    if share < 1e-12:
        return 0.0, 0.0
    return min(share, 1.0), float(np.std(excess, ddof=min(1, n - 1))) / math.sqrt(n)


def missing(weight: float, square: float, noise: float, people: int) -> tuple[float, float]:
    """1 - the mean of released weights, and its standard error: E w = 1 where nothing was cut off."""
    mean = weight / people
    spread = max(square / people - mean**2, 0.0) / people + noise / people**2
    return min(max(1 - mean, 0.0), 1.0), math.sqrt(spread)


def exact_sums(case: Weighed, *, hidden: tuple[float, float] | None = None) -> Sums:
    """Without privacy; what is clipped is seen."""
    w, rho = case.weights, case.rewards - 0.5
    squares = float(np.sum(w * w * rho * rho)), float(np.sum(w * w * rho)), float(np.sum(w * w))
    weight = float(np.sum(w))
    return Sums(
        value=float(np.sum(w * rho)),
        weight=weight,
        squares=squares,
        noise=(0.0,) * 5,
        hidden=cut_off(case.raw - w) if hidden is None else hidden,
        size=weight**2 / squares[2] if squares[2] > 0 else 0.0,
        private=False,
        guarantee=None,
    )


def read_sums(case: Weighed, parts: Floats, noise: Floats, guarantee: Guarantee) -> Sums:
    """Released ones: sums of squares are made such as n people with weights up to M can have them."""
    n, bound = case.people, case.bound
    value, weight = float(parts[0]), float(parts[1])
    held = max(weight, 0.0)
    c = min(max(float(parts[4]), held**2 / n), bound * held)  # w^2 <= M w
    a = min(max(float(parts[2]), value**2 / n), bound * held / 4)  # rho^2 <= 1/4
    middle, slack = _together(value, held, c, bound)
    squares = a, min(max(float(parts[3]), middle - slack), middle + slack), c
    return Sums(
        value=value,
        weight=weight,
        squares=squares,
        noise=tuple(float(each) for each in noise),
        hidden=(0.0, 0.0) if case.safe else missing(weight, c, float(noise[1]), n),
        size=min(held**2 / squares[2], float(n)) if squares[2] > 0 else 0.0,
        private=True,
        guarantee=guarantee,
        slack=slack,
    )


def _together(value: float, weight: float, square: float, bound: float) -> tuple[float, float]:
    """Where the sum of w^2 rho can be: theta sum w^2 where weights do not go with rewards, theta = U/V; how far off.

    The difference is a covariance of w and rho under weights w: at most V sqrt(var w var rho), by Cauchy and Schwarz,
    and there var w <= g (M - g), g = sum w^2 / V, and var rho <= 1/4 - theta^2. Weights of 0 and M leave nothing open.
    """
    if not weight > 0:
        return 0.0, 0.0
    theta, mean = min(max(value / weight, -0.5), 0.5), square / weight
    return theta * square, weight * math.sqrt(max(mean * (bound - mean), 0.0) * (0.25 - theta**2))
