"""From the statistics of a batch of users to a private sum: one folder per protocol."""

from __future__ import annotations

from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.central_laplace import CentralLaplace
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.local_gaussian import LocalGaussian
from bandanna.protocols.local_unit import LocalUnit
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian

__all__ = [
    "BatchProtocol",
    "CentralContinual",
    "CentralGaussian",
    "CentralLaplace",
    "Clear",
    "ConcurrentShuffle",
    "LocalBits",
    "LocalGaussian",
    "LocalUnit",
    "Protocol",
    "ShuffleBinomial",
    "ShuffleBits",
    "ShuffleGaussian",
    "StreamProtocol",
]
