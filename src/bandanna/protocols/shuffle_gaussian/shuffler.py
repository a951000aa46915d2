"""Shuffler of the shuffled Gaussian protocol: it permutes, and knows nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.mechanisms.sources import NoiseSource


def shuffle(reports: NDArray[np.float64], source: NoiseSource) -> NDArray[np.float64]:
    """A uniformly random order of the users' reports, (..., users, dim), independent in every replicate."""
    order = source.permutation(reports.shape[-2], size=reports.shape[:-2])  # (..., users)
    return np.take_along_axis(reports, order[..., None], axis=-2)
