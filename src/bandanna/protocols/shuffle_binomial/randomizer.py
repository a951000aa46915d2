"""Randomizer of the vector sum: runs on the user's device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.domain import Domain
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.shuffle_binomial.encoding import Integers, encode, largest_counts


def randomize(values: NDArray[np.float64], noise: BinomialNoise, domain: Domain, source: NoiseSource) -> Integers:
    """Integer counts, encoded statistic plus Bin(b, p) per coordinate: (..., users, dim)."""
    coins = source.binomial(trials=noise.trials, probability=noise.probability, size=values.shape)
    return np.asarray(encode(values, noise, domain, source) + coins)


def to_bits(counts: Integers, noise: BinomialNoise, domain: Domain, source: NoiseSource) -> list[NDArray[np.bool_]]:
    """The same message in unary: per coordinate, (..., users, length) bits of which `count` are 1, in random order."""
    bits = []
    for k, length in enumerate(largest_counts(noise, domain)):
        order = source.permutation(int(length), size=counts.shape[:-1])  # (..., users, length)
        bits.append(order < counts[..., k, None])
    return bits
