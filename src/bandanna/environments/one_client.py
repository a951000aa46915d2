"""Standard linear bandits on a population: every round asks one client, who was never asked before (paper 001)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.environments.population import Population, PopulationWorld, clipped_normal
from bandanna.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class OneClientPerRound(Environment):
    """The population as a contextual policy sees it: one fresh client a round, rewards mapped from [-B, B] to [0, 1].

    Features are (x, 1)/sqrt 2, one more than the population's: the mean (1 + <theta*, x>/B)/2 is linear in them.
    Regret is that of the population divided by 2 B.
    """

    dim: int = 0
    n_arms: int = 0
    population: Population

    def __post_init__(self) -> None:
        require.instance("population", self.population, Population, "a Population")
        object.__setattr__(self, "dim", self.population.dim + 1)
        object.__setattr__(self, "n_arms", self.population.n_arms)
        super().__post_init__()

    def lasting(self, rounds: int) -> int:
        """At most as many as there are users."""
        size = self.population.size
        if size is not None and size < rounds:
            allowed = f"at least {rounds} users: every round asks a client who was never asked"
            raise InvalidArgument("population.size", size, allowed)
        return rounds

    def begin(self, streams: Streams) -> OneClientWorld:
        """The population's worlds."""
        return OneClientWorld(environment=self, streams=streams, worlds=self.population.begin(streams))


class OneClientWorld(World):
    """Worlds of `OneClientPerRound`."""

    def __init__(self, *, environment: OneClientPerRound, streams: Streams, worlds: PopulationWorld) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        population, self.arms = environment.population, worlds.arms
        spread = population.sigma * np.linalg.norm(self.arms, axis=-1)
        lower, upper, inside = clipped_normal(worlds.global_means(), spread, population.bound)
        local = population.bound * (upper - lower) + (1 - lower - upper) * inside  # a fresh client's mean reward
        self.table = np.clip((1 + local / population.bound) / 2, 0.0, 1.0)  # (S, K)

    def contexts(self, start: int, rounds: int) -> Floats:
        """(x, 1)/sqrt 2."""
        ones = np.ones((*self.arms.shape[:-1], 1))
        return np.asarray(np.concatenate([self.arms, ones], axis=-1)[:, None] / np.sqrt(2))

    def means(self, contexts: Floats) -> Floats:
        """Of a fresh client's reward."""
        return self.table[:, None]
