"""Randomized response in the local model: `LocalBits` sums private bits, `LocalSigns` vectors with private signs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna import validation
from bandanna.device.domain import Ball, Bits, Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource
from bandanna.device.randomizers import RandomizedBit, RandomizedSign
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import LEAST, RandomizedResponse
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import largest_epsilon, spends_delta
from bandanna.privacy.events import DiscreteLaplaceEvent
from bandanna.protocols.base import BatchProtocol, stated_delta
from bandanna.protocols.mixers import Analyzer, GatheringMixer, MixerState, SummingMixer, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Ints

_LARGEST = 36.0  # epsilon beyond which a coin of 53 places lies no less


@dataclass(frozen=True, kw_only=True)
class RandomizedResponseProtocol(BatchProtocol):
    """A protocol in which each user sends one randomized bit."""

    delta: float = 0.0
    epsilon: float

    trust: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", self.mechanism.epsilon)

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        return RandomizedResponse(epsilon=self.epsilon)

    @property
    def event(self) -> DiscreteLaplaceEvent:
        return self.mechanism.event

    @property
    def bits_per_user(self) -> int:
        """Return one: a sign's vector is public."""
        return 1


@stored_as("LocalBits")
@dataclass(frozen=True, kw_only=True)
class LocalBits(RandomizedResponseProtocol):
    """Sum of private bits: each user sends its bit with probability q = e^epsilon / (1 + e^epsilon), else the opposite.

        estimate = (ones - (1 - q) n) / (2q - 1),      variance n q (1 - q) / (2q - 1)^2

    Privacy: each answer is pure epsilon-DP on its own. No pure local protocol for bits has less noise. Reference:
    Warner 1965; Kairouz, Oh and Viswanath 2016 (optimality).

    Parameters
    ----------
    domain
        `Bits()`.
    epsilon
        Pure privacy loss of one answer, above 0; a smaller one is more private.
    participations
        Largest number of answers of a user; their losses compose.
    delta
        Delta of the stated guarantee; 0 by default.
    """

    domain: Domain = Bits()

    name: ClassVar[str] = "local_bits"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "Bits()")

    @classmethod
    def calibrate(cls, *, budget: Budget, participations: int = 1) -> LocalBits:
        """Find the least noise for the budget. With one participation, delta stays unspent."""
        epsilon, delta = calibrate_bits(budget, participations)
        return cls(epsilon=epsilon, participations=participations, delta=delta)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the server and the public", "one randomized bit per user"),)

    @cached_property
    def device(self) -> RandomizedBit:
        return RandomizedBit(lie=self.mechanism.lie)

    @cached_property
    def mixer(self) -> BitCountingMixer:
        return BitCountingMixer(domain=self.domain)

    @cached_property
    def analyzer(self) -> BitResponseAnalyzer:
        return BitResponseAnalyzer(mechanism=self.mechanism)

    def std(self, users: int) -> float:
        return math.sqrt(validation.integer("users", users) * self.mechanism.variance)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Draw Bin(k, q) + Bin(n - k, 1 - q) for k ones: (..., users, 1) -> (..., 1)."""
        k, lie = np.rint(statistic.total()).astype(np.int64), self.mechanism.lie
        true, false = np.full(k.shape, 1 - lie), np.full(k.shape, lie)
        ones = np.asarray(source.coins(k, true) + source.coins(statistic.users - k, false))
        return self.analyzer.estimate(ones, statistic.users)


@stored_as("LocalSigns")
@dataclass(frozen=True, kw_only=True)
class LocalSigns(RandomizedResponseProtocol):
    """Sum of vectors +u or -u with public u and private sign, by randomized response about the sign.

        message = v, or -v with probability 1 - q;      estimate = sum message / (2q - 1)

    It serves rewards with public features: u = x/2, with the sign of the reward rounded to 0 or 1. Both possible
    messages are the same two vectors bit for bit. A user without an answer sends the zero vector, which has no sign.

    Privacy: pure epsilon-DP for the sign, none for the line of the vector. A user's noise lies along its own vector v,
    with covariance v v^T (1 / (2q - 1)^2 - 1). Reference: Warner 1965.
    """

    domain: Ball

    name: ClassVar[str] = "local_signs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.domain, Ball):
            raise InvalidArgument("domain", self.domain, "Ball(...), in which the negative of every vector is")

    @classmethod
    def calibrate(cls, *, domain: Ball, budget: Budget, participations: int = 1) -> LocalSigns:
        """Find the least noise for the budget. With one participation, delta stays unspent."""
        epsilon, delta = calibrate_bits(budget, participations)
        return cls(domain=domain, epsilon=epsilon, participations=participations, delta=delta)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the server and the public", "a public vector and one randomized bit per user"),)

    @cached_property
    def device(self) -> RandomizedSign:
        return RandomizedSign(domain=self.domain, lie=self.mechanism.lie)

    @cached_property
    def mixer(self) -> GatheringMixer:
        return GatheringMixer(domain=self.domain)

    @cached_property
    def analyzer(self) -> SignResponseAnalyzer:
        return SignResponseAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def std(self, users: int) -> float:
        """Return an upper bound, reached by longest vectors along one coordinate."""
        return self.domain.bound * math.sqrt(validation.integer("users", users) * sign_variance(self.mechanism))

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Run the messages: each user's noise has its own direction."""
        return self.release_messages(self.device.message(statistic, source), source)


# Mixer


@stored_as("Answers")
@dataclass(frozen=True, kw_only=True)
class BitCountingMixer(SummingMixer):
    """Counts answers of 1."""

    @property
    def largest(self) -> Ints:
        return np.ones(1, dtype=np.int64)


# Analyzers


@dataclass(frozen=True, kw_only=True)
class BitResponseAnalyzer(Analyzer):
    """Unbiased estimate (ones - (1 - q) n) / (2q - 1)."""

    mechanism: RandomizedResponse

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, ones: Ints, users: int) -> Estimate:
        total = self.mechanism.decode(ones.astype(float), users)
        return Estimate(total=total, count=users, variance=users * self.mechanism.variance)


@dataclass(frozen=True, kw_only=True)
class SignResponseAnalyzer(Analyzer):
    """Unbiased estimate: the sum of the answers over 2q - 1."""

    domain: Ball
    mechanism: RandomizedResponse

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        rows = view.numbers
        answered = np.sum(rows, axis=-2) if rows.dtype != np.int64 else sum(sum_plain_statistics(rows, self.domain))
        largest = view.users * sign_variance(self.mechanism) * self.domain.bound**2
        return state, Estimate(total=np.asarray(answered / self.mechanism.truth), count=view.users, variance=largest)


# Privacy


def calibrate_bits(budget: Budget, participations: int) -> tuple[float, float]:
    """Return the largest epsilon of an answer, and the stated delta."""
    epsilon = largest_epsilon(_event, budget, participations, least=LEAST, most=_LARGEST)
    return epsilon, stated_delta(budget) if spends_delta(budget, participations) else 0.0


def _event(epsilon: float) -> DiscreteLaplaceEvent:
    return RandomizedResponse(epsilon=epsilon).event


def sign_variance(mechanism: RandomizedResponse) -> float:
    """Return 1 / (2q - 1)^2 - 1, the variance of a debiased sign."""
    return 4 * mechanism.variance
