"""Protocols that sum users' statistics privately: a randomizer on the device, a mixer and an analyzer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "base": "BatchProtocol Protocol StreamProtocol",
    "clear": "Clear",
    "concurrent_shuffle": "ConcurrentShuffle",
    "continual": "CentralContinual",
    "factory": "protocol_for",
    "gaussian": "CentralGaussian LocalGaussian ShuffleGaussian",
    "laplace": "CentralLaplace",
    "privacy_model": "Privacy",
    "randomized_response": "LocalBits",
    "shuffle_binomial": "ShuffleBinomial",
    "shuffle_bits": "ShuffleBits",
    "spherical_cap": "LocalUnit",
}

if TYPE_CHECKING:
    from bandanna.protocols.base import BatchProtocol as BatchProtocol
    from bandanna.protocols.base import Protocol as Protocol
    from bandanna.protocols.base import StreamProtocol as StreamProtocol
    from bandanna.protocols.clear import Clear as Clear
    from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle as ConcurrentShuffle
    from bandanna.protocols.continual import CentralContinual as CentralContinual
    from bandanna.protocols.factory import protocol_for as protocol_for
    from bandanna.protocols.gaussian import CentralGaussian as CentralGaussian
    from bandanna.protocols.gaussian import LocalGaussian as LocalGaussian
    from bandanna.protocols.gaussian import ShuffleGaussian as ShuffleGaussian
    from bandanna.protocols.laplace import CentralLaplace as CentralLaplace
    from bandanna.protocols.privacy_model import Privacy as Privacy
    from bandanna.protocols.randomized_response import LocalBits as LocalBits
    from bandanna.protocols.shuffle_binomial import ShuffleBinomial as ShuffleBinomial
    from bandanna.protocols.shuffle_bits import ShuffleBits as ShuffleBits
    from bandanna.protocols.spherical_cap import LocalUnit as LocalUnit
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {})
