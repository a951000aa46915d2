"""UCB1: the mean of all rewards of an arm, plus a bonus for what is not known. Decides in every round; not private.

    I_a(t) = mean of arm a's N rewards + w sqrt(b log t / (2 N))

Symbols: w width of the range, b `optimism`: 4 is the printed sqrt(2 log t / N) of Auer, Cesa-Bianchi and Fischer 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import all_finite
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import EveryRound, State, optimistic
from bandanna.policies.reward_noise import RewardNoise

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class UCB1(EveryRound):
    """Finite-armed UCB over `horizon` rounds; rewards are clipped into `reward_range`."""

    optimism: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "optimism")

    @property
    def guarantee(self) -> Guarantee:
        """No privacy."""
        return RewardNoise(budget=None, sensitivity=self.domain.sensitivity).guarantee

    def act(self, state: State) -> NDArray[np.int64]:
        """Every arm once, then the first with the largest index: (*R)."""
        return optimistic(state, state.sums, self.domain.sensitivity**2 * self.optimism / 2)

    def learn(self, state: State, arms: NDArray[np.int64], rewards: Floats, source: NoiseSource) -> State:
        """One reward per replicate, (*R)."""
        all_finite("rewards", rewards)
        return state.plus(arms, self.domain.project(rewards))
