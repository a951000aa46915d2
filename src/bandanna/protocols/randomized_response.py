"""Randomized response for bits and signs in the local model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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

# Analyzer of the local sum of bits: the server counts the answers itself.


@stored_as("Answers")
@dataclass(frozen=True, kw_only=True)
class BitCountingMixer(SummingMixer):
    """Adds answers."""

    @property
    def largest(self) -> Ints:
        """An answer is 0 or 1."""
        return np.ones(1, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class BitResponseAnalyzer(Analyzer):
    """(ones - (1 - q) n) / (2q - 1): unbiased."""

    mechanism: RandomizedResponse

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """The ones among the answers, (..., 1)."""
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, ones: Ints, users: int) -> Estimate:
        """Of so many answers."""
        total = self.mechanism.decode(ones.astype(float), users)
        return Estimate(total=total, count=users, variance=users * self.mechanism.variance)


# Aggregate law of the local sum of bits: true ones among the answers to 1, false ones among those to 0.


def sample_ones(statistic: Statistic, mechanism: RandomizedResponse, source: NoiseSource) -> NDArray[np.int64]:
    """Bin(k, q) + Bin(n - k, 1 - q) for k ones among n bits: (..., users, 1) -> (..., 1)."""
    k = np.rint(statistic.total()).astype(np.int64)
    true, false = np.full(k.shape, 1 - mechanism.lie), np.full(k.shape, mechanism.lie)
    return np.asarray(source.coins(k, true) + source.coins(statistic.users - k, false))


# Privacy of the local sum of bits: every answer protects itself.


_LARGEST = 36.0  # epsilon beyond which a coin of 53 places lies no less


def calibrate_bits(budget: Budget, participations: int) -> tuple[float, float]:
    """The largest epsilon of an answer that meets the budget, and the delta at which the promise is stated."""
    epsilon = largest_epsilon(_event, budget, participations, least=LEAST, most=_LARGEST)
    return epsilon, stated_delta(budget) if spends_delta(budget, participations) else 0.0


def _event(epsilon: float) -> DiscreteLaplaceEvent:
    return RandomizedResponse(epsilon=epsilon).event


# Randomizer of the local sum of bits: runs on the user's device.


def bit_device(mechanism: RandomizedResponse) -> RandomizedBit:
    """One answer for every bit."""
    return RandomizedBit(lie=mechanism.lie)


# Local model for bits: every device answers for itself, and sometimes lies; users trust it alone.


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
        epsilon, delta = calibrate_bits(budget, participations)
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
    def device(self) -> RandomizedBit:
        """The answer."""
        return bit_device(self.mechanism)

    @cached_property
    def mixer(self) -> BitCountingMixer:
        """The server counts answers."""
        return BitCountingMixer(domain=self.domain)

    @cached_property
    def analyzer(self) -> BitResponseAnalyzer:
        """Count the ones, undo the lies on average."""
        return BitResponseAnalyzer(mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        """The answer."""
        return 1

    def std(self, users: int) -> float:
        """sqrt(users) times that of an answer."""
        return math.sqrt(validation.integer("users", users) * self.mechanism.variance)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Two binomial draws for the whole batch."""
        return self.analyzer.estimate(sample_ones(statistic, self.mechanism, source), statistic.users)


# Local model for signs of public vectors: what a reward says about features that everybody knows, in one bit.
#
# A statistic is v = + u or - u, where the line of u is public and the sign is private: u = x/2, with the sign of a
# reward
# that was rounded to 0 or 1. A device answers with the sign by randomized response, and the server, who knows the
# line,
# adds up what was answered:
#
#     message = v or, with probability 1 - q, - v;   estimate = sum message / (2q - 1),   q = e^epsilon / (1 +
#     e^epsilon)
#
# Whatever the sign, a message is one of the same two vectors, bit for bit: on the wire too, where steps of a grid are
# rounded to the nearest, which is odd. The zero vector, of a user who did not answer, has no sign: it stays.


@dataclass(frozen=True, kw_only=True)
class SignResponseAnalyzer(Analyzer):
    """The sum of what was answered, over 2q - 1: unbiased."""

    domain: Ball
    mechanism: RandomizedResponse

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        rows = view.numbers
        told = np.sum(rows, axis=-2) if rows.dtype != np.int64 else sum(sum_plain_statistics(rows, self.domain))
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
        epsilon, delta = calibrate_bits(budget, participations)
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
    def device(self) -> RandomizedSign:
        """The answer, as the vector itself."""
        return RandomizedSign(domain=self.domain, lie=self.mechanism.lie)

    @cached_property
    def mixer(self) -> GatheringMixer:
        """The server has every answer."""
        return GatheringMixer(domain=self.domain)

    @cached_property
    def analyzer(self) -> SignResponseAnalyzer:
        """Undo the lies on average."""
        return SignResponseAnalyzer(domain=self.domain, mechanism=self.mechanism)

    @property
    def bits_per_user(self) -> int:
        """The answer; the vector is known."""
        return 1

    def std(self, users: int) -> float:
        """At most: that of vectors which all lie along one coordinate, as long as they may be."""
        return self.domain.bound * math.sqrt(validation.integer("users", users) * sign_variance(self.mechanism))

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """There is no shorter way: everybody's noise has a direction of its own."""
        return self.release_messages(self.device.message(statistic, source), source)


def sign_variance(mechanism: RandomizedResponse) -> float:
    """1 / (2q - 1)^2 - 1: of an answer about a sign, as +1 or -1, after the lies are undone."""
    return 4 * mechanism.variance
