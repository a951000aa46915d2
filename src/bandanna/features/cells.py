"""Where a person stands on public grids: in one cell of each column's, or in none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain, Statistic
from bandanna.storage.declared import stored_as


@stored_as("Cells")
@dataclass(frozen=True, kw_only=True)
class Cells(Domain):
    """Counts of `columns` grids of `cells` each: one person is a single 1 on every grid.

    Sensitivity: two people differ in at most two cells of each grid, by 1: sqrt(2 columns), in l1 2 columns.
    """

    dim: int = 0  # derived
    columns: int
    cells: int

    def __post_init__(self) -> None:
        require.store(self, require.whole, "columns", "cells", most=10**6)
        object.__setattr__(self, "dim", self.columns * self.cells)
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        """sqrt(2 columns)."""
        return math.sqrt(2 * self.columns)

    @property
    def l1_sensitivity(self) -> float:
        """2 columns."""
        return 2.0 * self.columns

    @property
    def lower(self) -> Floats:
        """0."""
        return np.zeros(self.dim)

    @property
    def upper(self) -> Floats:
        """1."""
        return np.ones(self.dim)

    @property
    def ball(self) -> tuple[Floats, float]:
        """Around 0, of radius sqrt(columns)."""
        return np.zeros(self.dim), math.sqrt(self.columns)

    def project(self, values: Floats) -> Floats:
        """On each grid the cell with the largest number; none where all are below a half."""
        grids = values.reshape(*values.shape[:-1], self.columns, self.cells)
        best = np.argmax(grids, axis=-1)[..., None]
        inside = np.zeros(grids.shape)
        np.put_along_axis(inside, best, np.take_along_axis(grids, best, axis=-1) >= 0.5, axis=-1)
        return inside.reshape(values.shape)

    def statistic(self, places: Ints) -> Statistic:
        """Of people in these cells, (users, columns)."""
        values = np.zeros((len(places), self.columns, self.cells))
        np.put_along_axis(values, places[..., None], 1.0, axis=-1)
        return self.sealed(values.reshape(len(places), self.dim), clipped=np.zeros((), dtype=np.int64))
