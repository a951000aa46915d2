"""The clear protocol: plain sums, no privacy; the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import ClearEvent, Event
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import stated_delta
from bandanna.protocols.clear.analyzer import PlainSum
from bandanna.protocols.trusted import TrustedSum
from bandanna.storage.declared import stored_as


@stored_as("Clear")
@dataclass(frozen=True, kw_only=True)
class Clear(TrustedSum):
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
    def analyzer(self) -> PlainSum:
        """The sum."""
        return PlainSum(domain=self.domain)

    def draws(self, users: int) -> Draws:
        """Nothing is drawn."""
        return Draws(numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """No noise."""
        return 0.0

    def of_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum."""
        return Estimate(total=total, count=users, variance=0.0)
