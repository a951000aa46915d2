"""Aggregate law of the local sum of bits: true ones among the answers to 1, false ones among those to 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.domain import Statistic
from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource


def ones(statistic: Statistic, mechanism: RandomizedResponse, source: NoiseSource) -> NDArray[np.int64]:
    """Bin(k, q) + Bin(n - k, 1 - q) for k ones among n bits: (..., users, 1) -> (..., 1)."""
    k = np.rint(statistic.total()).astype(np.int64)
    true, false = np.full(k.shape, 1 - mechanism.lie), np.full(k.shape, mechanism.lie)
    return np.asarray(source.coins(k, true) + source.coins(statistic.users - k, false))
