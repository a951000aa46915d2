"""Random directions (PrivUnit) in the local model: pure differential privacy for vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource, ReleaseCost
from bandanna.device.randomizers import (
    CAP_STEPS,
    LARGEST_NORMAL,
    CapRandomizer,
    check_direction_dim,
    normalize_messages,
    split_length,
)
from bandanna.errors import CalibrationError, InvalidStatistic
from bandanna.mechanisms.noise import PrivUnit
from bandanna.numeric import search
from bandanna.numeric.exact_sums import exact_sum
from bandanna.privacy import prices
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import LARGEST_CAP, LEAST_CAP, largest_epsilon, spends_delta
from bandanna.privacy.events import CapEvent, DiscreteLaplaceEvent
from bandanna.protocols.base import BatchProtocol, check_domain, stated_delta
from bandanna.protocols.mixers import Analyzer, GatheringMixer, MixerState, raise_invalid_message
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_AT_ONCE = 2**20  # numbers held at a time


@stored_as("LocalUnit")
@dataclass(frozen=True, kw_only=True)
class LocalUnit(BatchProtocol):
    """PrivUnit: each user sends a direction u_i about x_i, a point of the domain's ball of radius r around c.

        estimate = n c + (r/m) sum_i u_i,      E|error|^2 = sum_i (r^2 / m^2 - |x_i - c|^2),      m = E<u, u0>

    The square of `std` bounds the mean variance of the coordinates. `std_along` bounds the standard deviation in any
    direction.

    Privacy: each message is pure epsilon-DP on its own; the accountant composes several. References: Bhowmick et al.
    2018; Asi, Feldman and Talwar 2022; proofs.md D.

    Parameters
    ----------
    cosine, chance, candidates, steps
        As in `mechanisms.noise.PrivUnit`.
    """

    delta: float = 0.0
    cosine: float
    chance: float
    candidates: int
    steps: int = CAP_STEPS

    name: ClassVar[str] = "local_unit"
    trust: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cosine", "chance", "candidates", "steps"):
            object.__setattr__(self, name, getattr(self.mechanism, name))
        _ = self.device  # refuses a domain without directions

    @classmethod
    def calibrate(cls, *, domain: Domain, budget: Budget, participations: int = 1) -> LocalUnit:
        """Find the least noise per report for the budget. With one participation, delta stays unspent."""
        found, delta = calibrate_cap(domain, budget, participations)
        return cls._sending(found, domain=domain, participations=participations, delta=delta)

    @classmethod
    def of_std(cls, *, domain: Domain, std: float, participations: int = 1, delta: float = 0.0) -> LocalUnit:
        """Return the most private protocol whose report has at most this standard deviation."""
        return cls._sending(cap_for_std(domain, std), domain=domain, participations=participations, delta=delta)

    @classmethod
    def _sending(cls, found: PrivUnit, **shared: Any) -> LocalUnit:
        return cls(cosine=found.cosine, chance=found.chance, candidates=found.candidates, **shared)

    @cached_property
    def mechanism(self) -> PrivUnit:
        return PrivUnit(
            cosine=self.cosine, chance=self.chance, candidates=self.candidates, dim=self.domain.dim, steps=self.steps
        )

    @property
    def event(self) -> CapEvent:
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the server and the public", "one random direction per user"),)

    @cached_property
    def device(self) -> CapRandomizer:
        return self.mechanism.device(self.domain)

    @cached_property
    def mixer(self) -> DirectionMixer:
        return DirectionMixer(domain=self.domain, steps=self.steps)

    @cached_property
    def analyzer(self) -> DirectionSumAnalyzer:
        return DirectionSumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        return self.domain.dim * (2 * self.mixer.largest).bit_length()

    @property
    def rounds_each_row(self) -> bool:
        return True

    def draws(self, users: int) -> ReleaseCost:
        pairs = (self.domain.dim + 1) // 2
        return ReleaseCost(words=3 * users * self.candidates * pairs, numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """Return sqrt(users) r / (m sqrt(dim))."""
        return self._std(users, self.mechanism.variance)

    def std_along(self, users: int) -> float:
        """Return sqrt(users) r sqrt(E<u, u0>^2) / m, a bound in any direction."""
        return self._std(users, self.mechanism.most_variance)

    @property
    def length(self) -> float:
        """Return r/m, one estimate's distance from the centre."""
        return self.domain.ball[1] / self.mechanism.lean

    def _std(self, users: int, variance: float) -> float:
        return math.sqrt(validation.integer("users", users) * variance) * self.domain.ball[1]

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        return self.analyzer.estimate(sample_directions(statistic, self.event, source), statistic.users)


# Mixer


@stored_as("Directions")
@dataclass(frozen=True, kw_only=True)
class DirectionMixer(GatheringMixer):
    """Keeps every user's direction."""

    steps: int

    @property
    def largest(self) -> int:
        """Largest coordinate of a message."""
        return math.ceil(LARGEST_NORMAL * self.steps)

    def check_range(self, messages: Messages) -> None:
        if messages.dtype != np.int64:
            raise InvalidStatistic("messages", messages, "64-bit integers")
        wrong = (messages > self.largest) | (messages < -self.largest)
        raise_invalid_message("messages", messages, wrong, f"steps from {-self.largest} to {self.largest}")


# Analyzer


@dataclass(frozen=True, kw_only=True)
class DirectionSumAnalyzer(Analyzer):
    """Unbiased estimate n centre + (radius / m) sum_i u_i."""

    domain: Domain
    mechanism: PrivUnit

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        high, rest = exact_sum(normalize_messages(np.asarray(view.numbers, dtype=np.int64)), 1.0)
        return state, self.estimate(high + rest, view.users)

    def estimate(self, leaning: Floats, users: int) -> Estimate:
        centre, radius = self.domain.ball
        total = users * centre + radius / self.mechanism.lean * leaning
        return Estimate(total=total, count=users, variance=users * radius**2 * self.mechanism.variance)


# Law


def sample_directions(statistic: Statistic, event: CapEvent, source: NoiseSource) -> Floats:
    """Draw sum_i u_i, (..., users, dim) -> (..., dim), without steps.

        u = T u0 + sqrt(1 - T^2) v,     v uniform among the unit vectors across u0

    T is drawn by inversion, given whether it is inside the cap. Leaving out steps of candidates changes no probability
    by more than the share that `bound_cap_mass` allows.
    """
    drawn = (
        _sum_directions(rows, statistic.domain, event, source)
        for part in statistic.parts()
        for rows in _iterate_rows(part)
    )
    return np.asarray(sum(drawn))


def _sum_directions(rows: Floats, domain: Domain, event: CapEvent, source: NoiseSource) -> Floats:
    centre, radius = domain.ball
    units, lengths = split_length((rows - centre) / radius)
    coins = source.uniform((*lengths.shape, 2))
    signs = np.where(coins[..., 0] < (1 + np.minimum(lengths, 1.0)) / 2, 1.0, -1.0)
    cosines = cosine_from_uniform(coins[..., 1], event)[..., None]
    drawn = source.gaussian(np.zeros(rows.shape), std=1.0, grid=0.0)
    across = drawn - np.sum(drawn * units, axis=-1, keepdims=True) * units
    across /= np.sqrt(np.sum(across * across, axis=-1, keepdims=True))
    along = cosines * signs[..., None] * units
    return np.asarray(np.sum(along + np.sqrt(1 - cosines**2) * across, axis=-2))


def cosine_from_uniform(uniform: Floats, event: CapEvent) -> Floats:
    """Return T by inversion: below p inside the cap, where P(T >= t) runs from 0 to q."""
    q, p = prices.cap_moments(event.dim, event.cosine).mass, prices.probability_inside(event)
    inside = uniform < p
    beyond = np.where(inside, uniform / p * q, q + (uniform - p) / (1 - p) * (1 - q))  # P(T >= t)
    smaller = np.minimum(beyond, 1 - beyond)
    sizes = np.sqrt(1 - special.betaincinv((event.dim - 1) / 2, 0.5, np.clip(2 * smaller, 0.0, 1.0)))
    return np.asarray(np.where(beyond <= 0.5, sizes, -sizes))


def _iterate_rows(statistic: Statistic) -> Iterator[Floats]:
    """Yield some users' rows at a time; repeat shared rows."""
    values, lead = statistic.values, statistic.values.shape[:-2]
    some = max(1, _AT_ONCE // (statistic.domain.dim * max(1, math.prod(lead))))
    if statistic.counts is None:
        for begin in range(0, values.shape[-2], some):
            yield values[..., begin : begin + some, :]
        return
    ends = np.cumsum(statistic.counts, axis=-1)  # (..., groups): where in the batch each group ends
    for begin in range(0, statistic.users, some):
        places = np.arange(begin, min(begin + some, statistic.users))
        group = np.sum(places[:, None] >= ends[..., None, :], axis=-1)  # (..., some)
        yield np.take_along_axis(values, group[..., None], axis=-2)


# Privacy


def calibrate_cap(domain: Domain, budget: Budget, participations: int) -> tuple[PrivUnit, float]:
    """Find the best direction for the largest epsilon that meets the budget, and the stated delta.

    The accountant prices directions by pure epsilon alone, so the search uses plain pure events.
    """
    check_domain(domain)
    epsilon = largest_epsilon(_pure, budget, participations, least=LEAST_CAP, most=LARGEST_CAP)
    if epsilon < LEAST_CAP:
        raise CalibrationError(f"no direction is as private as {budget}: epsilon is at least {LEAST_CAP:g} a report")
    mechanism = PrivUnit.calibrate(dim=domain.dim, epsilon=epsilon)
    return mechanism, stated_delta(budget) if spends_delta(budget, participations) else 0.0


def cap_for_std(domain: Domain, std: float) -> PrivUnit:
    """Return the most private direction of at most this std."""
    check_direction_dim(check_domain(domain).dim)
    radius, wanted = domain.ball[1], validation.positive("std", std)

    def meets(epsilon: float) -> bool:
        found = PrivUnit.calibrate(dim=domain.dim, epsilon=epsilon)
        return radius * math.sqrt(found.variance) <= wanted

    if not meets(LARGEST_CAP) or meets(LEAST_CAP):
        raise CalibrationError(
            f"no direction has a standard deviation of {wanted:.3g} in a ball of radius {radius:.3g}"
        )
    return PrivUnit.calibrate(dim=domain.dim, epsilon=search.find_least(meets, LEAST_CAP, LARGEST_CAP, relative=1e-9))


def _pure(epsilon: float) -> DiscreteLaplaceEvent:
    return DiscreteLaplaceEvent(scale=math.nextafter(1 / epsilon, 0.0), shift=1.0)  # at least epsilon
