"""Analyzer of the local Gaussian protocol: reports are summed, in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.mechanisms.gaussian import Gaussian


def analyze(reports: NDArray[np.float64], mechanism: Gaussian) -> Estimate:
    """(..., users, dim) -> (..., dim); the variance is users times that of a report."""
    users = reports.shape[-2]
    return Estimate(total=np.sum(reports, axis=-2), count=users, variance=users * mechanism.variance)
