"""Finite arms: K arms that never change, each with its own mean reward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.arrays import Floats
from bandanna.core.domain import reals
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.environments.levels import Levels
from bandanna.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class FiniteArms(Environment):
    """K arms with given `means` (K,), the same for every seed; only the rewards are random.

    The features of arm a are the unit vector e_a, so `dim` = K and linear policies can play too. `reward` is the law of
    the rewards: `Bernoulli()` or `Bounded(...)`, with means in [0, 1], or `TwoPoint(...)`, `ClippedGaussian(...)` with
    means in their own range.

    >>> FiniteArms(means=(0.75, 0.5))
    FiniteArms(dim=2, n_arms=2, reward=Bernoulli(), means=(0.75, 0.5))
    """

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    means: ArrayLike

    def __post_init__(self) -> None:
        means = reals("means", self.means, "a list of numbers, one per arm")
        if means.ndim != 1 or not len(means):
            raise InvalidArgument("means: shape", means.shape, "(K,), K at least 1")
        low, high = (self.reward.low, self.reward.high) if isinstance(self.reward, Levels) else (0.0, 1.0)
        for arm, mean in enumerate(means):
            if not low <= mean <= high:
                raise InvalidArgument(f"means[{arm}]", float(mean), f"a mean reward in [{low:g}, {high:g}]")
        derived: dict[str, Any] = {"means": tuple(means.tolist()), "dim": len(means), "n_arms": len(means)}
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    def begin(self, streams: Streams) -> FiniteWorld:
        """Nothing is drawn."""
        return FiniteWorld(environment=self, streams=streams)


class FiniteWorld(World):
    """Worlds of `FiniteArms`."""

    def __init__(self, *, environment: FiniteArms, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        self.table: Floats = np.asarray(environment.means, dtype=float)  # (K,)

    def contexts(self, start: int, rounds: int) -> Floats:
        """Unit vectors."""
        return np.broadcast_to(np.eye(self.n_arms), (len(self.streams.seeds), 1, self.n_arms, self.n_arms))

    def means(self, contexts: Floats) -> Floats:
        """The given ones."""
        return np.broadcast_to(self.table, (len(self.streams.seeds), 1, self.n_arms))
