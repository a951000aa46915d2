"""Analyzer of the central Gaussian protocol: the server is trusted with the statistics and adds the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.domain import Domain
from bandanna.core.estimate import Estimate
from bandanna.core.sums import exact_sum
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource


def analyze(statistics: NDArray[np.float64], domain: Domain, mechanism: Gaussian, source: NoiseSource) -> Estimate:
    """sum_i x_i + N(0, std^2 I): (..., users, dim) -> (..., dim), noised relative to the domain's public origin."""
    users = statistics.shape[-2]
    total, rest = exact_sum(statistics - domain.origin, domain.reach)
    released = mechanism.release(total, source, rest=rest)
    return Estimate(total=released + users * domain.origin, count=users, variance=mechanism.variance)


def noisy(total: NDArray[np.float64], users: int, mechanism: Gaussian, source: NoiseSource) -> Estimate:
    """A total plus its noise, (..., dim)."""
    return Estimate(total=mechanism.release(total, source), count=users, variance=mechanism.variance)
