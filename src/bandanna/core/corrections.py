"""What one person contributes to a doubly robust estimate of a policy's value (calibration.md E.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain, Statistic, all_finite, size
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import stored_as


@stored_as("Corrections")
@dataclass(frozen=True, kw_only=True)
class Corrections(Domain):
    """What a person contributes to a doubly robust estimate: d = g - 1/2 + w (r - q), its weight, and its square.

    A model q of rewards says what the policy would earn, g, and is corrected by what the logged arm earned instead;
    w is in [0, M], M the `bound`, and g and q lie within `spread` of 1/2. Then |d| <= h + w (1/2 + h) <= R, and

        (d, (R/M) w, d^2 / (sqrt 2 R))

    has the diameter 2 R = 2 h + M (1 + 2 h), or a little more where M is small (calibration.md E.4). Without a weight,
    `bound` = 0, the direct method: (d, d^2 / (sqrt 2 R)), |d| <= R = h.
    """

    dim: int = 0  # derived
    bound: float
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.bound != 0:
            require.store(self, size, "bound")
        object.__setattr__(self, "spread", require.share("spread", self.spread))
        if self.spread > 0.5 or (self.bound == 0 and self.spread == 0):
            raise InvalidArgument("spread", self.spread, "a number in [0, 1/2], above 0 where there are no weights")
        object.__setattr__(self, "dim", 3 if self.bound else 2)
        super().__post_init__()

    @property
    def largest(self) -> float:
        """R."""
        return self.spread + self.bound * (0.5 + self.spread)

    @property
    def sensitivity(self) -> float:
        """Between the corners (d, w) = (+-R, M), or one of them and (-+h, 0)."""
        y = self.spread / self.largest
        across = (1 + y) ** 2 + (1 - y * y) ** 2 / 2 + 1
        return self.largest * (math.sqrt(max(4.0, across)) if self.bound else 2.0)

    @property
    def l1_sensitivity(self) -> float:
        """An upper bound: all ranges, or sqrt(dim) times the l2 diameter."""
        return min(float(np.sum(self.upper - self.lower)), math.sqrt(self.dim) * self.sensitivity)

    @cached_property
    def lower(self) -> Floats:
        """-R, and 0 for weight and square."""
        return self._ends(-1.0, 0.0, 0.0)

    @cached_property
    def upper(self) -> Floats:
        """R, R and R / sqrt 2."""
        return self._ends(1.0, 1.0, math.sqrt(0.5))

    def _ends(self, correction: float, weight: float, square: float) -> Floats:
        parts = [correction, weight, square] if self.bound else [correction, square]
        ends = self.largest * np.array(parts)
        ends.setflags(write=False)  # kept
        return ends

    def pack(self, corrections: Floats, weights: Floats) -> Floats:
        """(...) and (...) -> (..., dim)."""
        square = corrections * corrections / (math.sqrt(2) * self.largest)
        if not self.bound:
            return np.stack([corrections, square], axis=-1)
        return np.stack([corrections, weights * (self.largest / self.bound), square], axis=-1)

    def unpack(self, total: Floats) -> Floats:
        """(..., dim) -> sums of d, w (0 where there are none) and d^2, (..., 3)."""
        units = self.units
        if self.bound:
            return np.asarray(total * units)
        return np.stack([total[..., 0], np.zeros_like(total[..., 0]), total[..., 1] * units[2]], axis=-1)

    @property
    def units(self) -> Floats:
        """What a coordinate is multiplied by to be a sum of d, w, d^2 again, (3,): noise of it is multiplied alike."""
        return np.array([1.0, self.bound / self.largest, math.sqrt(2) * self.largest])

    def project(self, values: Floats) -> Floats:
        """w and d are clipped, the square is formed anew."""
        weights = np.clip(values[..., 1] * (self.bound / self.largest), 0.0, self.bound) if self.bound else 0.0
        most = self.spread + weights * (0.5 + self.spread)
        return self.pack(np.clip(values[..., 0], -most, most), np.broadcast_to(weights, values.shape[:-1]))

    def statistic(self, corrections: Floats, weights: Floats) -> Statistic:
        """Of (users,) and (users,), clipped and counted."""
        all_finite("corrections", corrections)
        all_finite("weights", weights)
        kept = np.clip(weights, 0.0, self.bound)
        most = self.spread + kept * (0.5 + self.spread)
        inside = np.clip(corrections, -most, most)
        moved = (np.abs(inside - corrections) > 1e-9) | (np.abs(kept - weights) > 1e-9)
        return self.sealed(self.pack(inside, kept), clipped=np.asarray(np.count_nonzero(moved), dtype=np.int64))
