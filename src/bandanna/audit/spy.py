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

from bandanna.audit.values import first_difference, leaves
from bandanna.core.arrays import Floats
from bandanna.device.noise import Size
from bandanna.mechanisms.sources import FastNoise

SOURCES = 16  # noise sources that are compared, until one differs
_LARGE = 32.0  # times the usual noise: nearly all outcomes are rare ones

Moves = list[tuple[Floats, float]]  # by how much a value moves, and the std or scale of its noise


class Scales(FastNoise):
    """Noise as usual from another source; the scales of Gaussian and Laplace noise are written down, in order."""

    def __init__(self, source: FastNoise) -> None:
        super().__init__(source._rng)
        self.scales: list[tuple[str, float]] = []

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """As usual."""
        self.scales.append(("gaussian", std))
        return super().gaussian(value, std=std, grid=grid)

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """As usual."""
        self.scales.append(("laplace", scale))
        return super().laplace(value, scale=scale, grid=grid)


class Spy(Scales):
    """Noise as usual; what is noised with Gaussians is written down, or weighed as it is released.

    With `forced` it comes out as it did in another run.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        weights: Sequence[Floats] | None = None,
        forced: Sequence[Floats] | None = None,
        times: float = 1.0,
    ) -> None:
        super().__init__(FastNoise(rng))
        self.times = times  # Gaussian noise is so many times as large
        self.released: list[Floats] = []
        self._forced = iter(forced or ())
        self.gaussians: Moves = []
        self.laplaces: Moves = []
        self.others = 0  # draws of any other kind
        self.score: Any = 0.0
        self._weights = None if weights is None else iter(weights)

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """As usual."""
        released = super().gaussian(value, std=self.times * std, grid=grid)
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

    None where other noise is drawn, or none at all, or noise of another scale for the neighbour.
    """
    one, two = (Spy(np.random.default_rng(0)) for _ in range(2))
    for swapped, spy in ((False, one), (True, two)):
        run(swapped, spy)
    drawn = [(one.gaussians, two.gaussians), (one.laplaces, two.laplaces)]
    if one.others or two.others or not any(a for a, _ in drawn) or one.scales != two.scales:
        return None
    gaussians, laplaces = ([(x - y, scale) for (x, scale), (y, _) in zip(a, b, strict=True)] for a, b in drawn)
    return gaussians, laplaces


def uneven(run: Callable[[bool, Spy], object]) -> bool:
    """Whether the scales of Gaussian or Laplace noise differ between the neighbours: they depend on somebody's data."""
    one, two = (Spy(np.random.default_rng(0)) for _ in range(2))
    run(False, one)
    run(True, two)
    return one.scales != two.scales


def bypassed(shown: Callable[[bool, Spy], object]) -> bool:
    """Whether what is shown tells the neighbours apart although all that was noised comes out the same.

    Then something reaches the observer beside the noise, and the separation of what was noised says nothing. Noise that
    is far larger than usual is tried too: what is done to rare outcomes alone is seen with it.
    """
    return any(_differs(shown, times) for times in (1.0, _LARGE))


def _differs(shown: Callable[[bool, Spy], object], times: float) -> bool:
    one = Spy(np.random.default_rng(0), times=times)
    first = shown(False, one)
    second = shown(True, Spy(np.random.default_rng(0), forced=one.released))
    return first_difference(first, second) is not None


class _Extreme(FastNoise):
    """A source whose uniform numbers are all near 0, or all near 1: a device that tells a rare lie does so."""

    def __init__(self, rng: np.random.Generator, *, high: bool) -> None:
        super().__init__(rng)
        self.high = high

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """Within 2^-20 of 0 or 1."""
        near = super().uniform(size) * 2.0**-20
        return np.asarray(1 - 2.0**-53 - near if self.high else near)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """As usual: it rejects by uniform numbers, and would never end."""
        return FastNoise(self._rng).discrete_gaussian(std=std, size=size)


def frozen(shown: Callable[[FastNoise], object]) -> bool:
    """Whether what is shown is the same with any of a few noise sources, however unlikely one of them is."""
    first, *others = (np.random.default_rng([1, each]) for each in range(SOURCES))
    before = list(leaves(shown(FastNoise(first))))
    extremes = (_Extreme(np.random.default_rng([1, SOURCES]), high=high) for high in (False, True))
    return all(list(leaves(shown(each))) == before for each in (*map(FastNoise, others), *extremes))


def reused(shown: Callable[[FastNoise], object]) -> bool:
    """Whether a second release of the same data is the same as the first, with any of a few noise sources."""
    sources = (FastNoise(np.random.default_rng([3, each])) for each in range(SOURCES))
    return all(list(leaves(shown(each))) == list(leaves(shown(each))) for each in sources)
