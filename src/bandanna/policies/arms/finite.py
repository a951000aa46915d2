"""What policies on K arms without features share: arguments, tallies, and the promise for a reward."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic
from bandanna.core.linalg import first_best
from bandanna.policies.arms.rewards import Rewards, rewards_in
from bandanna.policies.base import Ask, Played, Policy
from bandanna.protocols.base import Protocol
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as
from bandanna.theory import finite
from bandanna.theory.settings import Found, Setting

State = TypeVar("State")

PROTECTS = "a user's reward"
SIGHT = (("the trusted server", "every user's reward"), ("everybody else", "actions, chosen from noisy statistics"))
_EXACT = (("everybody", "actions, chosen from exact statistics"),)


@dataclass(frozen=True, kw_only=True)
class FiniteArmed(Policy[State]):
    """`n_arms` arms over `horizon` rounds; rewards are clipped into `reward_range`."""

    n_arms: int
    horizon: int
    privacy: Privacy
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        require.store(self, require.whole, "n_arms", "horizon")
        self.check_trust()
        _ = self.domain

    @cached_property
    def domain(self) -> Rewards:
        """The declared range."""
        return rewards_in(self.reward_range)

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """What every policy pays."""
        return finite.of_finite_arms(setting)

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """Rewards, clipped into the range."""
        return self.domain.report(played)


@stored_as("Tallies")
@dataclass(frozen=True, kw_only=True)
class Tallies:
    """Sums of what was learned of every arm, and how often it was played. R = replicate axes."""

    sums: Floats  # (*R, K)
    pulls: Floats  # (*R, K)
    rounds: int

    def means(self) -> Floats:
        """Of what was learned, (*R, K); minus infinity of arms that were never played."""
        return np.where(self.pulls > 0, self.sums / np.maximum(self.pulls, 1.0), -np.inf)

    def plus(self, arms: Ints, values: Floats) -> Tallies:
        """One more round: arms and values (*R)."""
        place = np.arange(0, self.sums.size, self.sums.shape[-1]) + arms.reshape(-1)
        sums, pulls = self.sums.copy(), self.pulls.copy()
        sums.reshape(-1)[place] += values.reshape(-1)
        pulls.reshape(-1)[place] += 1
        return Tallies(sums=sums, pulls=pulls, rounds=self.rounds + 1)


def no_tallies(n_arms: int, replicates: tuple[int, ...]) -> Tallies:
    """Nothing played yet."""
    shape = (*replicates, n_arms)
    return Tallies(sums=np.zeros(shape), pulls=np.zeros(shape), rounds=0)


def optimistic(state: Tallies, scale: float) -> NDArray[np.int64]:
    """argmax of sums/N + sqrt(scale log t / N); while there are arms that were not played, the first of them."""
    n_arms = state.sums.shape[-1]
    if state.rounds < n_arms:
        return np.full(state.sums.shape[:-1], state.rounds)
    inverse = 1 / state.pulls
    return first_best(state.sums * inverse + np.sqrt((scale * math.log(state.rounds + 1)) * inverse))


def reward_guarantee(protocol: Protocol) -> Guarantee:
    """What a protocol for sums of rewards promises for one of them."""
    stated = protocol.guarantee
    observers = _EXACT if stated.trust == "none" else SIGHT if stated.trust == "central" else stated.observers
    return replace(
        stated, protects=PROTECTS, observers=observers, delta=0.0 if stated.trust == "none" else stated.delta
    )
