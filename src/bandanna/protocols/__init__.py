"""Protocols: randomizer, mixer and analyzer, calibrated for a budget."""

from __future__ import annotations

from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

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
