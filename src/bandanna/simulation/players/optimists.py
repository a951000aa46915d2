"""Plays optimistic policies on sums of single rounds by a compiled kernel: draws ahead, rounds inside, tallies after.

For noise that does not depend on the data: then releases are exact sums plus noise, with fixed arms or fresh ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import TIES
from bandanna.core.domain import all_finite, clip_norm
from bandanna.environments.base import World, read
from bandanna.environments.rewards import Bernoulli
from bandanna.kernels import SMALL, compiled
from bandanna.kernels.optimism import OUTSIDE
from bandanna.simulation.players.noise import Ahead
from bandanna.simulation.tally import Tally

_ROUNDS = 4096  # whose numbers are drawn at once
_BYTES = 16 << 20  # of noise, or of fresh contexts, at once


def kernel_for(policy: Any, world: World, rounds: int) -> Callable[..., int] | None:
    """The kernel that plays so many rounds of this policy in this world; None where NumPy does."""
    drawn = isinstance(world.environment.reward, Bernoulli) and type(world).rewards is World.rewards
    sizes = policy.channel.sizes
    single = len(sizes.runs) == 1 and sizes.runs[0][0] == 1 and len(sizes) >= rounds
    if not (drawn and single and policy.dim <= SMALL) or policy.optimism(0, 1) is None:
        return None
    return compiled("optimist", rounds=rounds)


class Optimists:
    """One phase of a policy, all seeds from nothing."""

    def __init__(self, kernel: Callable[..., int], policy: Any, world: World, noise: Ahead, tally: Tally) -> None:
        self.kernel, self.policy, self.world, self.noise, self.tally = kernel, policy, world, noise, tally
        seeds, dim = tally.n_seeds, policy.domain.dim
        self.repairs, self.clipped = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)
        self.total, self.released = np.zeros((seeds, dim)), np.zeros((seeds, dim))
        self.told = policy.centred(np.array([0.0, 1.0]))[0]
        self.theta, self.inverse = np.empty(policy.dim), np.empty((policy.dim, policy.dim))
        self.fixed = _contiguous(*read(world, 0, 1)) if world.fixed else None

    def run(self, rounds: int) -> tuple[int, Ints, Ints]:
        """Play them: releases made, repairs (S,), clipped reports (S,)."""
        seeds, dim = self.total.shape
        most = min(_ROUNDS, max(1, _BYTES // (8 * seeds * dim)))
        for first in range(0, rounds, most):
            self._span(first, min(most, rounds - first))
        return rounds, self.repairs, self.clipped

    def _span(self, first: int, count: int) -> None:
        """Rounds whose noise, rewards and coins are drawn together."""
        seeds, streams, reward = self.tally.n_seeds, self.world.streams, self.world.environment.reward
        ahead = self.policy.optimism(first, count)
        assert isinstance(reward, Bernoulli)
        coins, noise = streams.next_uniform(TIES, count), self.noise.take(count)
        used, actions = np.zeros(seeds, dtype=np.int64), np.empty((seeds, count), dtype=np.int64)
        rewards, losses = np.empty((2, seeds, count))
        tables = ahead.scale, *(np.ascontiguousarray(each) for each in (ahead.floors, ahead.weights, ahead.radii))
        given = (
            np.ascontiguousarray(reward.numbers((count,), streams)),
            coins,
            noise,
            self.total,
            self.released,
            *tables,
            self.told,
            ahead.by_coins,
        )
        filled = self.theta, self.inverse, used, actions, rewards, losses
        for begin, end in self._blocks(count):
            arms = self.fixed or _contiguous(*read(self.world, first + begin, end - begin))
            self._block(begin, end, arms, given, filled, first)
        streams.take_uniform(TIES, used)
        self.tally.varying(losses)
        self.tally.chose(actions)
        self.tally.rewards += rewards.sum(axis=1)

    def _blocks(self, count: int) -> Iterator[tuple[int, int]]:
        """Rounds whose contexts are held at once."""
        size = 8 * self.tally.n_seeds * self.world.n_arms * self.policy.dim
        most = count if self.world.fixed else max(1, _BYTES // size)
        for begin in range(0, count, most):
            yield begin, min(begin + most, count)

    def _block(
        self,
        begin: int,
        end: int,
        arms: tuple[Floats, Floats],
        given: tuple[Any, ...],
        filled: tuple[Any, ...],
        first: int,
    ) -> None:
        """Until the kernel is done; what it cannot do is done here."""
        (seen, means), place = arms, np.array([0, begin, 0])
        while event := self.kernel(begin, end, seen, means, *given, place, *filled):
            if event == OUTSIDE:
                all_finite("contexts", seen)
                seen = clip_norm(seen, 1.0)
            else:
                self._repair(int(place[0]), first + int(place[1]))
                place[2] = 1
        if seen is not arms[0]:  # reports that were clipped are counted
            chosen = filled[3][:, begin:end, None, None]
            features = np.take_along_axis(
                np.broadcast_to(arms[0], (*chosen.shape[:2], *seen.shape[2:])), chosen, axis=2
            )
            self.clipped += np.count_nonzero(self.policy.domain.inside(features[:, :, 0])[1], axis=1)

    def _repair(self, seed: int, batches: int) -> None:
        """The estimate of a seed whose matrix noise made indefinite."""
        snapshot, repaired = self.policy.estimate(self.released[seed : seed + 1], batches)
        self.theta[:], self.inverse[:] = snapshot.theta[0], snapshot.inverse[0]
        self.repairs[seed] += repaired[0]


def _contiguous(contexts: Floats, means: Floats) -> tuple[Floats, Floats]:
    """As kernels take them: compiled once, for arrays in order that can be written."""
    return np.require(contexts, requirements=["C", "W"]), np.require(means, requirements=["C", "W"])
