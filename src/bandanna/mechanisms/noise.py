"""Mechanisms of one release: Gaussian, Laplace and binomial noise, randomized response, and PrivUnit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.domain import Ball, Domain, read_numeric_array
from bandanna.device.noise import NoiseSource, check_noise_parameter, check_noise_source, read_protected_values
from bandanna.device.randomizers import (
    CAP_STEPS,
    CapRandomizer,
    draw_randomized_bits,
    normalize_messages,
    probability_of_one,
)
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic, UnknownEvent, ValueSummary
from bandanna.numeric import exact_sums
from bandanna.privacy import prices
from bandanna.privacy.calibration import best_cap
from bandanna.privacy.events import (
    BinomialEvent,
    CapEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
)
from bandanna.privacy.prices import fine_grid
from bandanna.types import Floats

# The interface


_Number = TypeVar("_Number", np.float64, np.int64)

_ROOM = 2**62  # integers below this take any noise that we add without leaving int64


class Mechanism(ABC):
    """Adds noise to a vector once, and states what that release is.

    `release` takes (..., dim) and adds fresh noise to every entry: leading axes are replicates, and each replicate is
    one event.
    """

    dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):  # stating the event checks every parameter
            raise UnknownEvent(f"{type(self).__name__}.event must be an Event: there is no noise without a price")

    @property
    @abstractmethod
    def event(self) -> Event:
        """The event of one release, for the accountant."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise per coordinate."""

    @abstractmethod
    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        """Return the value, (..., dim), plus fresh noise from the source."""

    def reals(self, value: ArrayLike) -> NDArray[np.float64]:
        return self._shaped(read_protected_values(value))

    def integers(self, value: ArrayLike) -> NDArray[np.int64]:
        array = read_numeric_array("value", value, "64-bit integers, rounded before the release", kinds="iu")
        if array.size and (array.max() >= _ROOM or array.min() <= -_ROOM):
            given = ValueSummary("an entry of size 2^62 or more")
            raise InvalidStatistic("value", given, "integers below 2^62 in size")
        return self._shaped(array.astype(np.int64, copy=False))

    def _shaped(self, array: NDArray[_Number]) -> NDArray[_Number]:
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise InvalidStatistic("value", array, f"an array of shape (..., {self.dim})")
        return array


# Gaussian noise


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism(Mechanism):
    """Gaussian noise on a real vector.

        release = g (round(x / g) + Z),   Z_k ~ discrete Gaussian(std / g) independent      (secure source)
        release = x + N(0, std^2 I)                                                         (fast source)

    Privacy: mu = sensitivity / std in Gaussian DP for the ideal (grid = 0). The grid adds grid sqrt(dim) to the
    sensitivity; the event charges this for both sources.

    Parameters
    ----------
    std
        Standard deviation of the noise.
    sensitivity
        Bound on the l2 distance of neighbouring values x.
    grid
        Step g. None: a `fine_grid`, which raises mu by less than 1 part in 10^4.
    """

    std: float
    sensitivity: float
    dim: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "std", "sensitivity")
        validation.set_validated(self, validation.integer, "dim")
        if self.grid is not None:
            validation.set_validated(self, validation.non_negative, "grid")
        super().__post_init__()
        if self.step > self.std:
            raise InvalidArgument("grid", self.grid, f"at most std = {self.std!r}")

    @cached_property
    def step(self) -> float:
        """The grid in use; 0 is the ideal."""
        return fine_grid(self.std, self.sensitivity, self.dim) if self.grid is None else self.grid

    @cached_property
    def event(self) -> GaussianEvent:
        return GaussianEvent(std=self.std, sensitivity=self.sensitivity, dim=self.dim, grid=self.step)

    @property
    def variance(self) -> float:
        """std^2, also for the discrete Gaussian: exact below grid = std / 2, to 1 part in 10^6 at grid = std."""
        return self.std**2

    def release(self, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Add Gaussian noise, (..., dim). `rest` is the rest of an exact sum beyond its float."""
        exact = self.reals(value)
        if check_noise_source(source).secure and self.step > 0:
            exact = exact_sums.find_nearest_grid_point(
                (exact, np.broadcast_to(read_protected_values(rest), exact.shape)), self.step
            )
        return source.gaussian(exact, std=self.std, grid=self.step)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianMechanism(Mechanism):
    """Discrete Gaussian noise on an integer vector.

        release = x + Z,   P(Z_k = j) = exp(-j^2 / (2 std^2)) / sum_i exp(-i^2 / (2 std^2))

    Privacy: rho = shift^2 / (2 std^2) zCDP. It is not exactly Gaussian DP.

    Parameters
    ----------
    shift
        Bound on the l2 distance of neighbouring values x.
    """

    std: float
    shift: float
    dim: int = 1

    def __post_init__(self) -> None:
        validation.set_validated(self, check_noise_parameter, "std")
        validation.set_validated(self, validation.positive, "shift")
        validation.set_validated(self, validation.integer, "dim")
        super().__post_init__()

    @cached_property
    def event(self) -> DiscreteGaussianEvent:
        return DiscreteGaussianEvent(std=self.std, shift=self.shift, dim=self.dim)

    @property
    def variance(self) -> float:
        """The variance: sum_j j^2 P(j) for std below 2; above, std^2 within 1 part in 10^30."""
        if self.std >= 2:
            return self.std**2
        weights = [math.exp(-0.5 * (j / self.std) ** 2) if j < 39 * self.std else 0.0 for j in range(1, 79)]
        second = 2 * math.fsum(j**2 * weight for j, weight in enumerate(weights, start=1))
        return second / (1 + 2 * math.fsum(weights))

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        exact = self.integers(value)
        return np.asarray(exact + check_noise_source(source).discrete_gaussian(std=self.std, size=exact.shape))


# Laplace noise


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism(Mechanism):
    """Laplace noise on a real vector.

        release = g (round(x / g) + Z),   Z_k ~ discrete Laplace(scale / g) independent     (secure source)
        release = x + Laplace(scale)                                                        (fast source)

    Privacy: epsilon = (sensitivity + grid dim) / scale, pure.

    Parameters
    ----------
    sensitivity
        Bound on the l1 distance of neighbouring values x.
    grid
        Step g. None: a `fine_grid`, which raises epsilon by less than 1 part in 10^4.
    """

    scale: float
    sensitivity: float
    dim: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "scale", "sensitivity")
        validation.set_validated(self, validation.integer, "dim")
        if self.grid is not None:
            validation.set_validated(self, validation.non_negative, "grid")
        super().__post_init__()
        if self.step > self.scale:
            raise InvalidArgument("grid", self.grid, f"at most scale = {self.scale!r}")

    @property
    def step(self) -> float:
        """The grid in use; 0 is the ideal."""
        return fine_grid(self.scale, self.sensitivity, self.dim**2) if self.grid is None else self.grid

    @cached_property
    def event(self) -> LaplaceEvent:
        return LaplaceEvent(scale=self.scale, sensitivity=self.sensitivity, dim=self.dim, grid=self.step)

    @property
    def variance(self) -> float:
        """2 scale^2; a grid lowers it by a share below (grid / scale)^2 / 12."""
        return 2 * self.scale**2

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.float64]:
        return check_noise_source(source).laplace(self.reals(value), scale=self.scale, grid=self.step)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceMechanism(Mechanism):
    """Discrete Laplace (two-sided geometric) noise on an integer vector.

        release = x + Z,   P(Z_k = j) = (1 - q) / (1 + q) q^|j|,   q = exp(-1 / scale)

    Privacy: epsilon = shift / scale, pure.

    Parameters
    ----------
    shift
        Bound on the l1 distance of neighbouring values x.
    """

    scale: float
    shift: float
    dim: int = 1

    def __post_init__(self) -> None:
        validation.set_validated(self, check_noise_parameter, "scale")
        validation.set_validated(self, validation.positive, "shift")
        validation.set_validated(self, validation.integer, "dim")
        super().__post_init__()

    @cached_property
    def event(self) -> DiscreteLaplaceEvent:
        return DiscreteLaplaceEvent(scale=self.scale, shift=self.shift, dim=self.dim)

    @property
    def variance(self) -> float:
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        exact = self.integers(value)
        return np.asarray(exact + check_noise_source(source).discrete_laplace(scale=self.scale, size=exact.shape))


# Binomial noise


@dataclass(frozen=True, kw_only=True)
class BinomialMechanism(Mechanism):
    """Binomial noise on an integer vector, not centred: subtract `mean` from the release for an unbiased total.

        release = x + Z,   Z_k ~ Bin(trials, probability) independent

    Privacy: a Gaussian pair of mu_1 ||v||_2 dominates the release up to a tail, v the change of the total (Theorem A,
    `privacy.prices`); a Gaussian of equal variance has another price. Protocol: Cheu, Joseph, Mao and Peng 2021.

    Parameters
    ----------
    shift
        Bound on the l2 norm of a neighbour's change in lattice units, before its stochastic rounding if `rounded`.
    reach
        Bound on the change of one coordinate after rounding.
    """

    trials: int
    shift: float
    reach: int
    dim: int = 1
    probability: float = 0.5
    rounded: bool = True

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "trials", "reach", "dim")
        validation.set_validated(self, validation.positive, "shift")
        validation.set_validated(self, validation.open_probability, "probability")
        super().__post_init__()

    @cached_property
    def event(self) -> BinomialEvent:
        return BinomialEvent(
            trials=self.trials,
            shift=self.shift,
            reach=self.reach,
            dim=self.dim,
            probability=self.probability,
            rounded=self.rounded,
        )

    @property
    def mean(self) -> float:
        """The mean of the noise, trials probability."""
        return self.trials * self.probability

    @property
    def variance(self) -> float:
        return self.trials * self.probability * (1 - self.probability)

    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[np.int64]:
        exact = self.integers(value)
        noise = check_noise_source(source).binomial(trials=self.trials, probability=self.probability, size=exact.shape)
        return np.asarray(exact + noise)


# Randomized response


_STEP = 2.0**-53  # the step of a uniform number
LEAST = 1e-12  # epsilon: many steps of the coin


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Mechanism):
    """One bit for every number x in [0, 1].

        P(bit = 1 | x) = (1 - q) + (2q - 1) x,   q = e^epsilon / (1 + e^epsilon),   E[(bit - (1 - q)) / (2q - 1)] = x

    One coin of 53 binary places rounds x to a bit without bias and randomizes it; 1 - q is rounded up to these places.

    Privacy: pure epsilon for each number, dim epsilon for all `dim` of a user. The answer to a bit is "x + Z >= 1" with
    Z two-sided geometric, P(Z >= 0) = q, so the event is that release.

    Parameters
    ----------
    epsilon
        Pure privacy loss of each number, finite and at least 10^-12; a smaller one is more private.
    dim
        Numbers of a user; their losses add up.
    """

    epsilon: float
    dim: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.epsilon(self.epsilon))
        if not LEAST <= self.epsilon < math.inf:
            raise InvalidBudget("epsilon", self.epsilon, f"a finite number >= {LEAST}")
        validation.set_validated(self, validation.integer, "dim")
        super().__post_init__()

    @cached_property
    def lie(self) -> float:
        """1 - q = 1 / (1 + e^epsilon), rounded up to at least one step of the coin."""
        odds = math.exp(-self.epsilon)
        return (math.floor(odds / (1 + odds) / _STEP * (1 + 1e-15)) + 1) * _STEP  # 1e-15: more than rounding errors

    @property
    def truth(self) -> float:
        """2q - 1, at most tanh(epsilon/2), which debiasing undoes."""
        return 1 - 2 * self.lie

    @cached_property
    def event(self) -> DiscreteLaplaceEvent:
        loss = 2 * math.atanh(self.truth) * (1 + 1e-15)  # log(q / (1 - q)) <= epsilon
        scale = max(math.nextafter(1 / self.epsilon, math.inf), 1 / loss)  # so that 1 / scale is never above epsilon
        return DiscreteLaplaceEvent(scale=scale, shift=float(self.dim), dim=self.dim)

    @property
    def variance(self) -> float:
        return self.lie * (1 - self.lie) / self.truth**2

    def chance(self, value: Floats) -> Floats:
        """Return the probability of a 1, within [1 - q, q]."""
        return probability_of_one(value, self.lie)

    def release(self, value: ArrayLike, source: NoiseSource) -> Floats:
        x = self.reals(value)
        if x.size and not (x.min() >= 0.0 and x.max() <= 1.0):
            hint = "Clip before the release"
            raise InvalidStatistic("value", ValueSummary("a number outside of [0, 1]"), "numbers in [0, 1]", hint)
        return draw_randomized_bits(x, self.lie, check_noise_source(source)).astype(float)

    def decode(self, ones: Floats, answers: int | Floats = 1) -> Floats:
        """Return unbiased estimates of sums from the ones among `answers` answers."""
        return np.asarray((ones - self.lie * answers) / self.truth)


# PrivUnit


@dataclass(frozen=True, kw_only=True)
class PrivUnit(Mechanism):
    """An unbiased estimate u/m of a vector w of the unit ball, u a random unit vector.

        u0 = +-w/|w|, E u0 = w;     u uniform in the cap <u, u0> >= cosine with probability p, else outside of it
        E u = m u0,     E|u/m - w|^2 = 1/m^2 - |w|^2

    A device draws N candidates, whatever its data, and sends the first on the chosen side (`CapRandomizer`); p follows
    from `chance` and `candidates`.

    Privacy: pure, p (1-q) / ((1-p) q) <= e^epsilon for a cap of mass q; steps are in the price (proofs.md D).

    Parameters
    ----------
    cosine, chance
        Edge of the cap in [0, 1], and the probability to prefer its inside.
    candidates, steps
        Number N, and steps to a standard deviation of a coordinate.
    dim
        Number of coordinates, at least 2.
    """

    cosine: float
    chance: float
    candidates: int
    dim: int
    steps: int = CAP_STEPS

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cosine", "chance", "candidates", "dim", "steps"):
            object.__setattr__(self, name, getattr(self.event, name))
        if not self.lean > 0:
            given = (self.cosine, self.chance, self.candidates)
            allowed = "a cap that is hit, a chance that favours it, and two candidates or more"
            raise InvalidArgument("cosine, chance and candidates", given, allowed)

    @classmethod
    def calibrate(cls, *, dim: int, epsilon: float) -> PrivUnit:
        """Find the least variance for a pure epsilon."""
        best = best_cap(dim=dim, epsilon=epsilon)
        return cls(cosine=best.cosine, chance=best.chance, candidates=best.candidates, dim=best.dim)

    @cached_property
    def event(self) -> CapEvent:
        return CapEvent(
            cosine=self.cosine, chance=self.chance, candidates=self.candidates, dim=self.dim, steps=self.steps
        )

    @cached_property
    def lean(self) -> float:
        """m = E<u, u0>."""
        return prices.mean_cosine(self.event)

    @property
    def variance(self) -> float:
        """1 / (m^2 dim), a bound on the mean variance of the coordinates, attained at w = 0."""
        return 1 / (self.lean**2 * self.dim)

    @property
    def most_variance(self) -> float:
        """E<u, u0>^2 / m^2, a bound on the variance in every direction."""
        return prices.mean_squared_cosine(self.event) / self.lean**2

    def device(self, domain: Domain) -> CapRandomizer:
        """Return the randomizer of statistics in the ball around a domain."""
        return CapRandomizer(
            domain=domain, cosine=self.cosine, chance=self.chance, candidates=self.candidates, steps=self.steps
        )

    def release(self, value: ArrayLike, source: NoiseSource) -> Floats:
        inside = self.reals(value)
        if inside.size and not np.max(np.sum(inside * inside, axis=-1)) <= 1 + 1e-9:
            hint = "Clip before the release"
            raise InvalidStatistic("value", ValueSummary("a vector longer than 1"), "vectors of the unit ball", hint)
        device = self.device(Ball(dim=self.dim))
        sent = device.encode(inside.reshape(*inside.shape[:-1], 1, self.dim), check_noise_source(source))
        return np.asarray(normalize_messages(sent[..., 0, :]) / self.lean)
