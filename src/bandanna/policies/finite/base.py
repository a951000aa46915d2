"""The base class of policies for finite arms, and domains of their rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.domain import Bits, Box, Domain, Statistic, check_all_finite, read_numeric_array
from bandanna.device.statistics import round_to_ends
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.linalg import first_best
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import regret_bounds
from bandanna.policies.base import PlayedRounds, Policy, SumQuery, require_arm_count
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import Protocol
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

# Statistics of a private reward: the reward itself, a bit, or the reward times a public direction


BIT_DOMAIN = Bits()
_ROUNDING = 1e-12  # relative excess of an honest direction over its bound


@stored_as("Rewards")
@dataclass(frozen=True, kw_only=True)
class RewardDomain(Box):
    """Rewards in [low, high]: sums are exact, so one of them moves a sum by the width."""

    dim: int = 1

    @property
    def width(self) -> float:
        return self.high - self.low

    def outside(self, rewards: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.abs(self.project(rewards) - rewards) > 1e-9)

    def report(self, played: PlayedRounds) -> Statistic:
        rewards, clipped = played.rewards, np.zeros(played.rewards.shape[:-1], dtype=np.int64)
        if rewards.size and not (rewards.min() >= self.low and rewards.max() <= self.high):  # not a number, too
            check_all_finite("rewards", rewards)
            inside = self.project(rewards)
            moved = self.outside(rewards)
            clipped = np.asarray(np.sum(moved if played.counts is None else moved * played.counts, axis=-1))
            rewards = inside
        return self.sealed(rewards[..., None], clipped=clipped, counts=played.counts)

    def bits(self, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        """Round clipped rewards (*R, n) to an end of the range by a coin, without bias."""
        rewards = self.report(played)
        share = (rewards.values - self.low) / self.width  # (*R, n, 1), in [0, 1]
        if played.counts is None:
            return BIT_DOMAIN.sealed(round_to_ends(share, coins), clipped=rewards.clipped)
        # If users share a row, their coins decide how many of them report 1.
        ones = coins.binomial(played.counts, share[..., 0], "rounded rewards")
        counts = np.concatenate([played.counts - ones, ones], axis=-1)  # (*R, 2n): the zeros, then the ones
        values = np.zeros((*counts.shape, 1))
        values[..., ones.shape[-1] :, :] = 1.0
        return BIT_DOMAIN.sealed(values, clipped=rewards.clipped, counts=counts)


@stored_as("PublicDirections")
@dataclass(frozen=True, kw_only=True)
class DirectionRewardDomain(Domain):
    """Vectors r z, r a reward in a range of width w and z a public direction, |z| <= `bound`.

    Neighbours differ in r, not in z: |r z - r' z| <= w bound in l2, sqrt(dim) times that in l1. A vector does not show
    its z, so only vectors that `report` forms are admitted.
    """

    rewards: RewardDomain
    bound: float = 1.0

    @property
    def sensitivity(self) -> float:
        rounding = 2.0**-51 * math.sqrt(self.dim) * self.rewards.largest_entry
        return self.bound * (self.rewards.width * (1 + _ROUNDING) + rounding)

    @property
    def l1_sensitivity(self) -> float:
        return self.sensitivity * math.sqrt(self.dim)

    @property
    def lower(self) -> Floats:
        return -self.upper

    @property
    def upper(self) -> Floats:
        return np.full(self.dim, self.bound * self.rewards.largest_entry * (1 + _ROUNDING))

    def project(self, values: Floats) -> Floats:
        raise InvalidStatistic(
            "statistics",
            ValueSummary("plain vectors"),
            "products of a reward and its direction, as `report` forms them",
        )

    def report(self, played: PlayedRounds, directions: Floats) -> Statistic:
        if not np.all(np.einsum("...i,...i->...", directions, directions) <= (self.bound * (1 + _ROUNDING)) ** 2):
            raise InvalidStatistic("directions", ValueSummary("longer ones"), f"vectors of norm at most {self.bound:g}")
        rewards = self.rewards.report(played)
        return self.sealed(rewards.values * directions, clipped=rewards.clipped, counts=rewards.counts)


def make_reward_domain(reward_range: tuple[float, float]) -> RewardDomain:
    """Return the domain of a declared reward range."""
    allowed = "two finite numbers, low < high"
    ends = read_numeric_array("reward_range", reward_range, allowed)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise InvalidArgument("reward_range", reward_range, allowed)
    low, high = (validation.finite("reward_range", end, allowed) for end in ends)
    return RewardDomain(low=low, high=high)


# Base of the policies without features


State = TypeVar("State")

PROTECTS = "a user's reward"
CENTRAL_OBSERVERS = (
    ("the trusted server", "every user's reward"),
    ("the public", "the chosen arms, which follow from noisy statistics"),
)
_EXACT = (("everybody", "the chosen arms, which follow from exact statistics"),)


@dataclass(frozen=True, kw_only=True)
class FiniteArmedPolicy(Policy[State]):
    """Base of policies on `n_arms` arms over `horizon` rounds; rewards are clipped into `reward_range`."""

    _private_siblings = (
        '. Private policies without features: "AdaC-UCB" (central), "SDP-SE" (shuffle), "LDP-UCB" (local)'
    )

    n_arms: int = None  # type: ignore[assignment]  # until it is known
    horizon: int
    privacy: Privacy
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not self._lacks_arms:
            validation.set_validated(self, validation.integer, "n_arms")
        validation.set_validated(self, validation.integer, "horizon")
        self._check_privacy_model()
        _ = self.domain

    @property
    def _lacks_arms(self) -> bool:
        return self.n_arms is None

    @property
    def _arms(self) -> int:
        return require_arm_count(self.n_arms)

    @cached_property
    def domain(self) -> RewardDomain:
        return make_reward_domain(self.reward_range)

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return regret_bounds.find_finite_arm_bounds(setting)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        return self.domain.report(played)


@stored_as("Tallies")
@dataclass(frozen=True, kw_only=True)
class ArmSums:
    """Sums of rewards or bits of every arm, and how often it was played. R = replicate axes."""

    sums: Floats  # (*R, K)
    pulls: Floats  # (*R, K)
    rounds: int

    def means(self) -> Floats:
        """Return the means, (*R, K), minus infinity before the first play."""
        return np.where(self.pulls > 0, self.sums / np.maximum(self.pulls, 1.0), -np.inf)

    def plus(self, arms: Ints, values: Floats) -> ArmSums:
        """Return the sums after one more round: arms and values (*R)."""
        place = np.arange(0, self.sums.size, self.sums.shape[-1]) + arms.reshape(-1)
        sums, pulls = self.sums.copy(), self.pulls.copy()
        sums.reshape(-1)[place] += values.reshape(-1)
        pulls.reshape(-1)[place] += 1
        return ArmSums(sums=sums, pulls=pulls, rounds=self.rounds + 1)


def make_empty_arm_sums(n_arms: int, replicates: tuple[int, ...]) -> ArmSums:
    """Return the sums before the first round."""
    shape = (*replicates, n_arms)
    return ArmSums(sums=np.zeros(shape), pulls=np.zeros(shape), rounds=0)


def select_optimistic_arm(state: ArmSums, scale: float) -> NDArray[np.int64]:
    """Return argmax of sums/N + sqrt(scale log t / N); first every arm once."""
    n_arms = state.sums.shape[-1]
    if state.rounds < n_arms:
        return np.full(state.sums.shape[:-1], state.rounds)
    inverse = 1 / state.pulls
    return first_best(state.sums * inverse + np.sqrt((scale * math.log(state.rounds + 1)) * inverse))


def reward_guarantee(protocol: Protocol) -> Guarantee:
    """Return a protocol's guarantee for one reward."""
    stated = protocol.guarantee
    observers = (
        _EXACT if stated.trust == "none" else CENTRAL_OBSERVERS if stated.trust == "central" else stated.observers
    )
    return replace(
        stated, protects=PROTECTS, observers=observers, delta=0.0 if stated.trust == "none" else stated.delta
    )
