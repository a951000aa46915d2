"""The sums that estimators need: importance weights, their exact or released sums, and the spread of their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.data.logs import Log, describe_query
from bandanna.data.ope.targets import TargetPolicy, to_target_policy
from bandanna.device.domain import Statistic
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import InvalidArgument
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.clear import Clear
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.types import Floats

# One private sum over everybody in a log


PROTECTS = "one user's row of the log (context, arm, propensity, reward)"
_HOLDER = ("the holder of the log", "every row without noise")
_PUBLIC = ("everybody", "the released estimate and the names of all arms")
_SEEDED = ("anyone who knows the seed", "everything, because this is a test")


@dataclass(frozen=True, kw_only=True)
class ReleasedSum:
    """A released sum, the noise variance in each coordinate, and its guarantee.

    `variance` may be an upper bound; `laplace`: the noise is Laplace, else nearly normal.
    """

    total: Floats  # (dim,)
    variance: float
    guarantee: Guarantee
    laplace: bool = False


def release_sum(
    privacy: Privacy, statistic: Statistic, *, log: Log, query: tuple[Any, ...], seed: Any, path: str
) -> ReleasedSum:
    """Release a sum over a log by the privacy model's protocol; noise is secure unless a seed is given.

    `query` has the public values of the statistic, and None for functions and raw data.
    """
    protocol = protocol_for(privacy.with_default_protocol("auto"), statistic.domain, statistic.users)
    source, way = _source(seed, path)
    task = "estimate" if seed is None else f"seed {seed}: estimate"  # seeded noise is another release
    described = None if None in query else describe_query((repr(statistic.domain), *query))
    estimate = log.release(protocol, statistic, source, task=task, query=described, path=way)
    stated = protocol.guarantee
    observers = (_HOLDER, _PUBLIC, *((_SEEDED,) * (seed is not None)), *stated.observers)
    along = protocol.std_along(statistic.users) if isinstance(protocol, LocalUnit) else 0.0
    return ReleasedSum(
        total=estimate.total,
        variance=max(estimate.variance, along**2),
        guarantee=replace(stated, protects=PROTECTS, observers=observers, one_process=False),
        laplace=isinstance(protocol, CentralLaplace),
    )


def guarantee_without_privacy(statistic_of: Any) -> Guarantee:
    """Return the guarantee of an exact sum."""
    clear = Clear(domain=statistic_of).guarantee
    observers = (("everybody", "the estimate, which has no noise"),)
    return replace(clear, protects=PROTECTS, observers=observers, one_process=False)


def _source(seed: Any, path: str) -> tuple[NoiseSource, str]:
    validation.one_of("path", path, ("messages", "law"))
    if seed is None:
        return SecureNoise(), "messages"
    number = validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
    return FastNoise(np.random.default_rng(number)), path


# Weights


_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedLog:
    """A log and a target: weights w = pi/p, clipped at `bound`, infinite if nothing is clipped.

    `safe`: weights cannot exceed the bound, by public facts.
    """

    log: Log
    target: TargetPolicy
    bound: float
    safe: bool

    @cached_property
    def raw(self) -> Floats:
        log = self.log
        with np.errstate(over="ignore"):  # infinite, and cut: NumPy's warning would tell of somebody
            return np.asarray(self.target.chances[np.arange(len(log)), log.arms] / log.propensities)

    @cached_property
    def weights(self) -> Floats:
        return np.minimum(self.raw, self.bound)

    @cached_property
    def rewards(self) -> Floats:
        return self.log.scaled_rewards()

    @property
    def people(self) -> int:
        return len(self.log)


def check_privacy(privacy: Any, log: Any) -> Privacy:
    """Return a privacy model; None means the log's budget, or no privacy if it has none."""
    if privacy is None:
        return getattr(log, "privacy", None) or none()
    if not isinstance(privacy, Privacy) or privacy.model == "concurrent":
        allowed = "bd.none(), bd.central(...), bd.shuffle(...) or bd.local(...)"
        raise InvalidArgument("privacy", getattr(privacy, "model", privacy), allowed)
    return privacy


def weigh_log(log: Any, target: Any, weight_bound: Any, privacy: Privacy, name: str = "target") -> WeightedLog:
    """Weigh a log for a target, with the given bound or the public one."""
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    return weigh_known_target(log, to_target_policy(log, target, name), weight_bound, privacy)


def weigh_known_target(log: Log, target: TargetPolicy, weight_bound: Any, privacy: Privacy) -> WeightedLog:
    """Weigh a log for a target of known probabilities."""
    if privacy.noisy:
        log.check_private()
    public = math.inf if log.floor is None else target.largest / log.floor
    if weight_bound is not None:
        bound = validation.positive("weight_bound", weight_bound, infinite=not privacy.noisy)
        if not (1e-6 <= bound <= 1e9 or math.isinf(bound)):
            raise InvalidArgument("weight_bound", weight_bound, "a number from 1e-6 to 1e9")
    elif privacy.noisy and math.isinf(public):
        hint = (
            "The noise is proportional to it. Or pass the log's public floor (floor=..., --floor): then weights are at "
            "most 1/floor, and none is clipped."
        )
        raise InvalidArgument("weight_bound", None, "a number at which weights are clipped", hint)
    else:
        bound = public if privacy.noisy else math.inf
    return WeightedLog(log=log, target=target, bound=bound, safe=bound >= public * (1 - _ROUNDING))


# The spread of an error


_NODES = 64
_FARTHEST = 4.0  # standard errors below the least possible variance: a released one that is lower is taken for this
_MOST_SKEW = 0.5  # of the short tail
_LONGEST_SKEW = 1.0


@dataclass(frozen=True, kw_only=True)
class ErrorSpread:
    """The variance of an error and what else its tails depend on; numbers or arrays of one shape.

    Parameters
    ----------
    sampled, noise
        Sampling variance, exact or released, and public noise variance.
    error
        Standard deviation of the noise in `sampled`.
    third
        Third cumulant of sampling, exact or estimated.
    steepest
        Upper bounds of the third cumulant of the error downwards and upwards, if `third` was estimated.
    lean
        Covariance of the noise of the sum with that in `sampled`.
    extra
        Variance of one unseen user.
    """

    sampled: float | Floats
    noise: float | Floats = 0.0
    error: float | Floats = 0.0
    third: float | Floats = 0.0
    steepest: tuple[float | Floats, float | Floats] | None = None
    lean: float | Floats = 0.0
    extra: float | Floats = 0.0
    laplace: bool = False

    def over(self, n: int) -> ErrorSpread:
        """Return the spread of the sum divided by n."""
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

    def towards(self, side: int, surprise: float | Floats) -> ErrorSpread:
        """Return the spread for an end above (1) or below (-1) the estimate, with one more user at that distance.

        An estimated negative third cumulant brings the end nearer only as far as the upper bound allows. A variance
        that moves with the sum is skewness too: the deviate of an error d changes by d^2/2 times the covariance.
        """
        third = side * self.third
        if self.steepest is not None:
            third = np.maximum(third, np.minimum(self.steepest[(side + 1) // 2], 0.0))
        third = third + 1.5 * side * self.lean + surprise**3
        return replace(self, third=third, steepest=None, lean=0.0, extra=self.extra + surprise**2)


@lru_cache(maxsize=1)
def _shares() -> Floats:
    return (np.arange(_NODES) + 0.5) / _NODES


def possible_variances(spread: ErrorSpread) -> tuple[Floats, Floats]:
    """Return possible variances of the sum, (..., nodes), and their weights."""
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


def mean_variance(spread: ErrorSpread) -> float:
    """Return the mean variance of one sum."""
    v, weights = possible_variances(spread)
    return float(np.sum(v * weights) / np.sum(weights))


def tail_probability(distance: Floats, spread: ErrorSpread) -> Floats:
    """Return the probability of an error of this distance or more, for a spread `towards` one side."""
    v, weights = possible_variances(spread)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(v)
        d = np.where(v > 0, distance[..., None] / root, np.where(distance[..., None] > 0, np.inf, 0.0))
        g = np.where(v > 0, np.asarray(spread.third)[..., None] / (v * root), 0.0)
        y = skewed_deviate(d, g)
        share = np.where(v > 0, np.asarray(spread.noise)[..., None] / v, 0.0)
    chance = laplace_tail(y, np.clip(share, 0.0, 1.0)) if spread.laplace else special.ndtr(-y)
    return np.asarray(np.sum(weights * chance, axis=-1) / np.sum(weights, axis=-1))


def skewed_deviate(d: Floats, g: Floats) -> Floats:
    """Return the normal deviate of a studentised sum at d of skewness g.

    For g > 0 the variance under the tested value is v (1 + g d); for g < 0 it is Hall's transform.
    """
    long = np.clip(g, 0.0, _LONGEST_SKEW)
    score = d / np.sqrt(1 + long * d)
    score = np.where(np.isinf(d), np.inf, score)
    short = np.clip(-g, 1e-9, _MOST_SKEW)
    hall = d + short * d * d / 3 + short**2 * d**3 / 27 + short / 6
    return np.asarray(np.where(g > 0, score + long * (score * score - 1) / 6, hall))


def laplace_tail(y: Floats, share: Floats) -> Floats:
    """Return P(X >= y) for X = Laplace + normal with variance 1; `share` is the Laplace share of the variance."""
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


# Sums of weights and rewards


_MULTIPLES = 9


@dataclass(frozen=True, kw_only=True)
class WeightedSums:
    """The sums of weights w and rewards r over a log that estimates for one target need; rho = r - 1/2.

    Parameters
    ----------
    value, weight
        Sums of w rho and of w.
    squares
        Sums of w^2 rho^2, w^2 rho and w^2, exact or as released.
    cubes
        Sums of w^3 rho^3, w^3 rho^2, w^3 rho and w^3, if known.
    noise
        Noise variances of the first five sums.
    largest
        M, or the largest weight without a bound.
    hidden
        The share of the target's probability that clipping has cut off, and its standard error.
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
        return self.guarantee is not None

    @property
    def ratio(self) -> float:
        return min(max(self.value / self.weight, -0.5), 0.5) if self.weight > 0 else 0.0

    @property
    def size(self) -> float:
        square = self.possible[2]
        return min(max(self.weight, 0.0) ** 2 / square, float(self.people)) if square > 0 else 0.0

    @property
    def possible(self) -> tuple[float, float, float]:
        """The sums of squares nearest to the released ones that n users with weights up to M can have."""
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
        a, b, c = self.squares
        return a - 2 * theta * b + theta**2 * c

    def wobble(self, theta: float) -> float:
        """Return the noise variance in `at(theta)`."""
        return self.noise[2] + 4 * theta**2 * self.noise[3] + theta**4 * self.noise[4]

    def added(self, theta: float | Floats) -> Any:
        """Return the noise variance in the sum of w (rho - theta)."""
        return self.noise[0] + theta**2 * self.noise[1]

    def spread(self, theta: Floats) -> ErrorSpread:
        """Return the spread of the sum of w (rho - theta) if the value is theta."""
        sampled, error, lean = self._second(theta)
        third = self.third(theta, sampled)
        steepest = None if self.cubes is not None else (self._steepest(theta, -1), self._steepest(theta, 1))
        return ErrorSpread(
            sampled=sampled, noise=self.added(theta), error=error, third=third, steepest=steepest, lean=lean,
            laplace=self.laplace,
        )  # fmt: skip

    def _second(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Bound the released sum w^2 (rho - theta)^2 from above.

        Return it, its noise's standard deviation, and the covariance of that with the noise of sum w (rho - theta).
        With s the sign of theta, the sum of (M - w) (w/2 - s w rho) >= 0 is

            s sum w^2 rho - sum w^2 / 2 + M (sum w / 2 - s sum w rho),

        so any multiple l of it, from 0 to 2 |theta|, may be added; l = 2 |theta| removes the noisy sum w^2 rho
        altogether.
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
        """Return the third cumulant of the sum of w (rho - theta).

        From released sums it is approximate: w^3 is replaced by w^2 times sum w^2 / sum w, and rho^3 by rho times the
        mean of rho^2. Only the part above its own noise counts.
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
        share = np.maximum(product**2 - noise, 0.0) / np.maximum(product**2, 1e-300)
        return np.clip(product * share / self.weight, -most, most)

    def _steepest(self, theta: Floats, side: int) -> Floats:
        """Bound the third cumulant of the sum of w y, y = side (rho - theta), from above, with w^3 as in `third`.

        As y <= h = 1/2 - side theta, y^3 <= (h - 2 k) y^2 + (2 k h - k^2) y + k^2 h for every k.
        """
        if not self.weight > 0:
            return np.zeros_like(theta)
        a, b, c = self.possible
        h = 0.5 - side * theta
        first, second = side * (b - theta * c), a - 2 * theta * b + theta**2 * c  # sums of w^2 y and w^2 y^2
        k = np.clip((second - h * first) / np.maximum(h * c - first, 1e-300), 0.0, 1.0)
        cube = (h - 2 * k) * second + (2 * k * h - k**2) * first + k**2 * h * c
        return np.asarray(cube * c / self.weight)


def mean_cut_off(excess: Floats) -> tuple[float, float]:
    """Return the mean of what was cut off, (n,), and its standard error."""
    share, n = float(np.mean(excess)), len(excess)
    if share < 1e-12:
        return 0.0, 0.0
    return min(share, 1.0), float(np.std(excess, ddof=min(1, n - 1))) / math.sqrt(n)


def missing_weight(weight: float, square: float, noise: float, people: int) -> tuple[float, float]:
    """Return 1 - the mean of released weights, and its standard error: E w = 1 where nothing was cut off."""
    mean = weight / people
    spread = max(square / people - mean**2, 0.0) / people + noise / people**2
    return min(1 - mean, 1.0), math.sqrt(spread)


def exact_sums(case: WeightedLog, *, hidden: tuple[float, float] | None = None) -> WeightedSums:
    """Compute the sums without privacy, with the exact clipped share."""
    w, rho = case.weights, case.rewards - 0.5
    return WeightedSums(
        value=float(np.sum(w * rho)),
        weight=float(np.sum(w)),
        squares=tuple(float(np.sum(w * w * rho**power)) for power in (2, 1, 0)),  # type: ignore[arg-type]
        cubes=tuple(float(np.sum(w**3 * rho**power)) for power in (3, 2, 1, 0)),  # type: ignore[arg-type]
        people=case.people,
        largest=float(np.max(w)),
        hidden=mean_cut_off(case.raw - w) if hidden is None else hidden,
    )


def read_sums(case: WeightedLog, parts: Floats, released: ReleasedSum, units: Floats) -> WeightedSums:
    """Read released sums, (5,), whose noise was multiplied by `units`."""
    noise = released.variance * units**2
    sums = WeightedSums(
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
    return replace(sums, hidden=missing_weight(sums.weight, sums.possible[2], float(noise[1]), case.people))
