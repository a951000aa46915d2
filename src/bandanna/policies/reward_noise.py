"""Noise on statistics of rewards: one mechanism for every release of a policy, and what it promises.

A policy that forgets releases every reward in exactly one statistic: one episode's sum, one phase's estimate. Which
episode that is follows from earlier releases only, so a changed reward changes one release, and the promise is that of
a single one, against an adversary who sees all of them and chooses later data accordingly
(Azize and Basu 2024 [004], appendix D). The noise is drawn once, when the statistic is released, and kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.accounting.calibration.gaussian import gaussian_std, laplace_scale
from bandanna.accounting.events import ClearEvent, Event
from bandanna.accounting.guarantee import Guarantee, guarantee_of
from bandanna.core import require
from bandanna.core.domain import Box, numbers
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.laplace import Laplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import stated_delta

Floats = NDArray[np.float64]

PROTECTS = "a user's reward"
_LEAST, _MOST = 1e-30, 1e100  # beyond, prices leave the floats
SIGHT = (("the trusted server", "every user's reward"), ("everybody else", "actions, chosen from noisy statistics"))


@dataclass(frozen=True, kw_only=True)
class RewardNoise:
    """Least noise for statistics whose neighbours differ by at most `sensitivity`, in l2 (l1 for a pure budget).

    Gaussian for zCDP, (epsilon, delta) and Renyi budgets, Laplace for a pure one; none without a budget or with an
    infinite one. rho-zCDP: std = sensitivity / sqrt(2 rho), plus the grid's share.
    """

    budget: Budget | None
    sensitivity: float
    dim: int = 1

    def __post_init__(self) -> None:
        if self.budget is not None and not isinstance(self.budget, PureDP | ApproxDP | ZCDP | RenyiDP):
            raise InvalidBudget("budget", self.budget, "ZCDP, ApproxDP, RenyiDP, PureDP or None")
        require.store(self, require.positive, "sensitivity")
        require.store(self, require.whole, "dim")
        if self.budget is not None and self.noisy and not _LEAST <= _size(self.budget) <= _MOST:
            raise InvalidBudget("budget", self.budget, f"rho or epsilon between {_LEAST:g} and {_MOST:g}, or infinite")

    @property
    def noisy(self) -> bool:
        """False without a budget, and for an infinite one."""
        return self.budget is not None and not math.isinf(_size(self.budget))

    @cached_property
    def mechanism(self) -> Gaussian | Laplace | None:
        """Sampler and price of every release."""
        if self.budget is None or not self.noisy:
            return None
        if isinstance(self.budget, PureDP) or (isinstance(self.budget, ApproxDP) and self.budget.delta == 0.0):
            scale = laplace_scale(sensitivity=self.sensitivity, dim=self.dim, budget=self.budget)
            return Laplace(scale=scale, sensitivity=self.sensitivity, dim=self.dim)
        std = gaussian_std(sensitivity=self.sensitivity, dim=self.dim, budget=self.budget)
        return Gaussian(std=std, sensitivity=self.sensitivity, dim=self.dim)

    @property
    def std(self) -> float:
        """Standard deviation per coordinate."""
        return 0.0 if self.mechanism is None else math.sqrt(self.mechanism.variance)

    @property
    def event(self) -> Event:
        """What one release is."""
        return ClearEvent() if self.mechanism is None else self.mechanism.event

    def release(self, values: Floats, source: NoiseSource, *, rest: Floats | None = None) -> Floats:
        """Statistics with fresh noise: (*R, dim) -> (*R, dim). `rest`: what exact sums have beyond their floats."""
        if self.mechanism is None:
            return values
        if rest is None or isinstance(self.mechanism, Laplace):
            return np.asarray(self.mechanism.release(values, source))
        return self.mechanism.release(values, source, rest=rest)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward."""
        if self.budget is None or self.mechanism is None:
            observers = (("everybody", "actions, chosen from exact statistics"),)
            return Guarantee(trust="none", epsilon=math.inf, delta=0.0, protects=PROTECTS, observers=observers)
        delta = 0.0 if isinstance(self.mechanism, Laplace) else stated_delta(self.budget)
        return guarantee_of(self.event, delta=delta, trust="central", protects=PROTECTS, observers=SIGHT)


def reward_box(reward_range: tuple[float, float]) -> Box:
    """The declared range of the rewards: they are clipped into it before any statistic is formed."""
    allowed = "two finite numbers, low < high"
    ends = numbers("reward_range", reward_range, allowed)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise InvalidArgument("reward_range", reward_range, allowed)
    low, high = (require.finite("reward_range", end, allowed) for end in ends)
    return Box(dim=1, low=low, high=high)


def sum_sensitivity(domain: Box, users: int) -> float:
    """How far one of at most `users` rewards moves their sum as a float: the width, and the rounding of both sums.

    For sums that are rounded once (`math.fsum`; sums of whole numbers have no rounding). A range that is narrow and far
    from 0 needs more noise: subtract `low` first.
    """
    largest = max(abs(domain.low), abs(domain.high), domain.sensitivity)
    return domain.sensitivity + 2.0**-51 * users * largest


def _size(budget: Budget) -> float:
    return budget.rho if isinstance(budget, ZCDP) else float(getattr(budget, "epsilon", math.nan))


def checked_sums(sums: Floats, users: NDArray[np.int64] | int, domain: Box) -> Floats:
    """Sums of `users` rewards that were clipped into the range; any other number is refused.

    Rounding errors of the summation are allowed for, and then cut off: no sum leaves [users low, users high].
    """
    values = np.asarray(sums, dtype=float)
    slack = 1e-9 * (np.asarray(users) * max(abs(domain.low), abs(domain.high), domain.sensitivity) + 1)
    wrong = ~((values >= users * domain.low - slack) & (values <= users * domain.high + slack))
    if np.any(wrong):
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        allowed = f"a sum of rewards in [{domain.low:g}, {domain.high:g}]: clip them first, `domain.project`"
        raise InvalidStatistic("sums" + "".join(f"[{i}]" for i in place), float(values[place]), allowed)
    return np.asarray(np.clip(values, users * domain.low, users * domain.high))
