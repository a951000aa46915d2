"""Randomizer of the local Gaussian protocol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import NoiseSource


def randomize(
    statistics: NDArray[np.float64], origin: NDArray[np.float64], mechanism: Gaussian, source: NoiseSource
) -> NDArray[np.float64]:
    """x_i + N(0, std^2 I), fresh for every user, noised relative to the domain's public origin: (..., users, dim)."""
    return mechanism.release(statistics - origin, source) + origin
