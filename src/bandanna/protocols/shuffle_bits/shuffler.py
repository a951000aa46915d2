"""Shuffler of the bit sum: bits in random order say as much as their number, and that is all that is forwarded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Ints
from bandanna.protocols.roles import Adding


@dataclass(frozen=True, kw_only=True)
class BitMixer(Adding):
    """Adds the users' ones."""

    noise: BinomialNoise

    @property
    def largest(self) -> Ints:
        """c + b."""
        return np.array([int(self.noise.scale) + self.noise.trials], dtype=np.int64)
