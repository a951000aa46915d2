"""What a device reports of a private reward: the reward itself, a bit, or the reward times a public direction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.domain import Box, Domain, Statistic, all_finite, numbers
from bandanna.core.shapes import Bits
from bandanna.device.telling import rounded
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.policies.base import Played
from bandanna.storage.declared import stored_as

BITS = Bits()
_ROUNDING = 1e-12  # relative; what rounding errors of an honest direction may exceed its bound by


@stored_as("Rewards")
@dataclass(frozen=True, kw_only=True)
class Rewards(Box):
    """Rewards in [low, high]: sums are exact, so one of them moves a sum by the width."""

    dim: int = 1

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def outside(self, rewards: Floats) -> NDArray[np.bool_]:
        """Which rewards have to be clipped."""
        return np.asarray(np.abs(self.project(rewards) - rewards) > 1e-9)

    def report(self, played: Played) -> Statistic:
        """Rewards (*R, n) as statistics of one number each, clipped and counted."""
        rewards, clipped = played.rewards, np.zeros(played.rewards.shape[:-1], dtype=np.int64)
        if rewards.size and not (rewards.min() >= self.low and rewards.max() <= self.high):  # not a number, too
            all_finite("rewards", rewards)
            inside = self.project(rewards)
            moved = self.outside(rewards)
            clipped = np.asarray(np.sum(moved if played.counts is None else moved * played.counts, axis=-1))
            rewards = inside
        return self.sealed(rewards[..., None], clipped=clipped, counts=played.counts)

    def bits(self, played: Played, coins: Coins) -> Statistic:
        """Clipped rewards (*R, n), each rounded to an end of the range by a coin, without bias: bits.

        Of users who share a row, as many are ones as their coins say.
        """
        rewards = self.report(played)
        share = (rewards.values - self.low) / self.width  # (*R, n, 1), in [0, 1]
        if played.counts is None:
            return BITS.sealed(rounded(share, coins), clipped=rewards.clipped)
        ones = coins.binomial(played.counts, share[..., 0], "rounded rewards")
        counts = np.concatenate([played.counts - ones, ones], axis=-1)  # (*R, 2n): the zeros, then the ones
        values = np.zeros((*counts.shape, 1))
        values[..., ones.shape[-1] :, :] = 1.0
        return BITS.sealed(values, clipped=rewards.clipped, counts=counts)


@stored_as("PublicDirections")
@dataclass(frozen=True, kw_only=True)
class PublicDirections(Domain):
    """Vectors r z, r a reward in a range of width w and z a public direction, |z| <= `bound`.

    Neighbours differ in r, not in z: |r z - r' z| <= w bound in l2, whatever `dim` is, sqrt(dim) times that in l1.
    Which z belongs to a vector cannot be told from it, so that none is admitted but those that `report` forms.
    """

    rewards: Rewards
    bound: float = 1.0

    @property
    def sensitivity(self) -> float:
        """w bound, and the rounding of directions and products."""
        rounding = 2.0**-51 * math.sqrt(self.dim) * self.rewards.bound_of_entries
        return self.bound * (self.rewards.width * (1 + _ROUNDING) + rounding)

    @property
    def l1_sensitivity(self) -> float:
        """sqrt(dim) times as much."""
        return self.sensitivity * math.sqrt(self.dim)

    @property
    def lower(self) -> Floats:
        """Of any reward times any direction."""
        return -self.upper

    @property
    def upper(self) -> Floats:
        """Of any reward times any direction."""
        return np.full(self.dim, self.bound * self.rewards.bound_of_entries * (1 + _ROUNDING))

    def project(self, values: Floats) -> Floats:
        """There is no projection without the direction."""
        raise InvalidStatistic(
            "statistics", Summary("plain vectors"), "those that `report` forms: a reward times its direction"
        )

    def report(self, played: Played, directions: Floats) -> Statistic:
        """Rewards (n,), clipped, each times a direction of its own, (n, dim)."""
        if not np.all(np.einsum("...i,...i->...", directions, directions) <= (self.bound * (1 + _ROUNDING)) ** 2):
            raise InvalidStatistic("directions", Summary("too long"), f"vectors of norm at most {self.bound:g}")
        rewards = self.rewards.report(played)
        return self.sealed(rewards.values * directions, clipped=rewards.clipped, counts=rewards.counts)


def rewards_in(reward_range: tuple[float, float]) -> Rewards:
    """The declared range of the rewards: they are clipped into it before any statistic is formed."""
    allowed = "two finite numbers, low < high"
    ends = numbers("reward_range", reward_range, allowed)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise InvalidArgument("reward_range", reward_range, allowed)
    low, high = (require.finite("reward_range", end, allowed) for end in ends)
    return Rewards(low=low, high=high)
