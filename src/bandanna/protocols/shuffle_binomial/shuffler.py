"""Shuffler of the vector sum: it forwards totals, or bits in random order, and nothing about single users."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.mechanisms.sources import NoiseSource


def totals(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of the users' counts: (..., users, dim) -> (..., dim). Permuting counts instead would not be private."""
    return np.asarray(np.sum(counts, axis=-2))


def shuffle_bits(bits: list[NDArray[np.bool_]], source: NoiseSource) -> list[NDArray[np.bool_]]:
    """All bits of a batch with one label, (..., users, length) -> (..., users * length), in random order."""
    mixed = []
    for labelled in bits:
        flat = labelled.reshape(*labelled.shape[:-2], -1)
        order = source.permutation(flat.shape[-1], size=flat.shape[:-1])
        mixed.append(np.take_along_axis(flat, order, axis=-1))
    return mixed
