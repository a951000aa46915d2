"""Exploration by a public rule: whole episodes at random, or some users of every episode."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core import require
from bandanna.core.calling import by_name
from bandanna.storage.declared import stored_as


@stored_as("Uniform")
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
