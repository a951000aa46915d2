"""What an estimate and its interval are made of: sums over everybody, exact or released."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.arrays import Floats
from bandanna.ope.release import Released
from bandanna.ope.spread import Spread
from bandanna.ope.weighing import Weighed

_MULTIPLES = 9


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Of one target, with rho = r - 1/2.

    value, weight  sums of w rho and of w
    squares        sums of w^2 rho^2, w^2 rho and w^2, exact or as they were released
    cubes          sums of w^3 rho^3, w^3 rho^2, w^3 rho and w^3, where they are known
    noise          variances of what was added to the first five
    laplace        whether that is Laplace noise
    people         n
    largest        M, or the largest weight where there is no bound
    hidden         the share of the target's probability that clipping has cut off, and its standard error
    """

    value: float
    weight: float
    squares: tuple[float, float, float]
    cubes: tuple[float, float, float, float] | None = None
    noise: tuple[float, ...] = (0.0,) * 5
    laplace: bool = False
    people: int
    largest: float
    hidden: tuple[float, float]
    guarantee: Guarantee | None = None

    @property
    def private(self) -> bool:
        """Whether they were released."""
        return self.guarantee is not None

    @property
    def ratio(self) -> float:
        """U/V, where it is one of a reward."""
        return min(max(self.value / self.weight, -0.5), 0.5) if self.weight > 0 else 0.0

    @property
    def size(self) -> float:
        """Effective sample size."""
        square = self.possible[2]
        return min(max(self.weight, 0.0) ** 2 / square, float(self.people)) if square > 0 else 0.0

    @property
    def possible(self) -> tuple[float, float, float]:
        """The sums of squares nearest to what was released that n people with weights up to M can have."""
        a, b, c = self.squares
        if not self.private:
            return a, b, c
        held, value, bound = max(self.weight, 0.0), self.ratio * max(self.weight, 0.0), self.largest
        c = min(max(c, held**2 / self.people), bound * held)  # w^2 <= M w
        a = min(max(a, value**2 / self.people), c / 4)  # rho^2 <= 1/4
        slack = (bound * held - c) / 2  # (M - w) (w/2 +- w rho) >= 0
        most = math.sqrt(a * c)
        return a, min(max(b, bound * value - slack, -most), bound * value + slack, most), c

    def at(self, theta: float) -> float:
        """The sum of w^2 (rho - theta)^2."""
        a, b, c = self.squares
        return a - 2 * theta * b + theta**2 * c

    def wobble(self, theta: float) -> float:
        """The variance of the noise in it."""
        return self.noise[2] + 4 * theta**2 * self.noise[3] + theta**4 * self.noise[4]

    def added(self, theta: float | Floats) -> Any:
        """The variance of the noise in the sum of w (rho - theta)."""
        return self.noise[0] + theta**2 * self.noise[1]

    def spread(self, theta: Floats) -> Spread:
        """The variance of the sum of w (rho - theta) if the value is theta, so that its mean is 0; of any shape."""
        sampled, error, lean = self._second(theta)
        third = self.third(theta, sampled)
        steepest = None if self.cubes is not None else (self._steepest(theta, -1), self._steepest(theta, 1))
        return Spread(
            sampled=sampled, noise=self.added(theta), error=error, third=third, steepest=steepest, lean=lean,
            laplace=self.laplace,
        )  # fmt: skip

    def _second(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """An upper bound of sum w^2 (rho - theta)^2, as it was released; of its noise the deviation, and the covariance
        with that of sum w (rho - theta).

        The noise of sum w^2 rho is large. What is known of that sum without it: with s the sign of theta, the sum of
        (M - w) (w/2 - s w rho) >= 0 is

            s sum w^2 rho - sum w^2 / 2 + M (sum w / 2 - s sum w rho),

        so any multiple l of it, from 0 to 2 |theta|, may be added. It is 0 for weights of 0 and M, where l = 2 |theta|
        removes sum w^2 rho altogether. The l that costs least in the end is guessed from the sum of w^2. All sums are
        those of these people: what they are on average, if the value is theta, is another number.
        """
        (a, b, c), n, bound = self.squares, self.people, self.largest
        theta = np.asarray(theta, dtype=float)[..., None]
        if not self.private:
            return (a - 2 * theta * b + theta**2 * c)[..., 0], np.zeros(theta.shape[:-1]), np.zeros(theta.shape[:-1])
        t, sign = np.abs(theta), np.sign(theta)
        more = 2 * t * np.linspace(0.0, 1.0, _MULTIPLES)
        of_b, of_c, of_sums = -(2 * t - more) * sign, t**2 - more / 2, more * bound
        of_noise = self.noise[2] + of_b**2 * self.noise[3] + of_c**2 * self.noise[4]
        error = np.sqrt(of_noise + of_sums**2 * (self.noise[0] + self.noise[1] / 4))
        sampled = a + of_b * b + of_c * c + of_sums * (self.weight / 2 - sign * self.value)
        excess = more * (0.5 - t) * max(bound * n - c, 0.0)  # where weights do not go with rewards
        cost = excess + error**2 / (error + self.added(theta))
        best = np.argmin(cost, axis=-1)[..., None]
        lean = -of_sums * (sign * self.noise[0] + theta / 2 * self.noise[1])
        one, two, three = (np.take_along_axis(each, best, axis=-1)[..., 0] for each in (sampled, error, lean))
        return one, two, three

    def third(self, theta: Any, sampled: Any) -> Any:
        """Third cumulant of the sum of w (rho - theta).

        Of released sums, about: w^3 is taken for w^2 times the mean weight of weights, and rho^3 for rho times the mean
        of rho^2, which is exact for rewards of 0 or 1 and weights of 0 or M; and as far as it exceeds its own noise.
        """
        if self.cubes is not None:
            a, b, c, d = self.cubes
            return a - 3 * theta * b + 3 * theta**2 * c - theta**3 * d
        if not self.weight > 0:
            return 0.0 * theta
        a, b, c = self.possible
        product = b * a - 3 * theta * a * c + 3 * theta**2 * b * c - theta**3 * c * c  # times the weight
        slopes = b - 3 * theta * c, a + 3 * theta**2 * c, -3 * theta * a + 3 * theta**2 * b - 2 * theta**3 * c
        noise = sum(slope**2 * each for slope, each in zip(slopes, self.noise[2:], strict=True))
        most = self.largest * (0.5 + np.abs(theta)) * np.maximum(sampled, 0.0)
        kept = np.maximum(product**2 - noise, 0.0) / np.maximum(product**2, 1e-300)
        return np.clip(product * kept / self.weight, -most, most)

    def _steepest(self, theta: Floats, side: int) -> Floats:
        """An upper bound of the third cumulant of the sum of w y, y = side (rho - theta), with w^3 as in `third`.

        No y is above h = 1/2 - side theta, so y^3 <= (h - 2 k) y^2 + (2 k h - k^2) y + k^2 h for every k; the k that
        gives the least sum is taken. Rewards of 0 or 1 reach it.
        """
        if not self.weight > 0:
            return np.zeros_like(theta)
        a, b, c = self.possible
        h = 0.5 - side * theta
        first, second = side * (b - theta * c), a - 2 * theta * b + theta**2 * c  # sums of w^2 y and w^2 y^2
        k = np.clip((second - h * first) / np.maximum(h * c - first, 1e-300), 0.0, 1.0)
        cube = (h - 2 * k) * second + (2 * k * h - k**2) * first + k**2 * h * c
        return np.asarray(cube * c / self.weight)


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
    return min(1 - mean, 1.0), math.sqrt(spread)


def exact_sums(case: Weighed, *, hidden: tuple[float, float] | None = None) -> Sums:
    """Without privacy; what is clipped is seen."""
    w, rho = case.weights, case.rewards - 0.5
    return Sums(
        value=float(np.sum(w * rho)),
        weight=float(np.sum(w)),
        squares=tuple(float(np.sum(w * w * rho**power)) for power in (2, 1, 0)),  # type: ignore[arg-type]
        cubes=tuple(float(np.sum(w**3 * rho**power)) for power in (3, 2, 1, 0)),  # type: ignore[arg-type]
        people=case.people,
        largest=float(np.max(w)),
        hidden=cut_off(case.raw - w) if hidden is None else hidden,
    )


def read_sums(case: Weighed, parts: Floats, released: Released, units: Floats) -> Sums:
    """Released ones, (5,), in which the noise was multiplied by `units`."""
    noise = released.variance * units**2
    sums = Sums(
        value=float(parts[0]),
        weight=float(parts[1]),
        squares=(float(parts[2]), float(parts[3]), float(parts[4])),
        noise=tuple(float(each) for each in noise),
        laplace=released.laplace,
        people=case.people,
        largest=case.bound,
        hidden=(0.0, 0.0),
        guarantee=released.guarantee,
    )
    if case.safe:
        return sums
    return replace(sums, hidden=missing(sums.weight, sums.possible[2], float(noise[1]), case.people))
