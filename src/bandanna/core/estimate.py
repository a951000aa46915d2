"""What an analyzer releases: an unbiased total, the users behind it, and how noisy it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.storage.declared import stored_as


@stored_as("Estimate")
@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An unbiased estimate of the sum of `count` users' statistics.

    `variance` is that of the noise in each coordinate, rounding included (its bound, where it depends on the data);
    it is known in advance and carries no information about anybody.
    """

    total: NDArray[np.float64]  # (..., dim)
    count: int
    variance: float

    def __add__(self, other: Estimate) -> Estimate:
        """Sums of separately noised batches: totals, counts and variances add."""
        return Estimate(
            total=self.total + other.total, count=self.count + other.count, variance=self.variance + other.variance
        )
