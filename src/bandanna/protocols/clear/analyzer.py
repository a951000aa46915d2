"""Analyzer of the clear protocol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate

Floats = NDArray[np.float64]


def analyze(statistics: Floats) -> Estimate:
    """Sum over users: (..., users, dim) -> (..., dim)."""
    return Estimate(total=np.sum(statistics, axis=-2), count=statistics.shape[-2], variance=0.0)
