"""The binary tree over the stream, as in the papers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.factorisation.base import Factorisation
from bandanna.core import require
from bandanna.storage.declared import stored_as


@stored_as("BinaryTree")
@dataclass(frozen=True, kw_only=True)
class BinaryTree(Factorisation):
    """Noisy sums of all complete dyadic blocks; a prefix adds the blocks of its binary expansion.

    C has one row for each block ((j-1) 2^l, j 2^l] with j 2^l <= T; L = floor(log2 T) + 1 levels. An element lies in at
    most one block of a level, and the first element in one of every level:

        sensitivity = sqrt(L),      prefix_std(t)^2 = popcount(t).

    References: Dwork, Naor, Pitassi, Rothblum (2010); Chan, Shi, Song (2011).
    """

    name: ClassVar[str] = "tree"

    @property
    def levels(self) -> int:
        """L = floor(log2 T) + 1."""
        return self.horizon.bit_length()

    def sensitivity(self, participations: int = 1) -> float:
        """sqrt(L) for one. M elements of which n_b lie in block b move it by sqrt(sum_b n_b^2), at most as the first M.

        On a level of blocks of w = 2^l elements the sum of squares is largest where blocks are full but for one:
        q w^2 + r^2 with q w + r = M, or what the level's blocks hold in all; the first M reach it on all levels.
        """
        each, square = require.whole("participations", participations), 0
        for level in range(self.levels):
            full, rest = divmod(min(each, self.horizon >> level << level), 1 << level)
            square += (full << 2 * level) + rest * rest
        return math.sqrt(square)

    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        """sqrt(popcount(t)): the blocks of a prefix share no noise."""
        t = self._steps(steps)  # (...)
        total = np.zeros(t.shape)
        for level in range(self.levels):  # one bit of all steps at a time: there may be millions
            total += (t >> level) & 1
        return np.sqrt(total)

    def error(self) -> float:
        """Largest over t <= T: T itself, or T with one of its bits cleared and every lower bit set."""
        cleared = [((self.horizon >> bit) ^ 1) << bit | (1 << bit) - 1 for bit in range(self.levels)]
        worst = [t for t in (self.horizon, *cleared) if 1 <= t <= self.horizon]
        return float(np.max(self.prefix_std(worst)))

    def releases(self, participations: int = 1) -> int:
        """On a level with n blocks, M elements touch at most min(M, n) of them."""
        each = require.whole("participations", participations)
        return sum(min(each, self.horizon >> level) for level in range(self.levels))

    def total_releases(self) -> int:
        """All complete blocks: 2 T - popcount(T)."""
        return sum(self.horizon >> level for level in range(self.levels))
