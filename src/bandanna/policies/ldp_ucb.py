"""LDP-UCB: every device sends one randomized bit about its reward; nobody is trusted.

    P(bit = 1 | y) = (1 - q) + (2q - 1) (y - low)/w,   q = e^epsilon / (1 + e^epsilon)
    I_a(t) = low + w (mean of arm a's N bits - (1 - q)) / (2q - 1) + w / (2q - 1) sqrt(b log t / (2N))

Privacy: pure epsilon, local, by `RandomizedResponse`: the reward is rounded to a bit at random, and the bit may lie.
Reference: Ren, Zhou, Liu and Shroff 2020 (LDP-UCB with Bernoulli responses).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee, guarantee_of
from bandanna.core import require
from bandanna.core.domain import all_finite
from bandanna.errors import InvalidBudget
from bandanna.mechanisms.randomized_response import RandomizedResponse
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import EveryRound, State, optimistic
from bandanna.policies.reward_noise import PROTECTS

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LDPUCB(EveryRound):
    """Finite-armed UCB on randomized bits, over `horizon` rounds; rewards are clipped into `reward_range`."""

    epsilon: float
    optimism: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "optimism")
        if math.isinf(require.epsilon(self.epsilon)):
            raise InvalidBudget("epsilon", self.epsilon, "a finite number > 0 (UCB1 is the policy without noise)")
        _ = self.response

    @cached_property
    def response(self) -> RandomizedResponse:
        """What a device answers."""
        return RandomizedResponse(epsilon=self.epsilon)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Pure local differential privacy."""
        sight = (("the server and everybody else", "one randomized bit per user"),)
        return guarantee_of(self.response.event, delta=0.0, trust="local", protects=PROTECTS, observers=sight)

    def randomize(self, rewards: Floats, source: NoiseSource) -> Floats:
        """Device: one bit per reward, (*R)."""
        all_finite("rewards", np.asarray(rewards, dtype=float))
        share = (self.domain.project(rewards) - self.domain.low) / self.domain.sensitivity  # in [0, 1], or rounded
        return self.response.release(np.clip(share, 0.0, 1.0)[..., None], source)[..., 0]

    def act(self, state: State) -> NDArray[np.int64]:
        """Every arm once, then the first with the largest index: (*R)."""
        # b' = (bit - (1 - q)) / (2q - 1) has mean (y - low)/w; the index is w I + low, and the argmax that of I
        unbiased = self.response.decode(state.sums, state.pulls)
        return optimistic(state, unbiased, self.optimism / (2 * self.response.truth**2))

    def learn(self, state: State, arms: NDArray[np.int64], rewards: Floats, source: NoiseSource) -> State:
        """Every device randomizes its own reward, (*R)."""
        return state.plus(arms, self.randomize(rewards, source))
