"""What a simulation returns: regret over time for every seed, what was released, and what it was promised to cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Result:
    """Regret against the true means at `checkpoints`, for every seed."""

    checkpoints: NDArray[np.int64]  # (C,)
    regret: Floats  # (S, C)
    rewards: Floats  # (S,): sums
    releases: int
    clipped: NDArray[np.int64]  # (S,)
    repairs: NDArray[np.int64]  # (S,): releases that had to be made positive definite
    bits_per_user: int
    guarantee: Guarantee
    seconds: float
    seeds: tuple[int, ...]

    @property
    def final_regret(self) -> Floats:
        """Regret at the horizon, (S,)."""
        return self.regret[:, -1]


def checkpoints_for(horizon: int, wanted: int) -> NDArray[np.int64]:
    """Up to `wanted` rounds, evenly spaced, the horizon among them."""
    return np.unique(np.ceil(np.linspace(0, horizon, min(wanted, horizon) + 1)[1:]).astype(np.int64))
