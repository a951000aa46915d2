"""The noise of a channel's running sums where it does not depend on the data: drawn by itself, batch after batch.

Released sums are then exact sums plus this noise, in the very law of the channel's own path (with a fast source,
which ignores grids). Binomial noise is not of this kind: its rounding looks at the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat

import numpy as np

from bandanna.accounting.factorisation import BLT
from bandanna.core.arrays import Floats
from bandanna.mechanisms.continual.blt import modes
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Decaying:
    """Noise after step t as sum_i a_i s_i, s_i <- r_i s_i + z_t, z_t ~ N(0, std^2): for a kernel that draws z."""

    std: float
    decays: Floats  # r, (m,)
    shares: Floats  # a, (m,)

    @classmethod
    def of(cls, channel: Channel) -> Decaying | None:
        """In the law of `noise_blocks`, from the same z; None where that is another noise, or none."""
        if channel.continual is not None:
            mechanism = channel.continual.mechanism
            if not isinstance(mechanism.factorisation, BLT):
                return None
            shares, decays = modes(mechanism.factorisation)
            return cls(std=mechanism.std, decays=decays, shares=shares)
        stds = {
            protocol.std(size) if isinstance(protocol, GaussianReports | CentralGaussian) else None
            for size, protocol in channel.protocols.items()
        }
        std = stds.pop()
        return None if stds or std is None else cls(std=std, decays=np.ones(1), shares=np.ones(1))
