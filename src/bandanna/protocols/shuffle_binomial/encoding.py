"""Sums of encoded statistics in law, and their decoding; a device's own encoding is `bandanna.device.lattice`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain
from bandanna.device import lattice
from bandanna.mechanisms.sources import NoiseSource

_AT_ONCE = 1 << 17  # numbers of several lattices


def encode_sums(
    values: Floats, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """Encoded sums over users for several lattices, in law: floor(x + U) is floor(x) and a coin of its rest."""
    above = np.maximum(values - domain.lower, 0.0)[..., None, :, :]  # (..., 1, users, dim)
    users, sums = above.shape[-2], list[Ints]()
    step = max(1, _AT_ONCE // max(1, above.size))
    for begin in range(0, len(noises), step):  # a seed's numbers are the same, of one lattice after the other or of all
        scales = np.array([noise.scale for noise in noises[begin : begin + step]])[:, None]  # (k, 1)
        rounded = scales[..., None] * above
        rounded += source.uniform(rounded.shape)
        total = np.ones(users) @ np.floor(rounded, out=rounded)  # whole numbers below 2^53: exact
        total = np.minimum(total, users * lattice.largest(scales, domain)).astype(np.int64)  # (..., k, dim)
        sums += [total[..., place, :] for place in range(len(scales))]
    return tuple(sums)


def encode_groups(
    values: Floats, counts: Ints, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """The same over groups of users with equal statistics, in law: the coins of a group are one binomial."""
    scales = np.array([noise.scale for noise in noises])[:, None, None]  # (k, 1, 1)
    scaled = scales * np.maximum(values - domain.lower, 0.0)[..., None, :, :]  # (..., k, groups, dim)
    whole, many = np.floor(scaled), counts[..., None, :, None]
    coins = source.coins(np.broadcast_to(many, scaled.shape), scaled - whole)
    sums = np.sum(whole.astype(np.int64) * many + coins, axis=-2)  # (..., k, dim)
    return tuple(sums[..., place, :] for place in range(len(noises)))


def encode_few(
    values: Floats, counts: Ints, noises: Sequence[BinomialNoise], domain: Domain, source: NoiseSource
) -> tuple[Ints, ...]:
    """The same over groups of few users: their coins one by one."""
    scales = np.array([noise.scale for noise in noises])[:, None]  # (k, 1)
    scaled = scales * np.maximum(values - domain.lower, 0.0)[..., None, :]  # (..., groups, k, dim)
    whole = np.floor(scaled)
    scaled -= whole
    heads = source.heads(counts, scaled.reshape(*counts.shape, -1))
    whole *= counts[..., None, None]
    sums = np.sum(whole, axis=-3).astype(np.int64)  # whole numbers below 2^53: exact
    sums += heads.reshape(sums.shape)
    return tuple(sums[..., place, :] for place in range(len(noises)))


def decode(totals: Ints, noise: BinomialNoise, domain: Domain) -> Floats:
    """(total - B b p) / s + B lower: an unbiased estimate of the sum."""
    centred = totals - noise.users * noise.trials * noise.probability
    return np.asarray(centred / noise.scale + noise.users * domain.lower)


def largest_counts(noise: BinomialNoise, domain: Domain, coins: str = "device") -> Ints:
    """Largest count of each coordinate, a device's coins included: also the number of bits in the unary form."""
    own = 0 if coins == "mixer" else noise.trials
    return np.asarray(lattice.largest(noise.scale, domain).astype(np.int64) + own)
