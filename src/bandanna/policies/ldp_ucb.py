"""LDP-UCB: every device sends one randomized bit about its reward; nobody is trusted.

    P(bit = 1 | y) = (1 - q) + (2q - 1) (y - low)/w,   q = e^epsilon / (1 + e^epsilon)
    I_a(t) = low + w (mean of arm a's N bits - (1 - q)) / (2q - 1) + w / (2q - 1) sqrt(b log t / (2N))

The reward is rounded to a bit at random (unbiased) and the bit goes through randomized response; both in one coin.
A coin has 53 binary places: 1 - q is rounded up to them, so that every bit can lie, however large epsilon is.
Privacy: pure epsilon, local. Randomized response is "x + Z >= 1" with Z two-sided geometric, P(Z >= 0) = q: that
release, of which it is a function, is the event that the accountant prices.
Reference: Ren, Zhou, Liu and Shroff 2020 (LDP-UCB with Bernoulli responses).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.events import DiscreteLaplaceEvent
from bandanna.accounting.guarantee import Guarantee, guarantee_of
from bandanna.core import require
from bandanna.core.domain import all_finite
from bandanna.errors import InvalidBudget
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import EveryRound, State, optimistic
from bandanna.policies.reward_noise import PROTECTS

Floats = NDArray[np.float64]

_STEP = 2.0**-53  # of a uniform number
_LEAST = 1e-12  # an epsilon of many steps


@dataclass(frozen=True, kw_only=True)
class LDPUCB(EveryRound):
    """Finite-armed UCB on randomized bits, over `horizon` rounds; rewards are clipped into `reward_range`."""

    epsilon: float
    optimism: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.positive("optimism", self.optimism)
        if not _LEAST <= require.epsilon(self.epsilon) < math.inf:
            allowed = f"a finite number >= {_LEAST}: a coin of 53 binary places (UCB1 is the policy without noise)"
            raise InvalidBudget("epsilon", self.epsilon, allowed)

    @cached_property
    def lie(self) -> float:
        """1 - q = 1 / (1 + e^epsilon), a little above it: a whole number of the coin's steps, at least one."""
        odds = math.exp(-self.epsilon)
        return (math.floor(odds / (1 + odds) / _STEP * (1 + 1e-15)) + 1) * _STEP  # 1e-15: more than rounding errors

    @property
    def truth(self) -> float:
        """2q - 1, at most tanh(epsilon/2): how much of the bit survives."""
        return 1 - 2 * self.lie

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """A bit with two-sided geometric noise, of which the message is a function: log(q / (1 - q)) <= epsilon."""
        loss = 2 * math.atanh(self.truth) * (1 + 1e-15)
        return DiscreteLaplaceEvent(scale=max(1 / self.epsilon, 1 / loss), shift=1.0)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Pure local differential privacy."""
        sight = (("the server and everybody else", "one randomized bit per user"),)
        return guarantee_of(self.event, delta=0.0, trust="local", protects=PROTECTS, observers=sight)

    def chance(self, rewards: Floats) -> Floats:
        """Device: the probability of sending a 1: (1 - q) + (2q - 1) y, y in [0, 1]; never outside of [1 - q, q]."""
        share = (self.domain.project(rewards) - self.domain.low) / self.domain.sensitivity
        return np.clip(self.lie + self.truth * share, self.lie, 1 - self.lie)

    def randomize(self, rewards: Floats, source: NoiseSource) -> Floats:
        """Device: one bit per reward, (*R)."""
        all_finite("rewards", np.asarray(rewards, dtype=float))
        return np.asarray(source.uniform(np.shape(rewards)) < self.chance(rewards), dtype=float)

    def act(self, state: State) -> NDArray[np.int64]:
        """Every arm once, then the first with the largest index: (*R)."""
        # b' = (bit - (1 - q)) / (2q - 1) has mean (y - low)/w; the index is w I + low, and the argmax that of I
        unbiased = (state.sums - self.lie * state.pulls) / self.truth
        return optimistic(state, unbiased, self.optimism / (2 * self.truth**2))

    def learn(self, state: State, arms: NDArray[np.int64], rewards: Floats, source: NoiseSource) -> State:
        """Every device randomizes its own reward, (*R)."""
        return state.plus(arms, self.randomize(rewards, source))
