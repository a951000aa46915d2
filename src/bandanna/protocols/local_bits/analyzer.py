"""Analyzer of the local sum of bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.mechanisms.randomized_response import RandomizedResponse


def analyze(ones: NDArray[np.float64], users: int, mechanism: RandomizedResponse) -> Estimate:
    """(ones - (1 - q) n) / (2q - 1): unbiased, (..., 1)."""
    return Estimate(total=mechanism.decode(ones, users), count=users, variance=users * mechanism.variance)
