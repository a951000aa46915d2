"""Fixed-point encoding: real statistics on a lattice of non-negative integers, `scale` steps to the unit."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain
from bandanna.device.noise import NoiseSource


def encode(values: Floats, scale: float, domain: Domain, source: NoiseSource) -> Ints:
    """floor(s (x - lower)) plus a coin of the fractional part: unbiased, in {0, ..., ceil(s (upper - lower))}."""
    rest = np.asarray(values - domain.lower)  # (..., users, dim)
    np.maximum(rest, 0.0, out=rest)
    rest *= scale
    whole = np.floor(rest)
    rest -= whole
    whole += source.uniform(values.shape) < rest
    return np.minimum(whole, largest(scale, domain), out=whole).astype(np.int64)


def largest(scale: float | Floats, domain: Domain) -> Floats:
    """Largest encoded value of each coordinate, before noise; of several scales (k, 1), (k, dim)."""
    return np.asarray(np.ceil(scale * (domain.upper - domain.lower) * (1 - 1e-12)))
