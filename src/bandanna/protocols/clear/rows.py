"""Rows in the clear: the users' statistics themselves, for policies without privacy that estimate from raw data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna.core import sums
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.clear import Clear
from bandanna.protocols.clear.analyzer import PlainSum
from bandanna.protocols.roles import Held
from bandanna.storage.declared import stored_as


@dataclass(frozen=True, kw_only=True)
class PlainRows(PlainSum):
    """All rows, as they are."""

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim)."""
        rows = np.asarray(view.numbers, dtype=float)
        if view.numbers.dtype == np.int64:  # steps, from a secure source
            rows = rows * sums.finest(self.domain.reach) + self.domain.origin
        return state, Estimate(total=rows, count=view.users, variance=0.0)


@stored_as("ClearRows")
@dataclass(frozen=True, kw_only=True)
class ClearRows(Clear):
    """All rows in place of their sum: the estimate's `total` is (..., users, dim).

    Privacy: none.
    """

    name: ClassVar[str] = "clear_rows"

    @cached_property
    def analyzer(self) -> PlainRows:
        """Every row."""
        return PlainRows(domain=self.domain)

    @property
    def sums_only(self) -> bool:
        """Every row."""
        return False

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The rows."""
        return Estimate(total=statistic.rows(), count=statistic.users, variance=0.0)
