"""The world: contexts and rewards. Its true means are for measuring regret only; no policy sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.streams import Streams

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Environment(ABC):
    """A family of worlds, with `n_arms` feature vectors of `dim` coordinates a round; `begin` draws one per seed."""

    dim: int
    n_arms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", require.whole("dim", self.dim))
        object.__setattr__(self, "n_arms", require.whole("n_arms", self.n_arms))

    @abstractmethod
    def begin(self, streams: Streams) -> World:
        """One world per seed."""


class World(ABC):
    """Worlds of several seeds side by side, S of them, read round by round in blocks."""

    n_arms: int
    binary: bool = False  # rewards are 0 or 1
    fixed: bool = False  # the same arms in every round, contexts(...) has a rounds axis of length 1

    @abstractmethod
    def contexts(self, start: int, rounds: int) -> Floats:
        """Feature vectors of rounds start, ..., start + rounds - 1: (S, rounds, K, d); (S, 1, K, d) if `fixed`."""

    @abstractmethod
    def means(self, contexts: Floats) -> Floats:
        """True mean rewards: (S, rounds, K, d) -> (S, rounds, K)."""

    @abstractmethod
    def rewards(self, means: Floats) -> Floats:
        """Rewards of chosen arms with these means, one per round: (S, rounds) -> (S, rounds)."""

    def reward_sums(self, means: Floats, rounds: int) -> Floats:
        """Sums of the rewards of `rounds` rounds on one arm: means (S,) -> (S,), in the law of summing `rewards`."""
        return np.asarray(np.sum(self.rewards(np.repeat(means[:, None], rounds, axis=1)), axis=1))
