"""Rows in the clear: the users' statistics themselves, for policies without privacy that estimate from raw data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.clear import Clear
from bandanna.protocols.clear.analyzer import Floats


@dataclass(frozen=True, kw_only=True)
class ClearRows(Clear):
    """All rows in place of their sum: the estimate's `total` is (..., users, dim).

    Privacy: none.
    """

    name: ClassVar[str] = "clear_rows"

    @property
    def sums_only(self) -> bool:
        """Every row."""
        return False

    def analyze(self, view: Floats, source: NoiseSource) -> Estimate:
        """The rows."""
        return Estimate(total=view, count=view.shape[-2], variance=0.0)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The rows."""
        return self.analyze(statistic.rows(), source)
