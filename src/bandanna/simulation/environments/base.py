"""The interface of environments, and reward distributions."""

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

# Laws of rewards in [0, 1] with a given mean.


class RewardLaw(Protocol):
    """How a reward is drawn around its mean; any object with these two members will do (a frozen dataclass is best).

    The rewards lie in [0, 1], have the given means, and are independent given the means. They come from named streams
    only, read in order of the rounds: so a seed gives the same rewards in any company.
    """

    @property
    def binary(self) -> bool:
        """Rewards are 0 or 1: then a sum of n of them with one mean is drawn as one binomial number."""
        ...

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """One reward per mean, rounds on the second axis: (S, rounds, ...) -> (S, rounds, ...)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Bernoulli:
    """1 with probability `mean`, else 0: standard deviation at most 1/2."""

    binary = True

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """A uniform number below the mean."""
        return np.asarray(self.numbers(means.shape[1:], streams) < means, dtype=float)

    def numbers(self, shape: tuple[int, ...], streams: Streams) -> Floats:
        """The uniform numbers themselves, (S, *shape): rewards of means that are not known yet."""
        return streams.uniform("rewards", shape)


@dataclass(frozen=True, kw_only=True)
class Certain:
    """The mean itself: of tables whose rewards are known."""

    binary = False

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Nothing is drawn."""
        return np.array(means, dtype=float)


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """mean + width U, U uniform on [-1, 1], the width (0 to 1/2) shrunk where the reward would leave [0, 1]."""

    width: float = 0.25

    binary = False

    def __post_init__(self) -> None:
        if validation.non_negative("width", self.width) > 0.5:
            raise InvalidArgument("width", self.width, "a number in [0, 1/2]")
        object.__setattr__(self, "width", float(self.width))

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Uniform noise around the mean."""
        room = np.minimum(self.width, np.minimum(means, 1 - means))
        return np.asarray(means + room * (2 * streams.uniform("rewards", means.shape[1:]) - 1))


# The world: contexts and rewards. Its true means are for measuring regret only; no policy sees them.
#
# A world of one's own: pass arrays (`ArrayEnvironment`) or functions (`CallableEnvironment`), or, for the full speed
# of
# many seeds at once, subclass both classes below. The environment is the frozen description; the world holds what was
# drawn for each of S seeds and says what the arms are and what they are worth:
#
#     @dataclass(frozen=True, kw_only=True)
#     class Quadrant(Environment):
#         def begin(self, streams: Streams) -> World:
#             return QuadrantWorld(environment=self, streams=streams)
#
#     class QuadrantWorld(World):
#         def contexts(self, start: int, rounds: int) -> Floats:
#             uniform = self.streams.uniform("contexts", (rounds, self.n_arms, self.environment.dim))
#             return uniform / np.sqrt(self.environment.dim)          # (S, rounds, K, d), norm at most 1
#
#         def means(self, contexts: Floats) -> Floats:
#             return np.mean(contexts**2, axis=-1)                    # (S, rounds, K), in [0, 1]
#
# All randomness comes from `streams`, one name per purpose: then seed s is the same world in any company.


ROUNDING = 1e-9  # a mean may leave [0, 1] by this much


@dataclass(frozen=True, kw_only=True)
class Environment(ABC):
    """A family of worlds, with `n_arms` feature vectors of `dim` coordinates a round; `begin` draws one per seed."""

    dim: int
    n_arms: int
    reward: RewardLaw = Bernoulli()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", validation.integer("dim", self.dim))
        object.__setattr__(self, "n_arms", validation.integer("n_arms", self.n_arms))
        if isinstance(self.reward, type) or not callable(getattr(self.reward, "draw", None)):
            allowed = "a law of rewards: Bernoulli(), Bounded(...), TwoPoint(...), ClippedGaussian(...)"
            raise InvalidArgument("reward", self.reward, allowed)

    def check_rounds(self, rounds: int) -> int:
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


def read_block(world: World, start: int, rounds: int, *, unit: bool = True) -> tuple[Floats, Floats]:
    """Contexts (S, rounds, K, d) and means (S, rounds, K) of a block; a world that gives others is refused by name.

    unit: means must lie in [0, 1], as policies that learn from rewards in [0, 1] rely on.
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
        raise InvalidStatistic(f"{kind}.means", ValueSummary("some outside"), "means in [0, 1]")
    return contexts, means


# What is left without learning: the regret of an arm at random in every round, in the same worlds.


_ROUNDS = 1_000  # of fresh contexts, of which a round's loss is the average
_NUMBERS_AT_ONCE = 2_000_000  # numbers


def regret_of_random_play(env: Environment, *, horizon: int, n_seeds: int, seed: int = 0) -> Floats:
    """Expected regret of every seed, (S,): exact where arms stay, else from the first 1,000 rounds of each seed.

    The worlds are those that `simulate` plays with the same seeds.
    """
    world = env.begin(Streams(range(seed, seed + n_seeds)))
    rounds = 1 if world.fixed else min(horizon, _ROUNDS)
    block = max(1, _NUMBERS_AT_ONCE // (n_seeds * env.n_arms * env.dim))
    lost = np.zeros(n_seeds)
    for start in range(0, rounds, block):
        means = world.means(world.contexts(start, min(block, rounds - start)))  # (S, rounds, K)
        lost += np.sum(np.max(means, axis=-1) - np.mean(means, axis=-1), axis=-1)
    return np.asarray(horizon * lost / rounds)
