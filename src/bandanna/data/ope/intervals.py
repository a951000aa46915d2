"""`Value`, an estimate with its interval, and the laws of means, ratios and differences that intervals come from.

An interval holds the values theta that a test does not reject: a sum S(theta) has the mean 0, and theta is rejected
where a larger |S| has a probability below alpha/2 on either side (docs/how-to/evaluate-a-log.md).

*Variance.* The variance v of S is the sampling variance Q plus the public noise variance N. A released Q has a Gaussian
error of known standard deviation. The probability is averaged over v >= N with the density v exp(-(v - released)^2 / 2
error^2).

*Skewness.* Towards the long tail of S, of skewness g, the variance under theta is v (1 + g d), d = S/sqrt v; the other
tail has Hall's (1992) transform. One unseen user at the end of the range is added to variance and skewness.

*Ratios.* U/V has S(theta) = U - theta V, with the noise of both (Fieller 1954).

*Clipping.* It leaves an interval of length D for the value, and ends C standard errors outside of it cover the value
with probability Phi(C + D/se) - Phi(-C) (Imbens and Manski 2004).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from scipy import optimize, special

from bandanna import validation
from bandanna.data.ope.sums import ErrorSpread, WeightedSums, mean_variance, tail_probability
from bandanna.privacy.guarantee import Guarantee
from bandanna.types import Floats

_GRID = np.linspace(0.0, 1.0, 33)


def critical_value(level: float, apart: float) -> float:
    """Solve Phi(C + apart) - Phi(-C) = level for C, with apart = D/se."""
    most = float(special.ndtri((1 + level) / 2))
    if not apart > 0:
        return most
    least = float(special.ndtri(level)) if level > 0.5 else -most

    def short(c: float) -> float:
        return float(special.ndtr(c + min(apart, 60.0)) - special.ndtr(-c)) - level

    return most if short(most) <= 0 else least if short(least) >= 0 else float(optimize.brentq(short, least, most))


class EstimateLaw(ABC):
    """The law of an estimate about the value that it estimates."""

    estimate: float
    stderr: float
    noise: float  # standard deviation of what was added for privacy, 0 without

    @abstractmethod
    def limits(self, z: float) -> tuple[float, float]:
        """Return ends that are each missed with the normal tail probability of z; low <= estimate <= high."""


@dataclass(frozen=True, kw_only=True)
class ClippedMass:
    """The share of a target's probability that clipping has cut off; a released share may be negative.

    The value lies between estimate - `below` share and estimate + `above` share.
    """

    share: float = 0.0
    stderr: float = 0.0
    below: float = 0.0
    above: float = 0.0

    def turned(self) -> ClippedMass:
        """Return the share for the negated estimate."""
        return ClippedMass(share=self.share, stderr=self.stderr, below=self.above, above=self.below)


def interval_ends(law: EstimateLaw, hidden: tuple[ClippedMass, ...], level: float) -> tuple[float, float]:
    """Return the interval for an estimate with hidden parts, whose errors are included."""
    parts = [each for each in hidden if each.share > 0 or each.stderr > 0]
    below = sum(each.below * each.share for each in parts)
    above = sum(each.above * each.share for each in parts)
    apart = (below + above) / law.stderr if law.stderr > 0 else math.inf
    z = critical_value(level, apart if below + above > 0 else 0.0)
    low, high = law.limits(z)
    down = math.hypot(law.estimate - low, *(z * each.below * each.stderr for each in parts))
    up = math.hypot(high - law.estimate, *(z * each.above * each.stderr for each in parts))
    return min(low, law.estimate - down - below), max(high, law.estimate + up + above)


@dataclass(frozen=True, kw_only=True)
class MeanLaw(EstimateLaw):
    """The law of a mean: `value`, clipped to `inside` if given, and the variance of its error.

    `surprise` is how far one unseen user may move the mean, down and up.
    """

    value: float
    spread: ErrorSpread
    surprise: tuple[float, float] = (0.0, 0.0)
    inside: tuple[float, float] = (-math.inf, math.inf)

    @property
    def estimate(self) -> float:  # type: ignore[override]
        return min(max(self.value, self.inside[0]), self.inside[1])

    @property
    def stderr(self) -> float:  # type: ignore[override]
        return math.sqrt(mean_variance(self.spread))

    @property
    def noise(self) -> float:  # type: ignore[override]
        return math.sqrt(self.spread.noise)

    def limits(self, z: float) -> tuple[float, float]:
        low, high = (self._distance(z, side) for side in (-1, 1))
        return self.estimate - low, self.estimate + high

    def _distance(self, z: float, side: int) -> float:
        if not math.isfinite(self.spread.sampled):
            return math.inf
        tail = float(special.ndtr(-z))
        spread = self.spread.towards(side, abs(self.surprise[(side + 1) // 2]))
        far = math.sqrt(mean_variance(spread))

        def surplus(distance: float) -> float:
            return float(tail_probability(np.array(distance), spread)) - tail

        if not far > 0 or surplus(0.0) <= 0:
            return 0.0
        while surplus(far) > 0:
            far *= 2
        return float(optimize.brentq(surplus, 0.0, far, xtol=1e-14, rtol=1e-10))


@dataclass(frozen=True, kw_only=True)
class RatioLaw(EstimateLaw):
    """The law of 1/2 + U/V of sums, exact or released, clipped to [0, 1]; 1/2 if all weights are 0."""

    sums: WeightedSums

    @property
    def _theta(self) -> float:
        return self.sums.ratio

    @property
    def estimate(self) -> float:  # type: ignore[override]
        return 0.5 + self._theta

    @property
    def stderr(self) -> float:  # type: ignore[override]
        if not self.sums.weight > 0:
            return math.inf
        return math.sqrt(mean_variance(self.sums.spread(np.array(self._theta)))) / self.sums.weight

    @property
    def noise(self) -> float:  # type: ignore[override]
        return math.sqrt(self.sums.added(self._theta)) / self.sums.weight if self.sums.weight > 0 else math.inf

    def limits(self, z: float) -> tuple[float, float]:
        """Return Fieller's ends; [0, 1] if the weight may be 0."""
        if not self.sums.weight > 0:
            return 0.0, 1.0
        low, high = (0.5 + self._end(float(special.ndtr(-z)), side) for side in (-1, 1))
        return low, high

    def _end(self, tail: float, side: int) -> float:
        theta, sums = self._theta, self.sums

        def surplus(values: Floats) -> Floats:
            distance = np.abs(values - theta) * sums.weight
            spread = sums.spread(values).towards(side, sums.largest * (0.5 - side * values))
            return tail_probability(distance, spread) - tail

        return _last_nonnegative(surplus, theta, 0.5 * side)


def _last_nonnegative(surplus: Callable[[Floats], Floats], start: float, far: float) -> float:
    """Search for the last point from start to far with a nonnegative surplus: by a grid, then by its root."""
    points = start + (far - start) * _GRID
    places = np.flatnonzero(surplus(points) >= 0)
    if not len(places):
        return start
    last = int(places[-1])
    if last == len(points) - 1:
        return far
    one, two = float(points[last]), float(points[last + 1])
    return float(optimize.brentq(lambda point: float(surplus(np.array(point))), one, two, xtol=1e-12))


@dataclass(frozen=True, kw_only=True)
class DifferenceLaw(EstimateLaw):
    """The law of the difference of two estimates with independent noise: squared distances add up (Zou and Donner
    2008).

    If `apart`, sampling errors are uncorrelated, or `shared` is the standard deviation that their correlation adds.
    Otherwise the worst case is covered.
    """

    first: EstimateLaw
    second: EstimateLaw
    apart: bool
    shared: float = 0.0

    @property
    def estimate(self) -> float:  # type: ignore[override]
        return self.first.estimate - self.second.estimate

    @property
    def noise(self) -> float:  # type: ignore[override]
        return math.hypot(self.first.noise, self.second.noise)

    @property
    def stderr(self) -> float:  # type: ignore[override]
        return self._joined(self.first.stderr, self.second.stderr, 1.0)

    def limits(self, z: float) -> tuple[float, float]:
        (low, high), (least, most) = self.first.limits(z), self.second.limits(z)
        down = self._joined(self.first.estimate - low, most - self.second.estimate, z)
        up = self._joined(high - self.first.estimate, self.second.estimate - least, z)
        return self.estimate - down, self.estimate + up

    def _joined(self, one: float, other: float, z: float) -> float:
        if self.apart or not math.isfinite(one + other):
            return math.hypot(one, other, z * self.shared)
        shares = [_noise_share(law) for law in (self.first, self.second)]
        sampled = sum(each * math.sqrt(1 - share) for each, share in zip((one, other), shares, strict=True))
        return math.hypot(sampled, *(each * math.sqrt(share) for each, share in zip((one, other), shares, strict=True)))


def _noise_share(law: EstimateLaw) -> float:
    return min((law.noise / law.stderr) ** 2, 1.0) if 0 < law.stderr < math.inf else 0.0


# The value of a target


_NAMES = {"ips": "IPS", "snips": "SNIPS", "dr": "DR", "dm": "Direct method", "switch": "Switch"}


@dataclass(frozen=True, kw_only=True)
class Value:
    """The mean reward that a target would earn from users like those in the log.

    Parameters
    ----------
    estimate
        In the rewards' own units.
    people
        Number of users in the log; public.
    weight_bound
        The bound at which weights were clipped; infinite if they were not.
    clipped_mass
        Upper bound on the share of the target's probability that was cut off.
    effective_sample_size
        The number of users, drawn by the target itself, with the same information; None if not released.
    guarantee
        The guarantee to the users in the log.
    """

    method: str
    target: str
    estimate: float
    people: int
    weight_bound: float
    clipped_mass: float
    effective_sample_size: float | None
    guarantee: Guarantee
    reward_range: tuple[float, float]
    seeded: bool = False
    law: EstimateLaw = field(repr=False)  # of the estimate on rewards in [0, 1]
    hidden: ClippedMass = field(default=ClippedMass(), repr=False)  # what was cut off, and how far that may pull
    details: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def _span(self) -> float:
        return self.reward_range[1] - self.reward_range[0]

    @property
    def stderr(self) -> float:
        """The standard error from sampling and noise, without the bias of clipping."""
        return self._span * self.law.stderr

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise alone."""
        return self._span * self.law.noise

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval that covers the target's value with probability `level`: sampling, noise and the bias of
        clipping.

        low <= estimate <= high. It is clipped to the range of rewards, except where an estimate without privacy is
        outside. The direct method's interval does not include the error of the reward model.
        """
        low, high = interval_ends(self.law, (self.hidden,), validation.open_probability("level", level))
        least, span = self.reward_range[0], self._span
        return min(least + span * max(low, 0.0), self.estimate), max(least + span * min(high, 1.0), self.estimate)

    def diagnostics(self) -> dict[str, Any]:
        """Return numbers that show whether the estimate can be trusted."""
        low, high = self.interval()
        return {
            **self.to_dict(),
            "interval_width": high - low,
            "noise_share": 0.0 if self.stderr == 0 else _format_number((self.noise_std / self.stderr) ** 2),
            "sample_share": _format_share(self.effective_sample_size, self.people),
            **self.details,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; unknown and infinite values are None."""
        low, high = self.interval()
        numbers = {
            "estimate": self.estimate,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "noise_std": self.noise_std,
            "weight_bound": self.weight_bound,
            "clipped_mass": self.clipped_mass,
        }
        size = self.effective_sample_size
        return {
            "method": self.method,
            "target": self.target,
            **{name: _format_number(value) for name, value in numbers.items()},
            "effective_sample_size": None if size is None else _format_number(size),
            "people": self.people,
            "guarantee": self.guarantee.to_dict(),
        }

    def page(self, path: str | PathLike[str]) -> None:
        """Write the value as a self-contained HTML file."""
        from bandanna.data.ope.targets import write_page

        write_page(self, path)

    def __str__(self) -> str:
        size = self.effective_sample_size
        lines = [
            f"{_NAMES.get(self.method, self.method)} of {self.target}: {self.summary()}",
            f"{self.people:,} users, effective sample size "
            f"{'not released' if size is None else f'{size:,.0f}'}; {self._clipping()}",
        ]
        if not math.isfinite(self.stderr):
            lines.append("The sum of the weights does not allow an estimate")
        elif self.noise_std:
            lines.append(f"standard error {self.stderr:.3g}, of which privacy noise alone has {self.noise_std:.3g}")
        if self.seeded:
            lines.append("The noise is seeded, for tests only; it protects nobody")
        return "\n".join([*lines, str(self.guarantee)])

    def summary(self) -> str:
        """Return the estimate and the 95 % interval as a line of text."""
        low, high = self.interval()
        everything = ", the whole range of rewards" if (low, high) == self.reward_range else ""
        return f"{self.estimate:.4g}, 95 % interval {low:.4g} to {high:.4g}{everything}"

    def _clipping(self) -> str:
        if math.isinf(self.weight_bound):
            return "no weight was clipped"
        if self.clipped_mass == 0:
            return f"weights are at most {self.weight_bound:g}, nothing was clipped"
        hidden = f"which hides up to {self.clipped_mass:.3g} of the probability"
        return f"weights were clipped at {self.weight_bound:g}, {hidden}"


def _format_number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _format_share(size: float | None, people: int) -> float | None:
    return None if size is None else _format_number(size / people)
