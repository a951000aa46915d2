"""The player of LinUCB that learns in every round, by one compiled kernel.

Noise, rewards and coins are drawn first, so noise must not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from bandanna.device.domain import check_all_finite, clip_norm
from bandanna.device.noise import NoiseSource
from bandanna.numeric.compiled import OUTSIDE, SMALL, find_kernel
from bandanna.numeric.rng import TIES
from bandanna.protocols.clear import Clear
from bandanna.protocols.gaussian import CentralGaussian, GaussianReports
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.simulation.environments.base import Bernoulli, World, read_block
from bandanna.simulation.result import Tally
from bandanna.types import Floats, Ints

# Noise of running sums


_BATCHES = 64  # whose noise is drawn at once


def running_noise(
    channel: RunningSumProtocol, source: NoiseSource, replicates: tuple[int, ...]
) -> Iterator[Floats | float] | None:
    """Yield the noise of the running sum after 1, 2, ... batches, (*R, dim); None if it depends on the data.

    Released sums are exact sums plus this noise, in the law of the protocol's own path with a fast source. Binomial
    noise depends on the data through its rounding.
    """
    if all(isinstance(protocol, Clear) for protocol in channel.protocols.values()) and channel.continual is None:
        return repeat(0.0, len(channel.sizes))
    blocks = noise_blocks(channel, source, replicates)
    return None if blocks is None else (each for block in blocks for each in np.moveaxis(block, -2, 0))


def noise_blocks(
    channel: RunningSumProtocol, source: NoiseSource, replicates: tuple[int, ...]
) -> Iterator[Floats] | None:
    """Yield the noise of `running_noise` in blocks, (*R, batches, dim)."""
    if channel.continual is not None:
        return channel.continual.mechanism.noise_blocks(source, replicates)
    protocols = channel.protocols.values()
    if all(isinstance(protocol, Clear) for protocol in protocols):
        return iter(())
    if all(isinstance(protocol, GaussianReports | CentralGaussian) for protocol in protocols):
        return _sums_of_gaussians(channel, source, replicates)
    return None


def _sums_of_gaussians(
    channel: RunningSumProtocol, source: NoiseSource, replicates: tuple[int, ...]
) -> Iterator[Floats]:
    """Yield sums of noise: n users add N(0, n std^2) a batch, a server N(0, std^2)."""
    dim = next(iter(channel.protocols.values())).domain.dim
    last, sizes = np.zeros((*replicates, dim)), iter(channel.sizes)
    stds = {
        size: protocol.std(size)
        for size, protocol in channel.protocols.items()
        if isinstance(protocol, GaussianReports | CentralGaussian)
    }
    while block := list(islice(sizes, _BATCHES)):
        noise = source.gaussian(np.broadcast_to(0.0, (*replicates, len(block), dim)), std=1.0, grid=0.0)
        noise *= np.array([stds[size] for size in block])[:, None]
        noise[..., 0, :] += last
        last = np.cumsum(noise, axis=-2, out=noise)[..., -1, :]
        yield noise


class PredrawnNoise:
    """The noise of `running_noise` for `seeds` runs, drawn many batches at a time for kernels."""

    def __init__(self, blocks: Iterator[Floats], seeds: int, dim: int) -> None:
        self.blocks, self.shape, self.next = blocks, (seeds, dim), next(blocks, None)

    @classmethod
    def of(cls, channel: RunningSumProtocol, source: NoiseSource, seeds: int, dim: int) -> PredrawnNoise | None:
        """Start at the first batch; None where noise depends on the data."""
        blocks = noise_blocks(channel, source, (seeds,))
        return None if blocks is None else cls(blocks, seeds, dim)

    def take(self, count: int) -> Floats:
        """Return the noise of the next batches, (S, count, dim); empty without noise."""
        if self.next is None:
            return np.empty((0, 0, 0))
        (seeds, dim), done = self.shape, 0
        noise = np.empty((seeds, count, dim))
        while done < count:
            self.next = self.next if self.next.shape[1] else next(self.blocks)
            some = self.next[:, : count - done]
            noise[:, done : done + some.shape[1]] = some
            self.next, done = self.next[:, some.shape[1] :], done + some.shape[1]
        return noise


# The kernel's run


_ROUNDS = 4096  # whose numbers are drawn at once
_BYTES = 16 << 20  # of noise, or of fresh contexts, at once


def kernel_for(policy: Any, world: World, rounds: int) -> Callable[..., int] | None:
    """Return the kernel that plays this policy in this world; None where NumPy plays it."""
    drawn = isinstance(world.environment.reward, Bernoulli) and type(world).rewards is World.rewards
    sizes = policy._channel.sizes
    single = len(sizes.runs) == 1 and sizes.runs[0][0] == 1 and len(sizes) >= rounds
    if not (drawn and single and policy.dim <= SMALL) or policy._optimism_tables(0, 1) is None:
        return None
    return find_kernel("optimist", rounds=rounds)


class UCBKernelRun:
    """One phase of a policy, all seeds from an empty state."""

    def __init__(
        self, kernel: Callable[..., int], policy: Any, world: World, noise: PredrawnNoise, tally: Tally
    ) -> None:
        self.kernel, self.policy, self.world, self.noise, self.tally = kernel, policy, world, noise, tally
        seeds, dim = tally.n_seeds, policy._domain.dim
        self.repairs, self.clipped = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)
        self.total, self.released = np.zeros((seeds, dim)), np.zeros((seeds, dim))
        self.centred = policy._centre_rewards(np.array([0.0, 1.0]))[0]
        self.theta, self.inverse = np.empty(policy.dim), np.empty((policy.dim, policy.dim))
        self.fixed = _to_contiguous(*read_block(world, 0, 1)) if world.fixed else None

    def run(self, rounds: int) -> tuple[int, Ints, Ints]:
        """Return releases, repairs (S,) and clipped reports (S,) of `rounds` rounds."""
        seeds, dim = self.total.shape
        most = min(_ROUNDS, max(1, _BYTES // (8 * seeds * dim)))
        for first in range(0, rounds, most):
            self._span(first, min(most, rounds - first))
        return rounds, self.repairs, self.clipped

    def _span(self, first: int, count: int) -> None:
        seeds, streams, reward = self.tally.n_seeds, self.world.streams, self.world.environment.reward
        ahead = self.policy._optimism_tables(first, count)
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
            self.centred,
            ahead.by_coins,
        )
        filled = self.theta, self.inverse, used, actions, rewards, losses
        for begin, end in self._blocks(count):
            arms = self.fixed or _to_contiguous(*read_block(self.world, first + begin, end - begin))
            self._block(begin, end, arms, given, filled, first)
        streams.take_uniform(TIES, used)
        self.tally.add_losses(losses)
        self.tally.add_arms(actions)
        self.tally.rewards += rewards.sum(axis=1)

    def _blocks(self, count: int) -> Iterator[tuple[int, int]]:
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
        (seen, means), place = arms, np.array([0, begin, 0])
        while event := self.kernel(begin, end, seen, means, *given, place, *filled):
            if event == OUTSIDE:
                check_all_finite("contexts", seen)
                seen = clip_norm(seen, 1.0)
            else:
                self._repair(int(place[0]), first + int(place[1]))
                place[2] = 1
        if seen is not arms[0]:  # reports that were clipped are counted
            chosen = filled[3][:, begin:end, None, None]
            features = np.take_along_axis(
                np.broadcast_to(arms[0], (*chosen.shape[:2], *seen.shape[2:])), chosen, axis=2
            )
            self.clipped += np.count_nonzero(self.policy._domain.inside(features[:, :, 0])[1], axis=1)

    def _repair(self, seed: int, batches: int) -> None:
        snapshot, repaired = self.policy._estimate(self.released[seed : seed + 1], batches)
        self.theta[:], self.inverse[:] = snapshot.theta[0], snapshot.inverse[0]
        self.repairs[seed] += repaired[0]


def _to_contiguous(contexts: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Return contiguous writable arrays, so that the kernel is compiled once."""
    return np.require(contexts, requirements=["C", "W"]), np.require(means, requirements=["C", "W"])
