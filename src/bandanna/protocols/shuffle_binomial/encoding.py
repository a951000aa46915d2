"""Fixed-point encoding shared by the roles: real statistics on a lattice of non-negative integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.mechanisms.sources import NoiseSource

Integers = NDArray[np.int64]


def encode(values: NDArray[np.float64], noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Integers:
    """floor(s (x - lower)) plus a coin of the fractional part: unbiased, in {0, ..., ceil(s (upper - lower))}."""
    scaled = noise.scale * np.maximum(values - domain.lower, 0.0)  # (..., users, dim)
    whole = np.floor(scaled)
    rounded = whole + (source.uniform(values.shape) < scaled - whole)
    return np.asarray(np.clip(rounded, 0, largest_values(noise, domain)), dtype=np.int64)


def encode_sums(
    values: NDArray[np.float64], noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Integers, ...]:
    """Sums of `encode` over the users for several lattices, in law: floor(x + U) is floor(x) and a coin of its rest."""
    above = np.maximum(values - domain.lower, 0.0)  # (..., users, dim)
    everybody, sums = np.ones(above.shape[-2]), []
    for noise in noises:
        rounded = noise.scale * above
        rounded += source.uniform(above.shape)
        total = everybody @ np.floor(rounded, out=rounded)  # whole numbers below 2^53: exact
        sums.append(np.minimum(total, above.shape[-2] * largest_values(noise, domain)).astype(np.int64))
    return tuple(sums)


def encode_groups(
    values: NDArray[np.float64], counts: Integers, noise: BinomialNoise, domain: Domain, source: NoiseSource
) -> Integers:
    """Sum of `encode` over groups of users with equal statistics, in law: the coins of a group are one binomial."""
    scaled = noise.scale * np.maximum(values - domain.lower, 0.0)  # (..., groups, dim)
    whole = np.floor(scaled)
    coins = source.coins(np.broadcast_to(counts[..., None], scaled.shape), scaled - whole)
    return np.asarray(np.sum(whole.astype(np.int64) * counts[..., None] + coins, axis=-2))


def decode(totals: Integers, noise: BinomialNoise, domain: Domain) -> NDArray[np.float64]:
    """(total - B b p) / s + B lower: an unbiased estimate of the sum."""
    centred = totals - noise.users * noise.trials * noise.probability
    return np.asarray(centred / noise.scale + noise.users * domain.lower)


def largest_values(noise: BinomialNoise, domain: Domain) -> NDArray[np.float64]:
    """Largest encoded value of each coordinate, before noise."""
    return np.ceil(noise.scale * (domain.upper - domain.lower) * (1 - 1e-12))


def largest_counts(noise: BinomialNoise, domain: Domain) -> Integers:
    """Largest count of each coordinate, noise included: also the number of bits in the unary form."""
    return np.asarray(largest_values(noise, domain).astype(np.int64) + noise.trials)
