"""Shuffle model for bits: copies of each bit among fair bits, which the shuffler counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Bits, Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource
from bandanna.device.randomizers import RepeatedBits, RoundedCounts
from bandanna.errors import InvalidArgument
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import BinomialNoise, bit_event, bit_noise, bit_std, refusal_tail, subtract_refusals
from bandanna.privacy.events import BinomialEvent, ClearEvent
from bandanna.protocols.base import ShuffledCountsProtocol, stated_delta
from bandanna.protocols.mixers import (
    COIN_SOURCES,
    Analyzer,
    CountingMixer,
    MixerState,
    check_enough_users,
    raise_invalid_message,
)
from bandanna.storage.encoding import stored_as
from bandanna.types import Ints


@stored_as("ShuffleBits")
@dataclass(frozen=True, kw_only=True)
class ShuffleBits(ShuffledCountsProtocol):
    """Each user sends c copies of its bit and b fair bits; the analyzer sees how many ones a batch sent.

        total = c sum_i x_i + Bin(B b, 1/2),      estimate = (total - B b / 2) / c

    Symbols: c is `noise.scale`, b `noise.trials`, B `noise.users`. Privacy: neighbours' totals differ by c, and the
    profile of Bin(B b, 1/2) against its shift is computed exactly. With coins="mixer", the shuffler sees every bit.
    Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2021, Algorithm 3. Deviations: fair bits for every user, exact
    calibration, and copies, so that large batches are tight.

    Parameters
    ----------
    noise
        Whole copies, fair bits, and the least number of users in a batch. More bits are more private.
    coins
        "device", "checked" or "mixer", as in `CountingMixer`.
    domain, participations, delta
        `Bits()`, and as for `Protocol`.
    """

    domain: Domain = Bits()

    name: ClassVar[str] = "shuffle_bits"
    view_words: ClassVar[tuple[str, str, str]] = ("count", "bit", "the total of a batch")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bit_noise(self.noise)
        if not isinstance(self.domain, Bits):
            raise InvalidArgument("domain", self.domain, "Bits()")

    @classmethod
    def calibrate(cls, *, budget: Budget, batch: int, participations: int = 1, coins: str = "device") -> ShuffleBits:
        """Find the least noise for batches of at least `batch` users."""
        validation.one_of("coins", coins, COIN_SOURCES)
        noise = calibrate_bit_sum(budget, batch, participations, coins)
        return cls(noise=noise, participations=participations, delta=stated_delta(budget), coins=coins)

    @cached_property
    def event(self) -> BinomialEvent:
        return bit_sum_event(self.noise, self.coins)

    @property
    def local_event(self) -> BinomialEvent | ClearEvent:
        return ClearEvent() if self.coins == "mixer" else bit_event(self.noise, users=1)

    @property
    def exposed(self) -> float:
        return bit_exposure_delta(self.noise, self.coins)

    @cached_property
    def device(self) -> RepeatedBits | RoundedCounts:
        return bit_sum_device(self.noise, self.coins)

    @cached_property
    def mixer(self) -> BitMixer:
        return BitMixer(domain=self.domain, least=self.batch, noise=self.noise, coins=self.coins)

    @cached_property
    def analyzer(self) -> BitSumAnalyzer:
        return BitSumAnalyzer(noise=self.noise)

    @property
    def bits_per_user(self) -> int:
        """Return the bits of one integer up to c + b, or c."""
        return self.unary_bits_per_user.bit_length()

    @property
    def unary_bits_per_user(self) -> int:
        """Bits of the paper's message."""
        return int(self.mixer.largest[0])

    def std(self, users: int) -> float:
        """Return sqrt(n b) / (2 c) for n >= B users."""
        check_enough_users(self.batch, users)
        return bit_std(self.noise.for_users(users))

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        ones = np.rint(statistic.total()).astype(np.int64)
        trials, chance = statistic.users * self.noise.trials, self.noise.probability
        coins = source.binomial(trials=trials, probability=chance, size=ones.shape)
        return self.analyzer.estimate(np.asarray(int(self.noise.scale) * ones + coins), statistic.users)


# Randomizer


def bit_sum_device(noise: BinomialNoise, coins: str = "device") -> RepeatedBits | RoundedCounts:
    """Return the device: it counts ones among c copies, and b fair bits unless the mixer draws."""
    if coins == "mixer":
        return RoundedCounts(domain=Bits(), scale=noise.scale)
    return RepeatedBits(copies=int(noise.scale), trials=noise.trials)


# Mixer


@stored_as("BitMixer")
@dataclass(frozen=True, kw_only=True)
class BitMixer(CountingMixer):
    """Adds the users' ones."""

    @property
    def encoded(self) -> Ints:
        return np.array([int(self.noise.scale)], dtype=np.int64)

    def check_range(self, messages: Messages) -> None:
        """Refuse counts outside of 0 to `largest`; without coins, all but 0 and c."""
        super().check_range(messages)
        if self.coins == "mixer":
            copies = int(self.noise.scale)
            raise_invalid_message(
                "messages", messages, (messages != 0) & (messages != copies), f"counts from 0 to {copies}: one of both"
            )


# Analyzer


@dataclass(frozen=True, kw_only=True)
class BitSumAnalyzer(Analyzer):
    """Unbiased estimate (total - n b / 2) / c."""

    noise: BinomialNoise

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, totals: Ints, users: int) -> Estimate:
        noise = self.noise.for_users(users)
        centred = np.asarray(totals - users * noise.trials / 2)
        centred /= noise.scale
        return Estimate(total=centred, count=users, variance=bit_std(noise) ** 2)


# Privacy


def calibrate_bit_sum(budget: Budget, batch: int, participations: int, coins: str = "device") -> BinomialNoise:
    """Find the fewest fair bits that meet the budget, refusals included (proofs.md A.9)."""
    left = subtract_refusals(budget, batch, 1, participations) if coins == "checked" else budget
    return bit_noise(users=batch, budget=left, participations=participations)


def check_bit_noise(noise: BinomialNoise) -> BinomialNoise:
    """Return the noise; refuse fractional copies and unfair coins."""
    validation.integer("copies", noise.scale)
    if noise.probability != 0.5:
        raise InvalidArgument("probability", noise.probability, "1/2: bits are hidden among fair coins")
    return noise


def bit_sum_event(noise: BinomialNoise, coins: str = "device") -> BinomialEvent:
    """Return the analyzer's view of a batch: Bin(B b, 1/2) noise, and the refusals' tail (A.9)."""
    view = bit_event(noise)
    return replace(view, tail=refusal_tail(noise.users, 1)) if coins == "checked" else view


def bit_exposure_delta(noise: BinomialNoise, coins: str = "device") -> float:
    """Return the probability that the shuffler is sure of a bit: c + Bin(b, 1/2) > b."""
    k, b = int(noise.scale), 0 if coins == "mixer" else noise.trials
    return 1.0 if k > b else float(special.betainc(b - k + 1.0, float(k), 0.5))  # P(Bin(b, 1/2) > b - k)
