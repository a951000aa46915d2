"""What a runner leaves behind, besides the tally."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True)
class Run:
    """Of S seeds side by side; `users` are those in released batches, `counts` whatever else a policy counts, (S,).

    `reports`: how many there were in a run, of which `clipped` had to be; None where something else is counted.
    What is None of the rest is as the policy says: its guarantee and bits, and the repairs that it counts.
    """

    releases: int
    users: int
    clipped: NDArray[np.int64]  # (S,)
    guarantee: Guarantee | None = None
    repairs: NDArray[np.int64] | None = None  # (S,)
    bits_per_user: int | None = None
    numbers_per_user: int | None = None
    reports: int | None = None
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
