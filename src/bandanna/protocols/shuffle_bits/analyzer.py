"""Analyzer of the bit sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.calibration.bits import bit_std
from bandanna.core.estimate import Estimate


def analyze(totals: NDArray[np.int64], noise: BinomialNoise) -> Estimate:
    """(total - B b / 2) / c: unbiased, (..., 1)."""
    centred = totals - noise.users * noise.trials / 2
    return Estimate(total=np.asarray(centred / noise.scale), count=noise.users, variance=bit_std(noise) ** 2)
