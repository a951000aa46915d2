"""Local model for bits: every device answers for itself, and sometimes lies; users trust it alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.shapes import Bits
from bandanna.device import Answer
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.local_bits import law, privacy, randomizer
from bandanna.protocols.local_bits.analyzer import Answers, AnswerSum
from bandanna.storage.declared import stored_as


@stored_as("LocalBits")
@dataclass(frozen=True, kw_only=True)
class LocalBits(BatchProtocol):
    """Randomized response: each user sends one bit, its own with probability q = e^epsilon / (1 + e^epsilon).

        estimate = (ones - (1 - q) n) / (2q - 1),      variance n q (1 - q) / (2q - 1)^2

    Privacy: each answer is pure epsilon on its own. No pure local protocol for bits has less noise; at epsilon = 1 its
    standard deviation is about a quarter of `LocalGaussian`'s at delta = 1e-5.
    Reference: Warner 1965; Kairouz, Oh and Viswanath 2016 (optimality).
    """

    domain: Domain = Bits()
    delta: float = 0.0
    epsilon: float

    name: ClassVar[str] = "local_bits"
    trust: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "Bits()")
        object.__setattr__(self, "epsilon", self.mechanism.epsilon)

    @classmethod
    def calibrate(cls, *, budget: Budget, participations: int = 1) -> LocalBits:
        """Least noise per answer for the budget; one answer leaves the delta of (epsilon, delta) unspent."""
        epsilon, delta = privacy.calibrate(budget, participations)
        return cls(epsilon=epsilon, participations=participations, delta=delta)

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """Coin and price of one answer."""
        return RandomizedResponse(epsilon=self.epsilon)

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """One answer."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is not trusted."""
        return (("the server and everybody else", "one randomized bit per user"),)

    @cached_property
    def device(self) -> Answer:
        """The answer."""
        return randomizer.device(self.mechanism)

    @cached_property
    def mixer(self) -> Answers:
        """The server counts answers."""
        return Answers(domain=self.domain)

    @cached_property
    def analyzer(self) -> AnswerSum:
        """Count the ones, undo the lies on average."""
        return AnswerSum(mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        """The answer."""
        return 1

    def std(self, users: int) -> float:
        """sqrt(users) times that of an answer."""
        return math.sqrt(require.whole("users", users) * self.mechanism.variance)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Two binomial draws for the whole batch."""
        return self.analyzer.estimate(law.ones(statistic, self.mechanism, source), statistic.users)
