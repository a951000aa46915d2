"""Randomizer of the bit sum: runs on the user's device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.mechanisms.sources import NoiseSource

Integers = NDArray[np.int64]


def randomize(bits: NDArray[np.float64], noise: BinomialNoise, source: NoiseSource) -> Integers:
    """Ones among c copies of the bit and b fair bits: (..., users, 1)."""
    coins = source.binomial(trials=noise.trials, probability=noise.probability, size=bits.shape)
    return np.asarray(int(noise.scale) * bits.astype(np.int64) + coins)


def to_bits(ones: Integers, noise: BinomialNoise, source: NoiseSource) -> NDArray[np.bool_]:
    """The same message as c + b single bits in random order: (..., users, 1) -> (..., users, c + b)."""
    order = source.permutation(int(noise.scale) + noise.trials, size=ones.shape[:-1])
    return np.asarray(order < ones)
