"""The noise of a channel's running sums where it does not depend on the data: drawn by itself, batch after batch.

Released sums are then exact sums plus this noise, in the very law of the channel's own path (with a fast source,
which ignores grids). Binomial noise is not of this kind: its rounding looks at the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.channel import Channel
from bandanna.protocols.clear import Clear
from bandanna.protocols.local_gaussian import GaussianReports

_BATCHES = 64  # whose noise is drawn at once


def running_noise(
    channel: Channel, source: NoiseSource, replicates: tuple[int, ...]
) -> Iterator[Floats | float] | None:
    """Noise of the running sum after 1, 2, ... batches, each (*R, dim); None if it depends on the data."""
    if all(isinstance(protocol, Clear) for protocol in channel.protocols.values()) and channel.continual is None:
        return repeat(0.0, len(channel.sizes))
    blocks = noise_blocks(channel, source, replicates)
    return None if blocks is None else (each for block in blocks for each in np.moveaxis(block, -2, 0))


def noise_blocks(channel: Channel, source: NoiseSource, replicates: tuple[int, ...]) -> Iterator[Floats] | None:
    """The same, some batches at a time, (*R, batches, dim); nothing at all where there is no noise."""
    if channel.continual is not None:
        return channel.continual.mechanism.noise_blocks(source, replicates)
    protocols = channel.protocols.values()
    if all(isinstance(protocol, Clear) for protocol in protocols):
        return iter(())
    if all(isinstance(protocol, GaussianReports | CentralGaussian) for protocol in protocols):
        return _sums_of_gaussians(channel, source, replicates)
    return None


def _sums_of_gaussians(channel: Channel, source: NoiseSource, replicates: tuple[int, ...]) -> Iterator[Floats]:
    """Every batch adds noise of its own: n users N(0, n std^2), a server N(0, std^2)."""
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


class Ahead:
    """The same noise of `seeds` runs with `dim` numbers a batch, so many batches at a time: for kernels."""

    def __init__(self, blocks: Iterator[Floats], seeds: int, dim: int) -> None:
        self.blocks, self.shape, self.next = blocks, (seeds, dim), next(blocks, None)

    @classmethod
    def of(cls, channel: Channel, source: NoiseSource, seeds: int, dim: int) -> Ahead | None:
        """From the first batch on; None where noise depends on the data."""
        blocks = noise_blocks(channel, source, (seeds,))
        return None if blocks is None else cls(blocks, seeds, dim)

    def take(self, count: int) -> Floats:
        """The noise of the next batches, (S, count, dim), or empty where there is none."""
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
