"""Domains of what counters sum beside plain numbers and vectors: single bits, and symmetric matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball, Box
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.storage.declared import stored_as


@stored_as("Bits")
@dataclass(frozen=True, kw_only=True)
class Bits(Box):
    """Values that are 0 or 1 and nothing between: sensitivity 1, and never rounded on a lattice of whole steps."""

    dim: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.dim, self.low, self.high) != (1, 0.0, 1.0):
            raise InvalidArgument("dim, low, high", (self.dim, self.low, self.high), "(1, 0, 1): single bits")

    def project(self, values: Floats) -> Floats:
        """The nearer of 0 and 1."""
        return np.where(values >= 0.5, 1.0, 0.0)


@stored_as("SymmetricMatrix")
@dataclass(frozen=True, kw_only=True)
class SymmetricMatrix(Ball):
    """Symmetric matrices of `size` rows and Frobenius norm at most `bound`, stacked into one vector.

    The stack holds the diagonal, then the entries above it times sqrt 2: an isometry from the Frobenius norm to l2, so
    the sensitivity is 2 bound and the noise of an off-diagonal entry is 1/sqrt 2 of that on the diagonal.
    """

    dim: int = 0  # derived from `size`
    size: int

    def __post_init__(self) -> None:
        size = require.whole("size", self.size, most=10_000)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "dim", size * (size + 1) // 2)
        super().__post_init__()

    @cached_property
    def _above(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries above the diagonal, in the order of the stack."""
        rows, columns = np.triu_indices(self.size, 1)
        return rows, columns

    def pack(self, matrices: Floats) -> Floats:
        """(..., size, size) -> (..., dim); a matrix that is not symmetric is refused."""
        if matrices.shape[-2:] != (self.size, self.size):
            allowed = f"shape (..., {self.size}, {self.size})"
            raise InvalidStatistic("matrices", matrices, allowed)
        if not np.allclose(matrices, np.swapaxes(matrices, -1, -2), rtol=1e-9, atol=1e-9 * self.bound, equal_nan=True):
            raise InvalidStatistic("matrices", Summary("not symmetric"), "symmetric matrices")
        above = math.sqrt(2) * matrices[..., self._above[0], self._above[1]]
        return np.concatenate([np.diagonal(matrices, axis1=-2, axis2=-1), above], axis=-1)

    def unpack(self, stacked: Floats) -> Floats:
        """(..., dim) -> (..., size, size), the scaling undone."""
        matrices = np.zeros((*stacked.shape[:-1], self.size, self.size))
        rows, columns = self._above
        diagonal = np.arange(self.size)
        matrices[..., diagonal, diagonal] = stacked[..., : self.size]
        matrices[..., rows, columns] = matrices[..., columns, rows] = stacked[..., self.size :] / math.sqrt(2)
        return matrices
