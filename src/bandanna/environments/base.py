"""The world: contexts and rewards. Its true means are for measuring regret only; no policy sees them.

A world of one's own: pass arrays (`ArrayEnvironment`) or functions (`CallableEnvironment`), or, for the full speed of
many seeds at once, subclass both classes below. The environment is the frozen description; the world holds what was
drawn for each of S seeds and says what the arms are and what they are worth:

    @dataclass(frozen=True, kw_only=True)
    class Quadrant(Environment):
        def begin(self, streams: Streams) -> World:
            return QuadrantWorld(environment=self, streams=streams)

    class QuadrantWorld(World):
        def contexts(self, start: int, rounds: int) -> Floats:
            uniform = self.streams.uniform("contexts", (rounds, self.n_arms, self.environment.dim))
            return uniform / np.sqrt(self.environment.dim)          # (S, rounds, K, d), norm at most 1

        def means(self, contexts: Floats) -> Floats:
            return np.mean(contexts**2, axis=-1)                    # (S, rounds, K), in [0, 1]

All randomness comes from `streams`, one name per purpose: then seed s is the same world in any company.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.rewards import Bernoulli, RewardLaw
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary

ROUNDING = 1e-9  # a mean may leave [0, 1] by this much


@dataclass(frozen=True, kw_only=True)
class Environment(ABC):
    """A family of worlds, with `n_arms` feature vectors of `dim` coordinates a round; `begin` draws one per seed."""

    dim: int
    n_arms: int
    reward: RewardLaw = Bernoulli()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", require.whole("dim", self.dim))
        object.__setattr__(self, "n_arms", require.whole("n_arms", self.n_arms))
        if isinstance(self.reward, type) or not callable(getattr(self.reward, "draw", None)):
            allowed = "a law of rewards: Bernoulli(), Bounded(...), TwoPoint(...), ClippedGaussian(...)"
            raise InvalidArgument("reward", self.reward, allowed)

    def lasting(self, rounds: int) -> int:
        """The rounds, or an error where the world cannot last so long; it lasts for ever unless it says otherwise."""
        return rounds

    @abstractmethod
    def begin(self, streams: Streams) -> World:
        """One world per seed."""


class World(ABC):
    """Worlds of several seeds side by side, S of them, read once, in order of the rounds, in blocks of any size."""

    n_arms: int
    binary: bool = False  # rewards are 0 or 1
    unit: bool = False  # features are finite and no longer than 1, by how they are drawn: nobody has to look
    fixed: bool = False  # the same arms and means in every round, contexts(...) has a rounds axis of length 1

    def __init__(self, *, environment: Environment, streams: Streams, fixed: bool = False) -> None:
        self.environment = environment
        self.streams = streams
        self.n_arms = environment.n_arms
        self.binary = environment.reward.binary
        self.fixed = fixed

    @abstractmethod
    def contexts(self, start: int, rounds: int) -> Floats:
        """Features of `rounds` rounds from `start` on, counted from 0: (S, rounds, K, d); (S, 1, K, d) if `fixed`."""

    @abstractmethod
    def means(self, contexts: Floats) -> Floats:
        """True means, in [0, 1], of the block that `contexts` returned last: (S, rounds, K, d) -> (S, rounds, K)."""

    def rewards(self, means: Floats) -> Floats:
        """Rewards of chosen arms with these means, one per round, by the law `reward`: (S, rounds) -> (S, rounds)."""
        return self.environment.reward.draw(means, self.streams)

    def reward_sums(self, means: Floats, rounds: int | NDArray[np.int64]) -> Floats:
        """Sums of `rounds` rewards of one arm, in the law of summing `rewards`: means (S,) -> (S,).

        Where rewards are 0 or 1, `rounds` may differ from seed to seed, (S,); a seed with none draws nothing.
        """
        if self.binary:
            return np.asarray(self.streams.binomial("reward sums", rounds, means), dtype=float)
        return np.asarray(np.sum(self.rewards(np.repeat(means[:, None], rounds, axis=1)), axis=1))


def read(world: World, start: int, rounds: int, *, unit: bool = True) -> tuple[Floats, Floats]:
    """Contexts (S, rounds, K, d) and means (S, rounds, K) of a block; a world that gives others is refused by name.

    unit: means must lie in [0, 1], as policies that learn from rewards in [0, 1] rely on.
    """
    shape = (len(world.streams.seeds), 1 if world.fixed else rounds, world.n_arms, world.environment.dim)
    kind = type(world).__name__
    contexts = world.contexts(start, rounds)
    if np.shape(contexts) != shape:
        raise InvalidStatistic(f"shape of {kind}.contexts", Summary(np.shape(contexts)), f"(S, rounds, K, d) = {shape}")
    means = world.means(contexts)
    if np.shape(means) != shape[:-1]:
        raise InvalidStatistic(f"shape of {kind}.means", Summary(np.shape(means)), f"(S, rounds, K) = {shape[:-1]}")
    least, most = float(np.min(means)), float(np.max(means))
    if unit and not (least >= -ROUNDING and most <= 1 + ROUNDING):  # not a number is refused too
        raise InvalidStatistic(f"{kind}.means", Summary("some outside"), "means in [0, 1]")
    return contexts, means
