"""Sums and rows without noise."""

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

# Analyzer of the clear protocol.


@dataclass(frozen=True, kw_only=True)
class PlainSumAnalyzer(Analyzer):
    """Sum over users, as it is."""

    domain: Domain

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        if view.numbers.dtype != np.int64:
            return state, Estimate(total=np.sum(view.numbers, axis=-2), count=view.users, variance=0.0)
        high, rest = sum_plain_statistics(view.numbers, self.domain)
        return state, Estimate(total=high + rest + view.users * self.domain.origin, count=view.users, variance=0.0)


# The clear protocol: plain sums, no privacy; the baseline.


@stored_as("Clear")
@dataclass(frozen=True, kw_only=True)
class Clear(TrustedSumProtocol):
    """Plain sums of plain statistics.

    Privacy: none.
    """

    name: ClassVar[str] = "clear"
    trust: ClassVar[str] = "none"

    @classmethod
    def calibrate(cls, *, domain: Domain, budget: Budget) -> Clear:
        """Whatever the budget: there is no noise."""
        return cls(domain=domain, delta=stated_delta(budget))

    @property
    def event(self) -> Event:
        """Raw data is released."""
        return ClearEvent()

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server sees everything."""
        return (("the server", "every user's statistic"),)

    @cached_property
    def analyzer(self) -> PlainSumAnalyzer:
        """The sum."""
        return PlainSumAnalyzer(domain=self.domain)

    def draws(self, users: int) -> ReleaseCost:
        """Nothing is drawn."""
        return ReleaseCost(numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """No noise."""
        return 0.0

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum."""
        return Estimate(total=total, count=users, variance=0.0)


# Sums of what is public: nobody's secret is in them, and they cost nothing.


@stored_as("PublicSum")
@dataclass(frozen=True, kw_only=True)
class PublicSum(Clear):
    """Plain sums of statistics that whoever asks has declared public, such as features of arms that everybody sees.

    Privacy: nothing is released that was not known; the event is nothing. That the statistics are public is a promise
    of the policy, not a finding: it must make them of public numbers alone, refuse to run where its users have not
    said so, and name them among what everybody sees.
    """

    name: ClassVar[str] = "public_sum"

    @property
    def event(self) -> NothingEvent:
        """Nothing about anybody."""
        return NothingEvent()

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """It is public."""
        return (("everybody", "the sum, and every statistic in it"),)


# Rows in the clear: the users' statistics themselves, for policies without privacy that estimate from raw data.


@dataclass(frozen=True, kw_only=True)
class PlainRowsAnalyzer(PlainSumAnalyzer):
    """All rows, as they are."""

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim)."""
        rows = np.asarray(view.numbers, dtype=float)
        if view.numbers.dtype == np.int64:  # steps, from a secure source
            rows = rows * exact_sums.finest_step(self.domain.reach) + self.domain.origin
        return state, Estimate(total=rows, count=view.users, variance=0.0)


@stored_as("ClearRows")
@dataclass(frozen=True, kw_only=True)
class ClearRows(Clear):
    """All rows in place of their sum: the estimate's `total` is (..., users, dim).

    Privacy: none.
    """

    name: ClassVar[str] = "clear_rows"

    @cached_property
    def analyzer(self) -> PlainRowsAnalyzer:
        """Every row."""
        return PlainRowsAnalyzer(domain=self.domain)

    @property
    def sums_only(self) -> bool:
        """Every row."""
        return False

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The rows."""
        return Estimate(total=statistic.rows(), count=statistic.users, variance=0.0)
