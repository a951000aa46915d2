"""Shuffler of the bit sum: bits in random order say as much as their number, and that is all that is forwarded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def totals(ones: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ones of the whole batch: (..., users, 1) -> (..., 1). Permuting the users' counts would not be private."""
    return np.asarray(np.sum(ones, axis=-2))
