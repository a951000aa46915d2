"""Rewards of arms that are played many times in a row: clipped to the declared range, counted, and summed in one draw
where the law of the sum is known exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bandanna.core.domain import Box
from bandanna.core.streams import Streams
from bandanna.environments.base import World
from bandanna.environments.levels import Levels
from bandanna.errors import InvalidArgument
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 20  # rewards drawn at once


class Pulls:
    """Plays fixed arms of S seeds, each at its own pace; regret and rewards go to the tally."""

    def __init__(self, world: World, domain: Box, tally: Tally, *, path: str) -> None:
        if not world.fixed:
            raise InvalidArgument("env", type(world.environment).__name__, "arms that stay the same in every round")
        means = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
        self.means, self.gaps = means, np.max(means, axis=1, keepdims=True) - means
        self.world, self.low, self.high, self.tally = world, domain.low, domain.high, tally
        self.clipped = np.zeros(len(means), dtype=np.int64)
        self.played = np.zeros(len(means), dtype=np.int64)  # rounds
        self._own: dict[int, World] = {}
        self._scale = _scale(world) if path == "law" else None

    def all(self, arms: NDArray[np.int64], rounds: Integers) -> Floats:
        """One arm of every seed, as many rounds as each has to play (0 is allowed): sums of clipped rewards (S,)."""
        seeds = np.arange(len(arms))
        self._regret(seeds, self.gaps[seeds, arms], rounds)
        if self._scale is None:
            return np.array([self._one_by_one(int(s), int(arms[s]), int(rounds[s])) for s in seeds])
        values, chances = self._scale
        chance = chances(self.means[seeds, arms])
        if len(values) == 2:
            ones = self.world.streams.binomial("reward sums", rounds, chance[:, 1])
            return self._sums(seeds, np.stack([rounds - ones, ones], axis=1), values)
        draws = zip(self.world.streams.generators("reward sums"), rounds, chance, strict=True)
        return self._sums(seeds, np.array([rng.multinomial(n, p) for rng, n, p in draws]), values)

    def one(self, seed: int, arm: int, rounds: int) -> float:
        """The same for a single seed (its place among the seeds)."""
        place = np.array([seed])
        self._regret(place, self.gaps[seed, [arm]], np.array([rounds]))
        if self._scale is None:
            return self._one_by_one(seed, arm, rounds)
        values, chances = self._scale
        rng = self.world.streams.generators("reward sums")[seed]
        chance = chances(self.means[seed, arm])
        counts = rng.multinomial(rounds, chance)
        return float(self._sums(place, counts[None], values)[0])

    def _sums(self, seeds: NDArray[np.int64], counts: Integers, values: Floats) -> Floats:
        """Sums of clipped rewards from how often each value occurred, (S', V)."""
        inside = np.clip(values, self.low, self.high)
        self.clipped[seeds] += counts @ (np.abs(values - inside) > 1e-9).astype(np.int64)
        self.tally.rewards[seeds] += counts @ values
        return np.asarray(counts @ inside)

    def _one_by_one(self, seed: int, arm: int, rounds: int) -> float:
        """Every single reward, from the seed's own streams."""
        if seed not in self._own:
            self._own[seed] = self.world.environment.begin(Streams([self.world.streams.seeds[seed]]))
        total = 0.0
        for begin in range(0, rounds, _BLOCK):
            rewards = self._own[seed].rewards(np.full((1, min(_BLOCK, rounds - begin)), self.means[seed, arm]))[0]
            inside = np.clip(rewards, self.low, self.high)
            self.clipped[seed] += np.count_nonzero(np.abs(rewards - inside) > 1e-9)
            self.tally.rewards[seed] += np.sum(rewards)
            total += float(np.sum(inside))
        return total

    def _regret(self, seeds: NDArray[np.int64], gaps: Floats, rounds: Integers) -> None:
        """Seeds are at different rounds: each adds to the checkpoints that lie in, or behind, its episode."""
        begun = self.played[seeds]
        passed = np.clip(self.tally.checkpoints - begun[:, None], 0, np.asarray(rounds)[:, None])  # (S', C)
        self.tally.regret[seeds] += gaps[:, None] * passed
        self.tally.total[seeds] += gaps * rounds
        self.played[seeds] += rounds
        self.tally.done = int(np.min(self.played))


def _scale(world: World) -> tuple[Floats, Callable[[Floats], Floats]] | None:
    """Values and their chances, where rewards are on a scale and the world draws them by its law."""
    law = world.environment.reward
    if type(world).rewards is not World.rewards:
        return None
    if isinstance(law, Levels):
        return law.values, law.chances
    if world.binary:
        return np.array([0.0, 1.0]), lambda means: np.stack([1 - means, means], axis=-1)
    return None
