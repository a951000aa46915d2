"""Analyzer of the central Laplace protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import exact_sum, steps
from bandanna.mechanisms.laplace import DiscreteLaplace
from bandanna.mechanisms.sources import NoiseSource


def analyze(
    statistics: NDArray[np.float64], domain: Domain, step: float, mechanism: DiscreteLaplace, source: NoiseSource
) -> Estimate:
    """h (round(sum_i x_i / h) + Z): (..., users, dim) -> (..., dim), relative to the domain's public origin."""
    counts = steps(*exact_sum(statistics - domain.origin, domain.reach), step)
    return noisy(counts, statistics.shape[-2], domain, step, mechanism, source)


def noisy(
    counts: NDArray[np.int64], users: int, domain: Domain, step: float, mechanism: DiscreteLaplace, source: NoiseSource
) -> Estimate:
    """A total relative to the origin, in steps of the lattice, plus its noise, (..., dim)."""
    released = np.asarray(step * mechanism.release(counts, source), dtype=float)
    return Estimate(total=released + users * domain.origin, count=users, variance=step**2 * mechanism.variance)
