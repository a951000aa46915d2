"""Analyzer of the bit sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.core.arrays import Ints
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held


@dataclass(frozen=True, kw_only=True)
class BitSum(Analyzer):
    """(total - n b / 2) / c: unbiased."""

    noise: BinomialNoise

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """The total of a batch, (..., 1)."""
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, totals: Ints, users: int) -> Estimate:
        """Of so many users."""
        noise = self.noise.for_users(users)
        centred = np.asarray(totals - users * noise.trials / 2)
        centred /= noise.scale
        return Estimate(total=centred, count=users, variance=bit_std(noise) ** 2)
