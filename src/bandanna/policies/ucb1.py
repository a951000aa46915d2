"""UCB1: the mean of all rewards of an arm, plus a bonus for what is not known. Decides in every round; not private.

    I_a(t) = mean of arm a's N rewards + w sqrt(b log t / (2 N))

Symbols: w width of the range, b `optimism`: 4 is the printed sqrt(2 log t / N) of Auer, Cesa-Bianchi and Fischer 2002.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Box, all_finite
from bandanna.core.linalg import first_best
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.reward_noise import RewardNoise, reward_box

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class State:
    """Sums of what was learned of every arm, and how often it was played. R = replicate axes."""

    sums: Floats  # (*R, K)
    pulls: Floats  # (*R, K)
    rounds: int

    @classmethod
    def empty(cls, replicates: tuple[int, ...], n_arms: int) -> State:
        """Nothing played yet."""
        return cls(sums=np.zeros((*replicates, n_arms)), pulls=np.zeros((*replicates, n_arms)), rounds=0)

    def plus(self, arms: NDArray[np.int64], values: Floats) -> State:
        """One more round."""
        n_arms = self.sums.shape[-1]
        sums, pulls = self.sums.copy(), self.pulls.copy()
        place = n_arms * np.arange(arms.size) + arms.ravel()
        sums.reshape(-1)[place] += np.ravel(values)
        pulls.reshape(-1)[place] += 1
        return State(sums=sums, pulls=pulls, rounds=self.rounds + 1)


@dataclass(frozen=True, kw_only=True)
class UCB1:
    """Finite-armed UCB over `horizon` rounds; rewards are clipped into `reward_range`."""

    n_arms: int
    horizon: int
    reward_range: tuple[float, float] = (0.0, 1.0)
    optimism: float = 4.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_arms", require.whole("n_arms", self.n_arms))
        object.__setattr__(self, "horizon", require.whole("horizon", self.horizon))
        require.positive("optimism", self.optimism)
        _ = self.domain

    @cached_property
    def domain(self) -> Box:
        """The declared range."""
        return reward_box(self.reward_range)

    @property
    def guarantee(self) -> Guarantee:
        """No privacy."""
        return RewardNoise(budget=None, sensitivity=self.domain.sensitivity).guarantee

    def init(self, replicates: tuple[int, ...] = ()) -> State:
        """Nothing played yet."""
        return State.empty(replicates, self.n_arms)

    def act(self, state: State) -> NDArray[np.int64]:
        """Every arm once, then the first with the largest index: (*R)."""
        return optimistic(state, state.sums, self.domain.sensitivity**2 * self.optimism / 2)

    def learn(self, state: State, arms: NDArray[np.int64], rewards: Floats, source: NoiseSource) -> State:
        """One reward per replicate, (*R)."""
        all_finite("rewards", rewards)
        return state.plus(arms, self.domain.project(rewards))


def optimistic(state: State, sums: Floats, scale: float) -> NDArray[np.int64]:
    """argmax of sums/N + sqrt(scale log t / N); while there are arms that were not played, the first of them."""
    n_arms = state.sums.shape[-1]
    if state.rounds < n_arms:
        return np.full(state.sums.shape[:-1], state.rounds)
    inverse = 1 / state.pulls
    return first_best(sums * inverse + np.sqrt((scale * math.log(state.rounds + 1)) * inverse))
