"""What runs with a user: clip, pack, encode, draw noise and coins, choose arms. NumPy and nothing else.

A device is built from public parameters (`from_parameters`) and needs no accountant, no shuffler and no analyzer.
"""

from __future__ import annotations

from bandanna.device.base import Device, Messages
from bandanna.device.caps import Direction
from bandanna.device.counts import Answer, Copies, Counts, Rounded, Sign
from bandanna.device.levels import Levels
from bandanna.device.noise import NoiseSource
from bandanna.device.parameters import from_parameters
from bandanna.device.reports import Noisy, Plain
from bandanna.device.secure import SecureNoise

__all__ = [
    "Answer",
    "Copies",
    "Counts",
    "Device",
    "Direction",
    "Levels",
    "Messages",
    "NoiseSource",
    "Noisy",
    "Plain",
    "Rounded",
    "SecureNoise",
    "Sign",
    "from_parameters",
]
