"""Protocols without privacy: plain sums (`Clear`), public sums (`PublicSum`), and rows (`ClearRows`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource, ReleaseCost
from bandanna.numeric import exact_sums
from bandanna.privacy.budgets import Budget
from bandanna.privacy.events import ClearEvent, Event, NothingEvent
from bandanna.protocols.base import TrustedSumProtocol, stated_delta
from bandanna.protocols.mixers import Analyzer, MixerState, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats


@stored_as("Clear")
@dataclass(frozen=True, kw_only=True)
class Clear(TrustedSumProtocol):
    """Exact sums, without noise: the baseline.

    Privacy: none.

    Parameters
    ----------
    domain
        Set to which statistics are clipped, although no noise depends on it.
    participations, delta
        As for `Protocol`; without noise they change nothing.
    """

    name: ClassVar[str] = "clear"
    trust: ClassVar[str] = "none"

    @classmethod
    def calibrate(cls, *, domain: Domain, budget: Budget) -> Clear:
        """Return the protocol; the budget is ignored."""
        return cls(domain=domain, delta=stated_delta(budget))

    @property
    def event(self) -> Event:
        return ClearEvent()

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the server", "every user's statistic"),)

    @cached_property
    def analyzer(self) -> PlainSumAnalyzer:
        return PlainSumAnalyzer(domain=self.domain)

    def draws(self, users: int) -> ReleaseCost:
        return ReleaseCost(numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        return 0.0

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        return Estimate(total=total, count=users, variance=0.0)


@stored_as("PublicSum")
@dataclass(frozen=True, kw_only=True)
class PublicSum(Clear):
    """Exact sums of statistics that are public, such as features of arms that everybody sees.

    Privacy: no price. A policy must form the statistics from public numbers alone, refuse to run unless its users
    declare them public, and list them among what everybody sees.
    """

    name: ClassVar[str] = "public_sum"

    @property
    def event(self) -> NothingEvent:
        return NothingEvent()

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("everybody", "the sum, and every statistic in it"),)


@stored_as("ClearRows")
@dataclass(frozen=True, kw_only=True)
class ClearRows(Clear):
    """All rows instead of their sum, for policies that learn from raw data.

    The estimate's `total` has shape (..., users, dim). Privacy: none.
    """

    name: ClassVar[str] = "clear_rows"

    @cached_property
    def analyzer(self) -> PlainRowsAnalyzer:
        return PlainRowsAnalyzer(domain=self.domain)

    @property
    def sums_only(self) -> bool:
        return False

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        return Estimate(total=statistic.rows(), count=statistic.users, variance=0.0)


# Analyzers


@dataclass(frozen=True, kw_only=True)
class PlainSumAnalyzer(Analyzer):
    """Adds the rows exactly."""

    domain: Domain

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        if view.numbers.dtype != np.int64:
            return state, Estimate(total=np.sum(view.numbers, axis=-2), count=view.users, variance=0.0)
        high, rest = sum_plain_statistics(view.numbers, self.domain)
        return state, Estimate(total=high + rest + view.users * self.domain.origin, count=view.users, variance=0.0)


@dataclass(frozen=True, kw_only=True)
class PlainRowsAnalyzer(PlainSumAnalyzer):
    """Returns the rows without a change."""

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        rows = np.asarray(view.numbers, dtype=float)
        if view.numbers.dtype == np.int64:  # steps, from a secure source
            rows = rows * exact_sums.finest_step(self.domain.reach) + self.domain.origin
        return state, Estimate(total=rows, count=view.users, variance=0.0)
