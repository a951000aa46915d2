"""Aggregate law of the bit sum: the fair bits of all users in one draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Statistic
from bandanna.mechanisms.sources import NoiseSource


def totals(statistic: Statistic, noise: BinomialNoise, source: NoiseSource) -> NDArray[np.int64]:
    """c sum_i x_i + Bin(B b, 1/2): (..., users, 1) -> (..., 1)."""
    ones = np.rint(statistic.total()).astype(np.int64)
    coins = source.binomial(trials=noise.users * noise.trials, probability=noise.probability, size=ones.shape)
    return np.asarray(int(noise.scale) * ones + coins)
