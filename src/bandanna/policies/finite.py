"""What policies on K arms without features share: the declared range, and what those know that decide every round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.domain import Box
from bandanna.core.linalg import first_best
from bandanna.policies.reward_noise import reward_box

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FiniteArmed:
    """`n_arms` arms over `horizon` rounds; rewards are clipped into `reward_range`."""

    n_arms: int
    horizon: int
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        require.store(self, require.whole, "n_arms", "horizon")
        _ = self.domain

    @cached_property
    def domain(self) -> Box:
        """The declared range."""
        return reward_box(self.reward_range)


@dataclass(frozen=True, kw_only=True)
class State:
    """Sums of what was learned of every arm, and how often it was played. R = replicate axes."""

    sums: Floats  # (*R, K)
    pulls: Floats  # (*R, K)
    rounds: int

    def plus(self, arms: NDArray[np.int64], values: Floats) -> State:
        """One more round."""
        n_arms = self.sums.shape[-1]
        sums, pulls = self.sums.copy(), self.pulls.copy()
        place = n_arms * np.arange(arms.size) + arms.ravel()
        sums.reshape(-1)[place] += np.ravel(values)
        pulls.reshape(-1)[place] += 1
        return State(sums=sums, pulls=pulls, rounds=self.rounds + 1)


@dataclass(frozen=True, kw_only=True)
class EveryRound(FiniteArmed):
    """A policy that decides in every round, from one sum for every arm."""

    def init(self, replicates: tuple[int, ...] = ()) -> State:
        """Nothing played yet."""
        shape = (*replicates, self.n_arms)
        return State(sums=np.zeros(shape), pulls=np.zeros(shape), rounds=0)


def optimistic(state: State, sums: Floats, scale: float) -> NDArray[np.int64]:
    """argmax of sums/N + sqrt(scale log t / N); while there are arms that were not played, the first of them."""
    n_arms = state.sums.shape[-1]
    if state.rounds < n_arms:
        return np.full(state.sums.shape[:-1], state.rounds)
    inverse = 1 / state.pulls
    return first_best(sums * inverse + np.sqrt((scale * math.log(state.rounds + 1)) * inverse))
