"""Shuffle model for vectors (P_Vec of paper 000): noisy integer counts, which the shuffler adds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device import randomizers
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.linear_report import LinearReport, drop_isometry
from bandanna.device.noise import NoiseSource
from bandanna.device.randomizers import BinomialCounts, RoundedCounts
from bandanna.errors import CommunicationWarning
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import (
    BinomialNoise,
    binomial_noise,
    paper_binomial_noise,
    refusal_tail,
    subtract_refusals,
)
from bandanna.privacy.events import BinomialEvent, ClearEvent
from bandanna.protocols.base import ShuffledCountsProtocol, check_domain, stated_delta
from bandanna.protocols.mixers import COIN_SOURCES, Analyzer, CountingMixer, MixerState, check_enough_users
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_AT_ONCE = 1 << 17  # numbers of several lattices


@stored_as("ShuffleBinomial")
@dataclass(frozen=True, kw_only=True)
class ShuffleBinomial(ShuffledCountsProtocol):
    """Sum of noisy counts: each user sends, per coordinate, the statistic on a lattice plus Bin(b, 1/2).

    Totals say as much as the shuffled labelled bits of the paper's protocol (P_Vec).

    Privacy: Theorem A for Bin(B b, 1/2), with the price of rounding; within 2 % of the central mechanism's noise.

    Parameters
    ----------
    noise
        Lattice and coins, calibrated for `noise.users` users.
    coins
        "device": each device adds its own. "checked": as "device", and the shuffler refuses counts that honest devices
        hardly ever send; this is priced (proofs.md A.9). "mixer": devices send rounded statistics, and the
        shuffler adds Bin(n b, 1/2) when it closes a batch of n users.
    """

    name: ClassVar[str] = "shuffle_binomial"

    @classmethod
    def calibrate(
        cls,
        *,
        domain: Domain,
        budget: Budget,
        batch: int,
        participations: int = 1,
        calibration: str = "tight",
        bits_limit: float = 1e6,
        coins: str = "device",
    ) -> ShuffleBinomial:
        """Find the least noise for a budget. Warns if a user's message is longer than `bits_limit` bits.

        Parameters
        ----------
        batch
            Least number of users in a batch.
        calibration
            "tight", or "paper": the printed noise, on every entry.
        """
        limit = validation.positive("bits_limit", bits_limit, infinite=True)
        validation.one_of("coins", coins, COIN_SOURCES)
        if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
            domain = drop_isometry(domain)
        noise = calibrate_vector_sum(domain, budget, batch, participations, calibration, coins)
        protocol = cls(
            domain=domain, noise=noise, participations=participations, delta=stated_delta(budget), coins=coins
        )
        if protocol.bits_per_user > limit:
            warnings.warn(
                f"a user's message has {protocol.bits_per_user} bits, above the limit of {limit:.0f}",
                CommunicationWarning,
                stacklevel=2,
            )
        return protocol

    @cached_property
    def event(self) -> BinomialEvent:
        return vector_sum_event(self.domain, self.noise, self.coins)

    @property
    def local_event(self) -> BinomialEvent | ClearEvent:
        return local_vector_event(self.domain, self.noise, self.coins)

    @property
    def exposed(self) -> float:
        return exposure_delta(self.domain, self.noise, self.coins)

    @cached_property
    def device(self) -> BinomialCounts | RoundedCounts:
        return vector_device(self.domain, self.noise, self.coins)

    @cached_property
    def mixer(self) -> VectorMixer:
        return VectorMixer(domain=self.domain, least=self.batch, noise=self.noise, coins=self.coins)

    @cached_property
    def analyzer(self) -> VectorSumAnalyzer:
        return VectorSumAnalyzer(domain=self.domain, noise=self.noise)

    @property
    def bits_per_user(self) -> int:
        return sum(int(most).bit_length() for most in largest_counts(self.noise, self.domain, self.coins))

    @property
    def unary_bits_per_user(self) -> int:
        """Labelled bits of the paper's message."""
        return int(sum(int(most) for most in largest_counts(self.noise, self.domain, self.coins)))

    def std(self, users: int) -> float:
        """Return sqrt(n b p (1-p) + n/4) / s for n >= B users."""
        check_enough_users(self.batch, users)
        return self.noise.for_users(users).std()

    @property
    def rounds_each_row(self) -> bool:
        return True

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        totals = sample_totals(statistic, self.noise.for_users(statistic.users), self.domain, source)
        return self.analyzer.estimate(totals, statistic.users)


# Randomizer


def vector_device(domain: Domain, noise: BinomialNoise, coins: str = "device") -> BinomialCounts | RoundedCounts:
    """Return the device: it sends the encoded statistic, plus Bin(b, p) unless the mixer draws."""
    if coins == "mixer":
        return RoundedCounts(domain=domain, scale=noise.scale)
    return BinomialCounts(domain=domain, scale=noise.scale, trials=noise.trials, probability=noise.probability)


def largest_counts(noise: BinomialNoise, domain: Domain, coins: str = "device") -> Ints:
    """Return each coordinate's largest count, with the device's coins."""
    own = 0 if coins == "mixer" else noise.trials
    return np.asarray(randomizers.compute_largest_counts(noise.scale, domain).astype(np.int64) + own)


# Mixer


@stored_as("VectorMixer")
@dataclass(frozen=True, kw_only=True)
class VectorMixer(CountingMixer):
    """Adds the users' counts, coordinate by coordinate."""

    @cached_property
    def encoded(self) -> Ints:
        return randomizers.compute_largest_counts(self.noise.scale, self.domain).astype(np.int64)


# Analyzer


@dataclass(frozen=True, kw_only=True)
class VectorSumAnalyzer(Analyzer):
    """Unbiased estimate (total - n b p) / s + n lower."""

    domain: Domain
    noise: BinomialNoise

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, totals: Ints, users: int) -> Estimate:
        noise = self.noise.for_users(users)
        centred = totals - users * noise.trials * noise.probability
        total = np.asarray(centred / noise.scale + users * self.domain.lower)
        return Estimate(total=total, count=users, variance=noise.std() ** 2)


# Law


def sample_totals(statistic: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Ints:
    """Draw the encoded statistics' sum plus Bin(B b, p): (..., users, dim) -> (..., dim)."""
    encoded = np.asarray(sum(_encode_part(part, noise, domain, source) for part in statistic.parts()))
    coins = source.binomial(trials=noise.users * noise.trials, probability=noise.probability, size=encoded.shape)
    return np.asarray(encoded + coins)


def _encode_part(part: Statistic, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Ints:
    if part.counts is None:
        return np.asarray(np.sum(randomizers.encode_on_lattice(part.values, noise.scale, domain, source), axis=-2))
    (added,) = encode_groups(part.values, part.counts, [noise], domain, source)
    return added


def encode_sums(
    values: Floats, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """Draw sums of encoded statistics, one per lattice: floor(x) plus a coin of its rest."""
    above = np.maximum(values - domain.lower, 0.0)[..., None, :, :]  # (..., 1, users, dim)
    users, sums = above.shape[-2], list[Ints]()
    step = max(1, _AT_ONCE // max(1, above.size))
    for begin in range(0, len(noises), step):  # a seed's numbers are the same, of one lattice after the other or of all
        scales = np.array([noise.scale for noise in noises[begin : begin + step]])[:, None]  # (k, 1)
        rounded = scales[..., None] * above
        rounded += source.uniform(rounded.shape)
        total = np.ones(users) @ np.floor(rounded, out=rounded)  # whole numbers below 2^53: exact
        total = np.minimum(total, users * randomizers.compute_largest_counts(scales, domain)).astype(
            np.int64
        )  # (..., k, dim)
        sums += [total[..., place, :] for place in range(len(scales))]
    return tuple(sums)


def encode_groups(
    values: Floats, counts: Ints, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """Draw these sums over groups of users with equal statistics: one binomial per group."""
    scales = np.array([noise.scale for noise in noises])[:, None, None]  # (k, 1, 1)
    scaled = scales * np.maximum(values - domain.lower, 0.0)[..., None, :, :]  # (..., k, groups, dim)
    whole, many = np.floor(scaled), counts[..., None, :, None]
    coins = source.coins(np.broadcast_to(many, scaled.shape), scaled - whole)
    sums = np.sum(whole.astype(np.int64) * many + coins, axis=-2)  # (..., k, dim)
    return tuple(sums[..., place, :] for place in range(len(noises)))


def encode_small_groups(
    values: Floats, counts: Ints, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """Draw the same sums over small groups, coin by coin."""
    scales = np.array([noise.scale for noise in noises])[:, None]  # (k, 1)
    scaled = scales * np.maximum(values - domain.lower, 0.0)[..., None, :]  # (..., groups, k, dim)
    whole = np.floor(scaled)
    scaled -= whole
    heads = source.heads(counts, scaled.reshape(*counts.shape, -1))
    whole *= counts[..., None, None]
    sums = np.sum(whole, axis=-3).astype(np.int64)  # whole numbers below 2^53: exact
    sums += heads.reshape(sums.shape)
    return tuple(sums[..., place, :] for place in range(len(noises)))


# Privacy


def calibrate_vector_sum(
    domain: Domain, budget: Budget, batch: int, participations: int, calibration: str, coins: str = "device"
) -> BinomialNoise:
    """Find the least noise (A.4), refusals included (A.9); `paper`: the printed g, b, p [000, Thms C.1 and E.5].

    The printed noise scales with the largest l2 norm: 1 for either part of a linear report, and half of the l2 diameter
    for other domains, B sqrt(s) for s averages in [-B, B] ([001], IV-C and Thm 5.2(iii)).
    """
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        features, bound = domain.dim, domain.sensitivity / 2
        if isinstance(domain, LinearReport):
            features, bound = domain.features, max(1.0, domain.reward_bound)  # Delta_1, Delta_2 of Algorithm 5
        return paper_binomial_noise(
            features=features, bound=bound, users=batch, budget=budget, participations=participations
        )
    return binomial_noise(
        sensitivity=domain.sensitivity,
        reach=domain.reach,
        dim=domain.dim,
        users=batch,
        budget=subtract_refusals(budget, batch, domain.dim, participations) if coins == "checked" else budget,
        participations=participations,
    )


def vector_sum_event(domain: Domain, noise: BinomialNoise, coins: str = "device") -> BinomialEvent:
    """Return the analyzer's view of a batch: Bin(B b, p) noise, and the refusals' tail (A.9)."""
    view = noise.event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)
    return replace(view, tail=refusal_tail(noise.users, domain.dim)) if coins == "checked" else view


def local_vector_event(domain: Domain, noise: BinomialNoise, coins: str = "device") -> BinomialEvent | ClearEvent:
    """Return the shuffler's view of a user: Bin(b, p) noise, or the rounded statistic."""
    if coins == "mixer":
        return ClearEvent()
    return noise.local_event(sensitivity=domain.sensitivity, reach=domain.reach, dim=domain.dim)


def exposure_delta(domain: Domain, noise: BinomialNoise, coins: str = "device") -> float:
    """Return a delta that the shuffler's view of one user reaches for every epsilon (proofs.md A.3c).

    Users at opposite ends of the widest coordinate have counts in {0..b} and {k..b+k}, k = floor(s reach). Outside of
    the overlap the shuffler is sure: P(Bin(b, p) > b - k), or P(Bin(b, p) < k) if that is larger.
    """
    if coins == "mixer":
        return min(1.0, noise.scale * domain.reach)
    k, b, p = math.floor(noise.scale * domain.reach), noise.trials, noise.probability
    if k > b:
        return 1.0
    above, below = special.betainc([b - k + 1.0, b - k + 1.0], float(k), [p, 1 - p]) if k else (0.0, 0.0)
    return float(max(above, below))
