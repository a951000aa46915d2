"""Local model, pure: devices send random directions that lean towards their own statistic; users trust them alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import CapEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.device import Direction
from bandanna.device.caps import CAP_STEPS
from bandanna.mechanisms.priv_unit import PrivUnit
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.local_unit import law, privacy, randomizer
from bandanna.protocols.local_unit.analyzer import Directions, DirectionSum
from bandanna.storage.declared import stored_as


@stored_as("LocalUnit")
@dataclass(frozen=True, kw_only=True)
class LocalUnit(BatchProtocol):
    """PrivUnit: each user sends a direction u_i about x_i, a point of the domain's ball of radius r around c.

        estimate = n c + (r/m) sum_i u_i,      E|error|^2 = sum_i (r^2 / m^2 - |x_i - c|^2),      m = E<u, u0>

    `cosine`, `chance`, `candidates` and `steps` are those of `mechanisms.priv_unit`.

    Noise: `std` is sqrt(n) r / (m sqrt(dim)), whose square bounds the mean variance of the coordinates for any
    statistics, and each variance where these point everywhere alike. Along one direction it depends on them:
    `std_along` bounds it for all. Across x_i - c the variance is never above the mean.

    Privacy: each message is pure epsilon on its own, for any domain of this ball; several compose by the accountant.
    References: Bhowmick et al. 2018; Asi, Feldman and Talwar 2022; calibration.md D.
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
        randomizer.device(self.domain, self.mechanism)

    @classmethod
    def calibrate(cls, *, domain: Domain, budget: Budget, participations: int = 1) -> LocalUnit:
        """Least noise per report for the budget; one report leaves the delta of (epsilon, delta) unspent."""
        found, delta = privacy.calibrate(domain, budget, participations)
        return cls._sending(found, domain=domain, participations=participations, delta=delta)

    @classmethod
    def of_std(cls, *, domain: Domain, std: float, participations: int = 1, delta: float = 0.0) -> LocalUnit:
        """The most private one with at most this standard deviation of a report."""
        return cls._sending(privacy.of_std(domain, std), domain=domain, participations=participations, delta=delta)

    @classmethod
    def _sending(cls, found: PrivUnit, **shared: Any) -> LocalUnit:
        return cls(cosine=found.cosine, chance=found.chance, candidates=found.candidates, **shared)

    @cached_property
    def mechanism(self) -> PrivUnit:
        """Sampler and price of one direction."""
        return PrivUnit(
            cosine=self.cosine,
            chance=self.chance,
            candidates=self.candidates,
            dim=self.domain.dim,
            steps=self.steps,
        )

    @property
    def event(self) -> CapEvent:
        """One direction."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is not trusted."""
        return (("the server and everybody else", "one random direction per user"),)

    @cached_property
    def device(self) -> Direction:
        """The direction."""
        return randomizer.device(self.domain, self.mechanism)

    @cached_property
    def mixer(self) -> Directions:
        """The server keeps directions."""
        return Directions(domain=self.domain, steps=self.steps)

    @cached_property
    def analyzer(self) -> DirectionSum:
        """Add the directions, undo on average how little they lean."""
        return DirectionSum(domain=self.domain, mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        """A whole number of steps for every coordinate."""
        return self.domain.dim * (2 * self.mixer.largest).bit_length()

    @property
    def rounds_rows(self) -> bool:
        """Every statistic is rounded to the sphere by itself."""
        return True

    def draws(self, users: int) -> Draws:
        """Candidates of every user."""
        pairs = (self.domain.dim + 1) // 2
        return Draws(words=3 * users * self.candidates * pairs, numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """sqrt(users) r / (m sqrt(dim)): root of a bound on the mean variance of the sum's coordinates."""
        return self._std(users, self.mechanism.variance)

    def std_along(self, users: int) -> float:
        """sqrt(users) r sqrt(E<u, u0>^2) / m: a bound in any direction, for statistics that all lie along it."""
        return self._std(users, self.mechanism.most_variance)

    @property
    def length(self) -> float:
        """r/m: how far the estimate from one direction is from the centre."""
        return self.domain.ball[1] / self.mechanism.lean

    def _std(self, users: int, variance: float) -> float:
        return math.sqrt(require.whole("users", users) * variance) * self.domain.ball[1]

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Every user's angle and direction, without candidates."""
        return self.analyzer.estimate(law.leaning(statistic, self.event, source), statistic.users)
