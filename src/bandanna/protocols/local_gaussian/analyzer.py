"""Analyzer of the local Gaussian protocol: reports are summed, in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import sum_steps
from bandanna.device import Messages
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held


@dataclass(frozen=True, kw_only=True)
class ReportSum(Analyzer):
    """sum_i (x_i + N(0, std^2 I)); steps of the grid are added as integers."""

    domain: Domain
    mechanism: Gaussian

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim); the variance is users times that of a report."""
        variance = view.users * self.mechanism.variance
        return state, Estimate(total=self._total(view.numbers), count=view.users, variance=variance)

    def _total(self, reports: Messages) -> Floats:
        if reports.dtype != np.int64:
            return np.asarray(np.sum(reports, axis=-2))
        high, rest = sum_steps(reports.astype(np.int64))
        steps = high * self.mechanism.step + rest * self.mechanism.step
        return np.asarray(steps + reports.shape[-2] * self.domain.origin)
