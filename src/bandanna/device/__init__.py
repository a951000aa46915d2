"""What runs with a user: domains, statistics, randomizers and the choice of an arm. Needs NumPy alone."""

from __future__ import annotations

from bandanna.device.base import Device, Messages
from bandanna.device.noise import NoiseSource, SecureNoise
from bandanna.device.randomizers import (
    Answer,
    Copies,
    Counts,
    Direction,
    Levels,
    Noisy,
    Plain,
    Rounded,
    Sign,
    from_parameters,
)

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
