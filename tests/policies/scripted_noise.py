"""A noise source that is told what to release, and remembers of which exact values: then densities can be computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.device.noise import FastNoise


class Scripted(FastNoise):
    """Releases the given outputs in turn (the exact values where there are none left)."""

    def __init__(self, outputs: Iterable[Any] = ()) -> None:
        super().__init__(np.random.default_rng(0))
        self.outputs, self.log_density, self.releases = iter(outputs), 0.0, list[tuple[NDArray[np.float64], float]]()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """The next output, in the shape of the value."""
        exact = np.asarray(value, dtype=float)
        shown = np.asarray(next(self.outputs, exact), dtype=float).reshape(exact.shape)
        self.releases.append((exact, std))
        self.log_density = self.log_density - np.sum((shown - exact) ** 2, axis=-1) / (2 * std**2)
        return shown

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """The same for Laplace noise."""
        exact = np.asarray(value, dtype=float)
        shown = np.asarray(next(self.outputs, exact), dtype=float).reshape(exact.shape)
        self.releases.append((exact, scale))
        self.log_density = self.log_density - np.sum(np.abs(shown - exact), axis=-1) / scale
        return shown


class Told(FastNoise):
    """Adds the noise that it is told in turn (none where there is none left), and remembers how wide it should be."""

    def __init__(self, noise: Iterable[float] = ()) -> None:
        super().__init__(np.random.default_rng(0))
        self.noise, self.asked = iter(noise), list[float]()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """The value and what is told."""
        self.asked.append(std)
        return np.asarray(value, dtype=float) + next(self.noise, 0.0)

    def discrete_laplace(self, *, scale: float, size: Any) -> NDArray[np.int64]:
        """What is told, in lattice steps."""
        self.asked.append(scale)
        return np.full(size, round(next(self.noise, 0.0)), dtype=np.int64)
