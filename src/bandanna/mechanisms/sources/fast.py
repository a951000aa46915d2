"""Noise from a NumPy generator: quick, reproducible, and for simulation only."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.device.noise import NoiseSource, Size, finite, parameter, shape
from bandanna.errors import InvalidArgument


class FastNoise(NoiseSource):
    """Noise for simulation, from the generator that is handed in.

    Real-valued noise is continuous and ignores the grid: its law is within `gaussian_grid_distance` or
    `laplace_grid_distance` of the secure source's. Integer noise has the secure source's law exactly, up to the
    resolution of double-precision uniforms.
    """

    secure = False

    def __init__(self, rng: np.random.Generator) -> None:
        if not isinstance(rng, np.random.Generator):
            raise InvalidArgument(
                "rng",
                rng,
                "a numpy.random.Generator, such as numpy.random.default_rng(seed): the randomness is an argument",
            )
        self._rng = rng

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """value + N(0, std^2); the grid is checked and otherwise ignored."""
        require.positive("std", std)
        require.non_negative("grid", grid)
        exact = finite(value)
        drawn = np.asarray(self._rng.normal(0.0, std, exact.shape))
        drawn += exact
        return drawn

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """value + Laplace(scale); the grid is checked and otherwise ignored."""
        require.positive("scale", scale)
        require.non_negative("grid", grid)
        exact = finite(value)
        return np.asarray(exact + self._rng.laplace(0.0, scale, exact.shape))

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Rejection from discrete Laplace(t), t = floor(std) + 1 (Canonne, Kamath and Steinke 2020, Algorithm 3).

        y is kept with probability exp(-(|y| - std^2 / t)^2 / (2 std^2)), which is at least 0.46 on average.
        """
        std, wanted = parameter("std", std), shape(size)
        t = math.floor(std) + 1.0
        kept = np.empty(0, dtype=np.int64)
        while kept.size < math.prod(wanted):
            y = self._two_sided_geometric(t, (2 * (math.prod(wanted) - kept.size) + 16,))
            with np.errstate(over="ignore"):
                accept = np.exp(-((np.abs(y) / std - std / t) ** 2) / 2)  # CKS 2020, Algorithm 3
            kept = np.concatenate([kept, y[self.uniform(y.size) < accept]])
        return kept[: math.prod(wanted)].reshape(wanted)

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """G - G' with G and G' geometric: P(G = k) proportional to exp(-k / scale), k >= 0."""
        return self._two_sided_geometric(parameter("scale", scale), shape(size))

    def _two_sided_geometric(self, scale: float, wanted: tuple[int, ...]) -> NDArray[np.int64]:
        """The difference of the whole parts of two exponentials: floor(Exp(scale)) is geometric."""
        geometric = np.floor(self._rng.exponential(scale, (2, *wanted))).astype(np.int64)  # (2, *size)
        return np.asarray(geometric[0] - geometric[1])

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Bin(trials, probability) by NumPy's sampler."""
        draws = self._rng.binomial(
            require.whole("trials", trials, least=0), require.chance("probability", probability), shape(size)
        )
        return np.asarray(draws, dtype=np.int64)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Elementwise by NumPy's sampler."""
        return np.asarray(self._rng.binomial(counts, np.clip(chances, 0.0, 1.0)), dtype=np.int64)

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """53 random bits each."""
        return np.asarray(self._rng.random(shape(size)))

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """Every row shuffled on its own."""
        rows = np.broadcast_to(np.arange(require.whole("n", n), dtype=np.int64), (*shape(size), n))
        return self._rng.permuted(rows, axis=-1)  # (*size, n)
