"""Laws of rewards in [0, 1] with a given mean."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bandanna.core.streams import Streams

Floats = NDArray[np.float64]


class RewardLaw(Protocol):
    """How a reward is drawn around its mean."""

    binary: bool

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """One reward per mean: (S, ...) -> (S, ...)."""
        ...


class Bernoulli:
    """1 with probability `mean`, else 0: standard deviation at most 1/2."""

    binary = True

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """A uniform number below the mean."""
        return np.asarray(streams.uniform("rewards", means.shape[1:]) < means, dtype=float)


class Bounded:
    """mean + width U, U uniform on [-1, 1], the width shrunk where the reward would leave [0, 1]."""

    binary = False

    def __init__(self, width: float = 0.25) -> None:
        self.width = width

    def draw(self, means: Floats, streams: Streams) -> Floats:
        """Uniform noise around the mean."""
        room = np.minimum(self.width, np.minimum(means, 1 - means))
        return np.asarray(means + room * (2 * streams.uniform("rewards", means.shape[1:]) - 1))
