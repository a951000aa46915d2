"""The statistic that a device reports, formed from the features and the reward of a decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bandanna.device.domain import Domain, Statistic, check_all_finite
from bandanna.device.linear_report import ROUNDING_TOLERANCE, LinearReport, RegressionReport, clip_rewards
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import DeviceRandomness
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

_ROUNDED = "rounded rewards"  # what the coins are called that round rewards


class ReportStatistic(ABC):
    """Forms statistics from users' features (*R, n, d) and rewards (*R, n); clips first, and counts clipped ones."""

    @abstractmethod
    def statistic(
        self, domain: Domain, features: Floats, rewards: Floats, arms: Ints | None, coins: DeviceRandomness
    ) -> Statistic:
        """Return points of `domain`, (*R, n, dim); an arm of -1 stands for a user without an answer."""


@stored_as("Regressed")
@dataclass(frozen=True, kw_only=True)
class RegressionStatistic(ReportStatistic):
    """x and y = r - centre, as a regression's domain reports them; rewards r are clipped to [0, 1]."""

    centre: float = 0.0

    def centred(self, rewards: Floats) -> tuple[Floats, Bools]:
        inside, moved = clip_rewards(rewards)
        return (inside - self.centre if self.centre else inside), moved

    def statistic(
        self, domain: Domain, features: Floats, rewards: Floats, arms: Ints | None, coins: DeviceRandomness
    ) -> Statistic:
        if not isinstance(domain, RegressionReport):
            raise InvalidArgument("domain", domain, "that of a regression")
        inside, moved = self.centred(rewards)
        return domain.statistic(features, inside, moved=moved, arms=arms)


@stored_as("Weighted")
@dataclass(frozen=True, kw_only=True)
class WeightedStatistic(ReportStatistic):
    """w x (r - 1/2) with public features x: the reward r, or the bit to which a coin rounds it.

    Features are clipped by the domain `seen`; `weights` w make w x a vector of the unit ball.
    """

    seen: RegressionReport
    weights: tuple[float, ...]
    bits: bool

    def statistic(
        self, domain: Domain, features: Floats, rewards: Floats, arms: Ints | None, coins: DeviceRandomness
    ) -> Statistic:
        check_all_finite("features", features)
        check_all_finite("rewards", rewards)
        x, outside = self.seen.inside(features)
        inside, moved = clip_rewards(rewards)
        reported = round_to_ends(inside[..., None], coins) if self.bits else inside[..., None]
        count = np.sum(outside | moved, axis=-1)
        return domain.sealed((reported - 0.5) * (x * np.array(self.weights)), clipped=np.asarray(count))


@stored_as("Public")
@dataclass(frozen=True, kw_only=True)
class PublicStatistic(ReportStatistic):
    """x/2 and x x^T of public features alone, `scale` times x: it has no reward."""

    seen: RegressionReport
    scale: float

    def statistic(
        self, domain: Domain, features: Floats, rewards: Floats, arms: Ints | None, coins: DeviceRandomness
    ) -> Statistic:
        if not isinstance(domain, LinearReport):
            raise InvalidArgument("domain", domain, "LinearReport(...)")
        check_all_finite("features", features)
        x, _ = self.seen.inside(features)
        packed = domain.pack(x * self.scale, np.full(x.shape[:-1], 0.5))
        return domain.sealed(packed, clipped=np.zeros(x.shape[:-2], dtype=np.int64))


@stored_as("Rewarded")
@dataclass(frozen=True, kw_only=True)
class RewardStatistic(ReportStatistic):
    """The reward alone, clipped to [low, high] and rounded to an end of it by a coin: a bit."""

    low: float
    high: float

    def statistic(
        self, domain: Domain, features: Floats, rewards: Floats, arms: Ints | None, coins: DeviceRandomness
    ) -> Statistic:
        check_all_finite("rewards", rewards)
        inside = np.clip(rewards, self.low, self.high)
        shares = (inside[..., None] - self.low) / (self.high - self.low)
        clipped = np.sum(np.abs(inside - rewards) > ROUNDING_TOLERANCE, axis=-1)
        return domain.sealed(round_to_ends(shares, coins), clipped=np.asarray(clipped))


def round_to_ends(shares: Floats, coins: DeviceRandomness) -> Floats:
    """Round numbers of [0, 1] to an end by a coin, without bias; nothing is drawn if all are at an end."""
    between = np.rint(shares) != shares
    if not between.any():
        return shares
    return np.where(between, coins.among(between, _ROUNDED) < shares, shares)
