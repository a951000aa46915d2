"""A spy between what draws and its noise source: which exact values are noised with what.

Where all noise is Gaussian, the separation of the neighbours is known exactly from it,

    mu^2 = sum over noised values of |value under P - value under Q|^2 / std^2,

where all of it is Laplace the largest loss is sum |value under P - value under Q|_1 / scale, and the likelihood ratio
of Gaussians is a sum over what was released, so that samples are scored as well as anybody could.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core.arrays import Floats
from bandanna.device.noise import Size
from bandanna.mechanisms.sources import FastNoise

Moves = list[tuple[Floats, float]]  # by how much a value moves, and the std or scale of its noise


class Spy(FastNoise):
    """Noise as usual; what is noised with Gaussians is written down, or weighed as it is released.

    With `forced` it comes out as it did in another run.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        weights: Sequence[Floats] | None = None,
        forced: Sequence[Floats] | None = None,
    ) -> None:
        super().__init__(rng)
        self.released: list[Floats] = []
        self._forced = iter(forced or ())
        self.gaussians: Moves = []
        self.laplaces: Moves = []
        self.others = 0  # draws of any other kind
        self.score: Any = 0.0
        self._weights = None if weights is None else iter(weights)

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """As usual."""
        released = super().gaussian(value, std=std, grid=grid)
        if self._weights is None:
            released = next(self._forced, released)
            self.gaussians.append((np.array(value, dtype=float), std))
            self.released.append(released)
        else:
            weight = next(self._weights)
            self.score = self.score + np.sum(released * weight, axis=tuple(range(-weight.ndim, 0)))
        return released

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """As usual."""
        self.laplaces.append((np.array(value, dtype=float), scale))
        return super().laplace(value, scale=scale, grid=grid)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """As usual."""
        self.others += 1
        return super().discrete_gaussian(std=std, size=size)

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """As usual."""
        self.others += 1
        return super().discrete_laplace(scale=scale, size=size)

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """As usual."""
        self.others += 1
        return super().binomial(trials=trials, probability=probability, size=size)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """As usual."""
        self.others += 1
        return super().coins(counts, chances)

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """As usual."""
        self.others += 1
        return super().uniform(size)


def moves_of(run: Callable[[bool, Spy], object]) -> tuple[Moves, Moves] | None:
    """What `run(swapped, spy)` has noised by Gaussians, and what by Laplace noise, and how far both move.

    None where other noise is drawn, or none at all.
    """
    one, two = (Spy(np.random.default_rng(0)) for _ in range(2))
    for swapped, spy in ((False, one), (True, two)):
        run(swapped, spy)
    drawn = [(one.gaussians, two.gaussians), (one.laplaces, two.laplaces)]
    if one.others or two.others or not any(a for a, _ in drawn) or any(len(a) != len(b) for a, b in drawn):
        return None
    gaussians, laplaces = ([(x - y, scale) for (x, scale), (y, _) in zip(a, b, strict=True)] for a, b in drawn)
    return gaussians, laplaces


def bypassed(shown: Callable[[bool, Spy], Sequence[Floats]]) -> bool:
    """Whether what is shown tells the neighbours apart although all that was noised comes out the same.

    Then something reaches the observer beside the noise, and the separation of what was noised says nothing.
    """
    one = Spy(np.random.default_rng(0))
    first = shown(False, one)
    second = shown(True, Spy(np.random.default_rng(0), forced=one.released))
    return any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
