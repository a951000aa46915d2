"""Analyzer of the central Gaussian protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource


def analyze(statistics: NDArray[np.float64], mechanism: Gaussian, source: NoiseSource) -> Estimate:
    """sum_i x_i + N(0, std^2 I): (..., users, dim) -> (..., dim)."""
    total = mechanism.release(np.sum(statistics, axis=-2), source)
    return Estimate(total=total, count=statistics.shape[-2], variance=mechanism.variance)
