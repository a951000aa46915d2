"""The clear protocol: plain sums, no privacy; the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import ClearEvent
from bandanna.accounting.guarantee import Guarantee
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import PROTECTS, BatchProtocol, stated_delta
from bandanna.protocols.clear import analyzer


@dataclass(frozen=True, kw_only=True)
class Clear(BatchProtocol):
    """Plain sums of plain statistics.

    Privacy: none.
    """

    name: ClassVar[str] = "clear"

    @classmethod
    def calibrate(cls, *, domain: Domain, budget: Budget) -> Clear:
        """Whatever the budget: there is no noise."""
        return cls(domain=domain, delta=stated_delta(budget))

    @property
    def event(self) -> ClearEvent:
        """Raw data is released."""
        return ClearEvent()

    @property
    def guarantee(self) -> Guarantee:
        """No privacy."""
        return Guarantee(
            trust="none",
            epsilon=float("inf"),
            delta=self.delta,
            protects=PROTECTS,
            observers=(("the server", "every user's statistic"),),
        )

    def std(self, users: int) -> float:
        """No noise."""
        return 0.0

    def analyze(self, view: analyzer.Floats, source: NoiseSource) -> Estimate:
        """The sum."""
        return analyzer.analyze(view)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The sum."""
        return self.of_total(statistic.total(), statistic.users, source)

    @property
    def sums_only(self) -> bool:
        """The sum itself."""
        return True

    def of_total(self, total: analyzer.Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum."""
        return Estimate(total=total, count=users, variance=0.0)
