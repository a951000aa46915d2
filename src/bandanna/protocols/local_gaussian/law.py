"""Aggregate law of the local Gaussian protocol."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource


def sample(total: NDArray[np.float64], users: int, mechanism: Gaussian, source: NoiseSource) -> Estimate:
    """sum_i x_i + N(0, users std^2 I): a sum of independent Gaussians is one Gaussian; (..., dim)."""
    noisy = source.gaussian(total, std=math.sqrt(users * mechanism.variance), grid=mechanism.step)
    return Estimate(total=noisy, count=users, variance=users * mechanism.variance)
