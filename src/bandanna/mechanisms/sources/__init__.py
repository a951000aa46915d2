"""Where noise comes from: a seeded generator for simulation, the operating system for people."""

from __future__ import annotations

from bandanna.mechanisms.sources.base import LARGEST, NoiseSource, Size
from bandanna.mechanisms.sources.cost import Draws
from bandanna.mechanisms.sources.distance import gaussian_grid_distance, laplace_grid_distance
from bandanna.mechanisms.sources.fast import FastNoise
from bandanna.mechanisms.sources.secure import SecureNoise

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
