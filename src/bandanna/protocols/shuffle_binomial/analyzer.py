"""Analyzer of the vector sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Bools, Ints
from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Analyzer, Held
from bandanna.protocols.shuffle_binomial.encoding import decode


@dataclass(frozen=True, kw_only=True)
class VectorSum(Analyzer):
    """(total - n b p) / s + n lower: unbiased."""

    domain: Domain
    noise: BinomialNoise

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """The totals of a batch, (..., dim)."""
        return state, self.estimate(np.asarray(view.numbers, dtype=np.int64), view.users)

    def estimate(self, totals: Ints, users: int) -> Estimate:
        """Of so many users."""
        noise = self.noise.for_users(users)
        return Estimate(total=decode(totals, noise, self.domain), count=users, variance=noise.std() ** 2)


def count_bits(bits: list[Bools]) -> Ints:
    """Totals of shuffled bits: per coordinate (..., users * length) -> (..., dim)."""
    return np.stack([np.sum(labelled, axis=-1, dtype=np.int64) for labelled in bits], axis=-1)
