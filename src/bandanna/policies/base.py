"""What every policy is to the runners: freeze, collect, release, learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.coins import Coins


@dataclass(frozen=True, kw_only=True)
class Episode:
    """How long the policy stays frozen: `users` decisions; a last episode too short for a batch is not released."""

    users: int
    released: bool = True


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What devices do: an action for every user, and with which probability it was chosen. R = replicate axes."""

    actions: NDArray[np.int64]  # (*R, users)
    probabilities: NDArray[np.float64]  # (*R, users)


def pick(first: NDArray[np.int64], tied: NDArray[np.bool_] | None, coins: Coins) -> Choice:
    """One of each user's tied arms, all equally likely; `first` and `tied` as `linalg.favoured` gives them."""
    if tied is None:
        return Choice(actions=first, probabilities=np.ones(first.shape))
    counts = np.asarray(np.sum(tied, axis=-1, dtype=np.int64))  # (*R, users)
    several, rank = counts > 1, coins.below(counts)
    reached = np.cumsum(tied[several], axis=-1) > rank[several][:, None]  # from the arm of that rank on
    first[several] = np.argmax(reached, axis=-1)
    return Choice(actions=first, probabilities=np.asarray(1 / counts))
