"""Randomizer of the bit sum: runs on the user's device."""

from __future__ import annotations

import numpy as np

from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.core.arrays import Bools, Ints
from bandanna.core.shapes import Bits
from bandanna.device import Copies, Rounded
from bandanna.mechanisms.sources import NoiseSource


def device(noise: BinomialNoise, coins: str = "device") -> Copies | Rounded:
    """Ones among c copies of the bit and b fair bits, or among the copies alone if the mixer draws the fair ones."""
    if coins == "mixer":
        return Rounded(domain=Bits(), scale=noise.scale)
    return Copies(copies=int(noise.scale), trials=noise.trials)


def to_bits(ones: Ints, noise: BinomialNoise, source: NoiseSource) -> Bools:
    """The same message as c + b single bits in random order: (..., users, 1) -> (..., users, c + b)."""
    order = source.permutation(int(noise.scale) + noise.trials, size=ones.shape[:-1])
    return np.asarray(order < ones)
