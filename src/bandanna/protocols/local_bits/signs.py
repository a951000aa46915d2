"""Local model for signs of public vectors: what a reward says about features that everybody knows, in one bit.

A statistic is v = + u or - u, where the line of u is public and the sign is private: u = x/2, with the sign of a reward
that was rounded to 0 or 1. A device answers with the sign by randomized response, and the server, who knows the line,
adds up what was answered:

    message = v or, with probability 1 - q, - v;   estimate = sum message / (2q - 1),   q = e^epsilon / (1 + e^epsilon)

Whatever the sign, a message is one of the same two vectors, bit for bit: on the wire too, where steps of a grid are
rounded to the nearest, which is odd. The zero vector, of a user who did not answer, has no sign: it stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.core import require
from bandanna.core.domain import Ball, Statistic
from bandanna.core.estimate import Estimate
from bandanna.device import Sign
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.local_bits import privacy
from bandanna.protocols.roles import Analyzer, Gathering, Held, exact_total
from bandanna.storage.declared import stored_as


@dataclass(frozen=True, kw_only=True)
class SignSum(Analyzer):
    """The sum of what was answered, over 2q - 1: unbiased."""

    domain: Ball
    mechanism: RandomizedResponse

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        rows = view.numbers
        told = np.sum(rows, axis=-2) if rows.dtype != np.int64 else sum(exact_total(rows, self.domain))
        largest = view.users * sign_variance(self.mechanism) * self.domain.bound**2
        return state, Estimate(total=np.asarray(told / self.mechanism.truth), count=view.users, variance=largest)


@stored_as("LocalSigns")
@dataclass(frozen=True, kw_only=True)
class LocalSigns(BatchProtocol):
    """Randomized response about the sign of a public vector in a ball.

    Privacy: pure epsilon for the sign, in each answer by itself; none for the line on which the vector lies, which is
    public. The noise of a user is along the user's own vector, of covariance v v^T (1 / (2q - 1)^2 - 1).
    Reference: Warner 1965.
    """

    domain: Ball
    delta: float = 0.0
    epsilon: float

    name: ClassVar[str] = "local_signs"
    trust: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Ball):
            raise InvalidArgument("domain", self.domain, "Ball(...), in which the negative of every vector is")
        object.__setattr__(self, "epsilon", self.mechanism.epsilon)

    @classmethod
    def calibrate(cls, *, domain: Ball, budget: Budget, participations: int = 1) -> LocalSigns:
        """As for bits: least noise per answer, and one answer leaves the delta of (epsilon, delta) unspent."""
        epsilon, delta = privacy.calibrate(budget, participations)
        return cls(domain=domain, epsilon=epsilon, participations=participations, delta=delta)

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
        return (("the server and everybody else", "a public vector and one randomized bit per user"),)

    @cached_property
    def device(self) -> Sign:
        """The answer, as the vector itself."""
        return Sign(domain=self.domain, lie=self.mechanism.lie)

    @cached_property
    def mixer(self) -> Gathering:
        """The server has every answer."""
        return Gathering(domain=self.domain)

    @cached_property
    def analyzer(self) -> SignSum:
        """Undo the lies on average."""
        return SignSum(domain=self.domain, mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        """The answer; the vector is known."""
        return 1

    def std(self, users: int) -> float:
        """At most: that of vectors which all lie along one coordinate, as long as they may be."""
        return self.domain.bound * math.sqrt(require.whole("users", users) * sign_variance(self.mechanism))

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """There is no shorter way: everybody's noise has a direction of its own."""
        return self.of_messages(self.device.message(statistic, source), source)


def sign_variance(mechanism: RandomizedResponse) -> float:
    """1 / (2q - 1)^2 - 1: of an answer about a sign, as +1 or -1, after the lies are undone."""
    return 4 * mechanism.variance
