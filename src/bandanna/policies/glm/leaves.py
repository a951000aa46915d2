"""What a round of GLM-JDP adds to the stream: one of two matrices, the other being zero.

A leaf is (x x^T, 0) if the round explored, else (0, w x x^T) with 0 <= w <= 1: a block-diagonal positive semi-definite
matrix of Frobenius norm at most 1. Two of them have <A, B> >= 0, so |A - B| <= sqrt 2, whichever blocks they are in.
Stacked, each block by its upper triangle, with off-diagonal entries times sqrt 2: an isometry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball, Statistic, all_finite, clip_norm
from bandanna.core.linalg import upper
from bandanna.storage.declared import stored_as


@stored_as("Leaves")
@dataclass(frozen=True, kw_only=True)
class Leaves(Ball):
    """Stacks of two blocks of `size` rows."""

    dim: int = 0  # derived from `size`
    size: int

    def __post_init__(self) -> None:
        size = require.whole("size", self.size)
        object.__setattr__(self, "dim", size * (size + 1))
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        """sqrt 2 times the bound."""
        return math.sqrt(2) * self.bound

    @cached_property
    def _scale(self) -> Floats:
        rows, columns = upper(self.size)
        return np.where(rows == columns, 1.0, math.sqrt(2))

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], Floats]:
        """Where in one part of the stack each entry of the matrix stands, and what undoes its scaling: (d, d) each."""
        rows, columns = upper(self.size)
        place = np.zeros((self.size, self.size), dtype=np.intp)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return place, np.where(np.eye(self.size, dtype=bool), 1.0, math.sqrt(0.5))

    def project(self, values: Floats) -> Floats:
        """Negative eigenvalues of both blocks are cut off, then the norm."""
        parts = []
        for block in self.unpack(values):
            eigenvalues, vectors = np.linalg.eigh(block)
            positive = (vectors * np.maximum(eigenvalues, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            parts.append(positive[..., *upper(self.size)] * self._scale)
        return clip_norm(np.concatenate(parts, axis=-1), self.bound)

    def unpack(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Both blocks of a stack: (..., dim) -> (..., d, d) each."""
        place, unscaled = self._places
        half = self.dim // 2
        return stacked[..., :half][..., place] * unscaled, stacked[..., half:][..., place] * unscaled

    def of(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Floats:
        """Leaves of |x| <= 1 (..., d) and w (...), in the first block if explored, else in the second: (..., dim)."""
        rows, columns = upper(self.size)
        outer = features[..., rows] * features[..., columns] * self._scale
        relative, flags = np.clip(weights, 0.0, 1.0)[..., None], explored[..., None]
        return np.concatenate([np.where(flags, outer, 0.0), np.where(flags, 0.0, relative * outer)], axis=-1)

    def statistic(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Statistic:
        """Leaves of users (..., users, d), clipped before they are formed, and counted."""
        all_finite("features", features)
        all_finite("weights", weights)
        x = clip_norm(features, 1.0)
        moved = np.any(np.abs(x - features) > 1e-9, axis=-1)
        return self.sealed(self.of(x, weights, explored), clipped=np.sum(moved, axis=-1, dtype=np.int64))
