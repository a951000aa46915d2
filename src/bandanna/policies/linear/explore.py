"""Exploration by a public rule: whole episodes at random, or some users of every episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.calling import by_name
from bandanna.core.coins import Coins
from bandanna.device.choice import Choice


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Arms uniformly at random: for everybody in episodes that begin before the `first` users, then with a chance."""

    first: int = 0
    then: float = 0.0

    def __post_init__(self) -> None:
        require.store(self, require.whole, "first", least=0)
        require.store(self, require.share, "then")

    def share(self, users: int) -> float:
        """Of those who explore in an episode that so many users are before."""
        return 1.0 if users < self.first else self.then

    def rounds(self, horizon: int, longest: int) -> float:
        """How many rounds of a horizon explore, on average and at most: episodes have up to `longest` users."""
        alone = min(horizon, self.first + longest - 1) if self.first else 0
        return alone + self.then * (horizon - alone)


@by_name("bd.uniform")
def uniform(*, first: int = 0, then: float = 0.0) -> Uniform:
    """Arms at random in episodes that begin before the `first` users, later with probability `then` for each user."""
    return Uniform(first=first, then=then)


def moved(actions: Ints, share: float, n_arms: int, coins: Coins) -> Ints:
    """The actions, or with probability `share` any arm."""
    away = coins.uniform(actions.shape, "explore") < share
    anywhere = np.asarray(coins.among(away, "explored arms") * n_arms, dtype=np.int64)
    return np.where(away, anywhere, actions)


def explored(
    choice: Choice, share: float, n_arms: int, coins: Coins, chance: Callable[[Ints], Floats] | None = None
) -> Choice:
    """Device: the choice, or with probability `share` any arm; its probability is that of both together.

    chance  with which probability the policy itself takes given arms, (*R, n) -> (*R, n); without it, it takes no other
            arm than the one it chose
    """
    if not share:
        return choice
    actions = moved(choice.actions, share, n_arms, coins)
    own = np.where(actions == choice.actions, choice.probabilities, 0.0) if chance is None else chance(actions)
    return Choice(actions=actions, probabilities=share / n_arms + (1 - share) * own, groups=choice.groups)
