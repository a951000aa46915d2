"""Fixed-point encoding: real statistics on a lattice of non-negative integers, `scale` steps to the unit."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain
from bandanna.device.noise import NoiseSource


def encode(values: Floats, scale: float, domain: Domain, source: NoiseSource) -> Ints:
    """floor(s (x - lower)) plus a coin of the fractional part: unbiased, in {0, ..., ceil(s (upper - lower))}."""
    scaled = scale * np.maximum(values - domain.lower, 0.0)  # (..., users, dim)
    whole = np.floor(scaled)
    rounded = whole + (source.uniform(values.shape) < scaled - whole)
    return np.asarray(np.clip(rounded, 0, largest(scale, domain)), dtype=np.int64)


def largest(scale: float | Floats, domain: Domain) -> Floats:
    """Largest encoded value of each coordinate, before noise; of several scales (k, 1), (k, dim)."""
    return np.asarray(np.ceil(scale * (domain.upper - domain.lower) * (1 - 1e-12)))
