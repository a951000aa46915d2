"""Randomizer of the local sum of bits: runs on the user's device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource


def randomize(bits: NDArray[np.float64], mechanism: RandomizedResponse, source: NoiseSource) -> NDArray[np.float64]:
    """One answer for every bit: (..., users, 1)."""
    return mechanism.release(bits, source)
