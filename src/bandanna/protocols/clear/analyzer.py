"""Analyzer of the clear protocol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held, exact_total


@dataclass(frozen=True, kw_only=True)
class PlainSum(Analyzer):
    """Sum over users, as it is."""

    domain: Domain

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        if view.numbers.dtype != np.int64:
            return state, Estimate(total=np.sum(view.numbers, axis=-2), count=view.users, variance=0.0)
        high, rest = exact_total(view.numbers, self.domain)
        return state, Estimate(total=high + rest + view.users * self.domain.origin, count=view.users, variance=0.0)
