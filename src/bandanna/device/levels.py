"""One message for each of several shufflers, side by side in one record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.device.base import Device, Messages
from bandanna.device.noise import NoiseSource
from bandanna.storage.declared import stored_as


@stored_as("Levels")
@dataclass(frozen=True, kw_only=True)
class Levels(Device):
    """The messages of `levels` devices about one statistic, with fresh rounding and fresh coins for each.

    Every level draws from a stream of its own where a source has named streams: user by user and a batch at a time
    then give the same integers.
    """

    levels: tuple[Device, ...]

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """(..., users, dim) -> (..., users, k dim)."""
        blocks = [level.encode(values, level_source(source, number)) for number, level in enumerate(self.levels)]
        return np.concatenate(blocks, axis=-1)


def level_source(source: NoiseSource, level: int) -> NoiseSource:
    """Where the device of one level (from 0) draws."""
    return source.named(f"level {level + 1}")
