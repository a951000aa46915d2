"""`Environment` and `World`, the interface of simulated worlds, and laws of rewards in [0, 1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.rng import Streams
from bandanna.types import Floats


class RewardLaw(Protocol):
    """The law of a reward given its mean; best a frozen dataclass. Rewards are independent."""

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 or 1; then a sum of n rewards of one mean is one binomial draw."""
        ...

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Draw one reward per mean, rounds on the second axis: (S, rounds, ...) -> (S, rounds, ...)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Bernoulli:
    """Rewards of 1 with probability `mean`, else 0."""

    binary = True

    def draw(self, means: Floats, streams: Streams) -> Floats:
        return np.asarray(self.numbers(means.shape[1:], streams) < means, dtype=float)

    def numbers(self, shape: tuple[int, ...], streams: Streams) -> Floats:
        """Draw uniform numbers (S, *shape) for `draw`."""
        return streams.uniform("rewards", shape)


@dataclass(frozen=True, kw_only=True)
class Certain:
    """Rewards equal to their mean, for tables of known rewards."""

    binary = False

    def draw(self, means: Floats, streams: Streams) -> Floats:
        return np.array(means, dtype=float)


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Rewards mean + width U, U uniform on [-1, 1].

    Parameters
    ----------
    width : float
        From 0 to 1/2; smaller where the reward would leave [0, 1].
    """

    width: float = 0.25

    binary = False

    def __post_init__(self) -> None:
        if validation.non_negative("width", self.width) > 0.5:
            raise InvalidArgument("width", self.width, "a number in [0, 1/2]")
        object.__setattr__(self, "width", float(self.width))

    def draw(self, means: Floats, streams: Streams) -> Floats:
        room = np.minimum(self.width, np.minimum(means, 1 - means))
        return np.asarray(means + room * (2 * streams.uniform("rewards", means.shape[1:]) - 1))


ROUNDING = 1e-9  # a mean may leave [0, 1] by this much


@dataclass(frozen=True, kw_only=True)
class Environment(ABC):
    """A family of worlds with `n_arms` feature vectors of `dim` coordinates a round; `begin` draws one world per seed.

    All randomness comes from `streams`, with one name per purpose, so a world depends on its seed alone. A world of
    your own:

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

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms in a round.
    reward : RewardLaw
        The law of rewards given their means.
    """

    dim: int
    n_arms: int
    reward: RewardLaw = Bernoulli()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", validation.integer("dim", self.dim))
        object.__setattr__(self, "n_arms", validation.integer("n_arms", self.n_arms))
        if isinstance(self.reward, type) or not callable(getattr(self.reward, "draw", None)):
            allowed = "Bernoulli(), Bounded(...), TwoPoint(...) or ClippedGaussian(...)"
            raise InvalidArgument("reward", self.reward, allowed)

    def check_rounds(self, rounds: int) -> int:
        """Return `rounds`; refuse more than an environment of limited length has."""
        return rounds

    @abstractmethod
    def begin(self, streams: Streams) -> World:
        """Draw one world per seed."""


class World(ABC):
    """Worlds of S seeds side by side, read once, in the order of the rounds, in blocks of any size.

    Parameters
    ----------
    environment
        The environment that begins the world; it gives `dim`, `n_arms` and the law of rewards.
    streams
        Random streams of S seeds, one world each.
    fixed
        Whether arms and means stay the same in every round.
    """

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
        """Return features of `rounds` rounds from `start` on: (S, rounds, K, d); (S, 1, K, d) if `fixed`."""

    @abstractmethod
    def means(self, contexts: Floats) -> Floats:
        """Return true means in [0, 1] of the last block: (S, rounds, K, d) -> (S, rounds, K)."""

    def rewards(self, means: Floats) -> Floats:
        """Draw rewards of the chosen arms from their means: (S, rounds) -> (S, rounds)."""
        return self.environment.reward.draw(means, self.streams)

    def reward_sums(self, means: Floats, rounds: int | NDArray[np.int64]) -> Floats:
        """Draw sums of `rounds` rewards of one arm, in the law of the sum of `rewards`: means (S,) -> (S,).

        For rewards of 0 or 1, `rounds` may be (S,); a seed with 0 rounds draws nothing.
        """
        if self.binary:
            return np.asarray(self.streams.binomial("reward sums", rounds, means), dtype=float)
        return np.asarray(np.sum(self.rewards(np.repeat(means[:, None], rounds, axis=1)), axis=1))


def read_block(world: World, start: int, rounds: int, *, unit: bool = True) -> tuple[Floats, Floats]:
    """Return contexts (S, rounds, K, d) and means (S, rounds, K) of a block after checking their shapes.

    With `unit` the means must lie in [0, 1].
    """
    shape = (len(world.streams.seeds), 1 if world.fixed else rounds, world.n_arms, world.environment.dim)
    kind = type(world).__name__
    contexts = world.contexts(start, rounds)
    if np.shape(contexts) != shape:
        raise InvalidStatistic(
            f"shape of {kind}.contexts", ValueSummary(np.shape(contexts)), f"(S, rounds, K, d) = {shape}"
        )
    means = world.means(contexts)
    if np.shape(means) != shape[:-1]:
        raise InvalidStatistic(
            f"shape of {kind}.means", ValueSummary(np.shape(means)), f"(S, rounds, K) = {shape[:-1]}"
        )
    least, most = float(np.min(means)), float(np.max(means))
    if unit and not (least >= -ROUNDING and most <= 1 + ROUNDING):  # not a number is refused too
        raise InvalidStatistic(f"{kind}.means", ValueSummary("numbers outside of it"), "in [0, 1]")
    return contexts, means


_ROUNDS = 1_000  # of fresh contexts, of which a round's loss is the average
_NUMBERS_AT_ONCE = 2_000_000  # numbers


def regret_of_random_play(env: Environment, *, horizon: int, n_seeds: int, seed: int = 0) -> Floats:
    """Compute the expected regret of uniformly random arms for every seed of `simulate`, (S,).

    It is exact for fixed arms, else computed from the first 1,000 rounds of each seed.
    """
    world = env.begin(Streams(range(seed, seed + n_seeds)))
    rounds = 1 if world.fixed else min(horizon, _ROUNDS)
    block = max(1, _NUMBERS_AT_ONCE // (n_seeds * env.n_arms * env.dim))
    lost = np.zeros(n_seeds)
    for start in range(0, rounds, block):
        means = world.means(world.contexts(start, min(block, rounds - start)))  # (S, rounds, K)
        lost += np.sum(np.max(means, axis=-1) - np.mean(means, axis=-1), axis=-1)
    return np.asarray(horizon * lost / rounds)
