"""Where noise comes from: a seeded generator for simulation, the operating system for people."""

from __future__ import annotations

from bandanna.device.noise import LARGEST, NoiseSource, Size
from bandanna.device.secure import SecureNoise
from bandanna.mechanisms.sources.cost import Draws
from bandanna.mechanisms.sources.distance import gaussian_grid_distance, laplace_grid_distance
from bandanna.mechanisms.sources.fast import FastNoise

__all__ = [
    "LARGEST",
    "Draws",
    "FastNoise",
    "NoiseSource",
    "SecureNoise",
    "Size",
    "gaussian_grid_distance",
    "laplace_grid_distance",
]
