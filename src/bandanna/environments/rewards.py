"""Laws of rewards in [0, 1] with a given mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.errors import InvalidArgument


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
        if require.non_negative("width", self.width) > 0.5:
            raise InvalidArgument("width", self.width, "a number in [0, 1/2]")
        object.__setattr__(self, "width", float(self.width))

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Uniform noise around the mean."""
        room = np.minimum(self.width, np.minimum(means, 1 - means))
        return np.asarray(means + room * (2 * streams.uniform("rewards", means.shape[1:]) - 1))
