"""Shufflers of the tree, one per level: each adds up counts, forwards the total of a full batch and starts afresh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def collect(held: Integers, counts: Integers) -> Integers:
    """What a shuffler holds after some users' messages: (..., dim) and (..., users, dim) -> (..., dim)."""
    return np.asarray(held + np.sum(counts, axis=-2))


def forward(held: Integers) -> tuple[Integers, Integers]:
    """A full batch: its totals for the analyzer, and the empty shuffler. A batch that is not full has no way out."""
    return held, np.zeros_like(held)
