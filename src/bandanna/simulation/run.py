"""What a runner leaves behind, besides the tally."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True)
class Run:
    """Of S seeds side by side; `users` are those in released batches, `counts` whatever else a policy counts, (S,)."""

    guarantee: Guarantee
    releases: int
    users: int
    clipped: NDArray[np.int64]  # (S,)
    repairs: NDArray[np.int64]  # (S,)
    bits_per_user: int
    numbers_per_user: int | None = None
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
