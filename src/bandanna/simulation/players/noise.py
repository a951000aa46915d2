"""The noise of a channel's running sums where it does not depend on the data: drawn by itself, batch after batch.

Released sums are then exact sums plus this noise, in the very law of the channel's own path (with a fast source,
which ignores grids). Binomial noise is not of this kind: its rounding looks at the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.channel import Channel
from bandanna.protocols.clear import Clear
from bandanna.protocols.local_gaussian import GaussianReports


def running_noise(
    channel: Channel, source: NoiseSource, replicates: tuple[int, ...]
) -> Iterator[Floats | float] | None:
    """Noise of the running sum after 1, 2, ... batches, each (*R, dim); None if it depends on the data."""
    if channel.continual is not None:
        return channel.continual.mechanism.prefix_noise(source, replicates)
    protocols = channel.protocols.values()
    if all(isinstance(protocol, Clear) for protocol in protocols):
        return repeat(0.0, len(channel.sizes))
    if all(isinstance(protocol, GaussianReports | CentralGaussian) for protocol in protocols):
        return _sums_of_gaussians(channel, source, replicates)
    return None


def _sums_of_gaussians(channel: Channel, source: NoiseSource, replicates: tuple[int, ...]) -> Iterator[Floats]:
    """Every batch adds noise of its own: n users N(0, n std^2), a server N(0, std^2)."""
    dim = next(iter(channel.protocols.values())).domain.dim
    noise = np.zeros((*replicates, dim))
    stds = {
        size: protocol.std(size)
        for size, protocol in channel.protocols.items()
        if isinstance(protocol, GaussianReports | CentralGaussian)
    }
    for size in channel.sizes:
        noise = source.gaussian(noise, std=stds[size], grid=0.0)
        yield noise
