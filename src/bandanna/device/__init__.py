"""What runs with a user: domains, statistics, randomizers and the choice of an arm. Needs NumPy alone."""

from __future__ import annotations

from bandanna.device.base import Device, Messages
from bandanna.device.noise import NoiseSource, SecureNoise
from bandanna.device.randomizers import (
    BinomialCounts,
    CapRandomizer,
    LevelRandomizers,
    NoisyVector,
    PlainVector,
    RandomizedBit,
    RandomizedSign,
    RepeatedBits,
    RoundedCounts,
    device_from_parameters,
)

__all__ = [
    "RandomizedBit",
    "RepeatedBits",
    "BinomialCounts",
    "Device",
    "CapRandomizer",
    "LevelRandomizers",
    "Messages",
    "NoiseSource",
    "NoisyVector",
    "PlainVector",
    "RoundedCounts",
    "SecureNoise",
    "RandomizedSign",
    "device_from_parameters",
]
