"""Analyzer of the central Laplace protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.core.sums import exact_sum
from bandanna.mechanisms.laplace import DiscreteLaplace
from bandanna.mechanisms.sources import NoiseSource


def analyze(
    statistics: NDArray[np.float64], bound: float, step: float, mechanism: DiscreteLaplace, source: NoiseSource
) -> Estimate:
    """h (round(sum_i x_i / h) + Z): (..., users, dim) -> (..., dim)."""
    return noisy(exact_sum(statistics, bound), statistics.shape[-2], step, mechanism, source)


def noisy(
    total: NDArray[np.float64], users: int, step: float, mechanism: DiscreteLaplace, source: NoiseSource
) -> Estimate:
    """An exact total on the lattice plus its noise, (..., dim)."""
    counts = np.rint(total / step).astype(np.int64)
    released = np.asarray(step * mechanism.release(counts, source), dtype=float)
    return Estimate(total=released, count=users, variance=step**2 * mechanism.variance)
