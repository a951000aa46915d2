"""Rewards of arms that are played many times in a row: clipped to the declared range, counted, and summed in one draw
where the law of the sum is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
            each = (self._blocks(int(s), int(arms[s]), int(rounds[s])) for s in seeds)
            return np.array([float(sum(np.sum(block) for block in blocks)) for blocks in each])
        values, chances = self._scale
        chance = chances(self.means[seeds, arms])
        if len(values) == 2:
            ones = self.world.streams.binomial("reward sums", rounds, chance[:, 1])
            return self._sums(seeds, np.stack([rounds - ones, ones], axis=1), values)
        draws = zip(self.world.streams.generators("reward sums"), rounds, chance, strict=True)
        return self._sums(seeds, np.array([rng.multinomial(n, p) for rng, n, p in draws]), values)

    def one(self, seed: int, arm: int, rounds: int) -> float:
        """The same for a single seed (its place among the seeds)."""
        self._regret(np.array([seed]), self.gaps[seed, [arm]], np.array([rounds]))
        return self.sum(seed, arm, rounds)

    def turns(self, seed: int, arms: NDArray[np.int64], rounds: int) -> Integers:
        """Arms in turn, so many rounds in all: notes the regret, and says how often each arm is played, (k,)."""
        k, late = len(arms), np.arange(len(arms))[:, None]
        passed = np.clip(self.tally.checkpoints - self.played[seed], 0, rounds)
        self.tally.regret[seed] += self.gaps[seed, arms] @ ((passed + k - 1 - late) // k)
        played = (rounds + k - 1 - late[:, 0]) // k
        self.tally.total[seed] += self.gaps[seed, arms] @ played
        self.played[seed] += rounds
        return np.asarray(played)

    def sum(self, seed: int, arm: int, rounds: int) -> float:
        """Sum of clipped rewards of one arm of one seed; its regret is noted elsewhere."""
        if self._scale is None:
            return float(sum(np.sum(block) for block in self._blocks(seed, arm, rounds)))
        return float(self._sums(np.array([seed]), self._counts(seed, arm, rounds)[None], self._values)[0])

    def ones(self, seed: int, arm: int, rounds: int) -> int:
        """The same if every clipped reward is rounded at random to an end of the range, without bias: how many ones."""
        if self._scale is None:
            return int(np.count_nonzero(self.bits(seed, arm, rounds)))
        counts = self._counts(seed, arm, rounds)
        self._sums(np.array([seed]), counts[None], self._values)
        share = (np.clip(self._values, self.low, self.high) - self.low) / (self.high - self.low)
        return int(np.sum(self.world.streams.generators("rounded rewards")[seed].binomial(counts, share)))

    def bits(self, seed: int, arm: int, rounds: int) -> NDArray[np.bool_]:
        """The bits themselves, (rounds,)."""
        rng = self.world.streams.generators("rounded rewards")[seed]
        blocks = self._blocks(seed, arm, rounds)
        rounded = [rng.random(len(block)) < (block - self.low) / (self.high - self.low) for block in blocks]
        return np.concatenate([np.zeros(0, dtype=bool), *rounded])

    def _counts(self, seed: int, arm: int, rounds: int) -> Integers:
        """How often each value of the scale occurs."""
        assert self._scale is not None
        chance = self._scale[1](self.means[seed, arm])
        return np.asarray(self.world.streams.generators("reward sums")[seed].multinomial(rounds, chance))

    @property
    def _values(self) -> Floats:
        assert self._scale is not None
        return self._scale[0]

    def _sums(self, seeds: NDArray[np.int64], counts: Integers, values: Floats) -> Floats:
        """Sums of clipped rewards from how often each value occurred, (S', V)."""
        inside = np.clip(values, self.low, self.high)
        self.clipped[seeds] += counts @ (np.abs(values - inside) > 1e-9).astype(np.int64)
        self.tally.rewards[seeds] += counts @ values
        return np.asarray(counts @ inside)

    def _blocks(self, seed: int, arm: int, rounds: int) -> Iterator[Floats]:
        """Every single reward, clipped, from the seed's own streams."""
        if seed not in self._own:
            self._own[seed] = self.world.environment.begin(Streams([self.world.streams.seeds[seed]]))
        for begin in range(0, rounds, _BLOCK):
            rewards = self._own[seed].rewards(np.full((1, min(_BLOCK, rounds - begin)), self.means[seed, arm]))[0]
            inside = np.clip(rewards, self.low, self.high)
            self.clipped[seed] += np.count_nonzero(np.abs(rewards - inside) > 1e-9)
            self.tally.rewards[seed] += np.sum(rewards)
            yield inside

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
