"""What every noise source can draw; mechanisms ask for noise only through this interface, and state its price."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require, sums
from bandanna.core.domain import reals
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic, Summary

Size = int | tuple[int, ...]

# Noise of at most this parameter, added to integers below 2^62, stays inside int64: leaving it would need noise
# 2^10 times its parameter, an event of probability below e^-1000.
LARGEST = 2.0**52


class NoiseSource(ABC):
    """A supply of fresh, independent noise.

    `gaussian` and `laplace` add noise to real values; with `grid` > 0 the release is meant to be
    grid * (round(value / grid) + discrete noise), which is what a secure source does and a fast one approximates.
    The other methods draw integers, uniforms and permutations of a given `size` (an int or a shape).
    """

    secure: ClassVar[bool]

    @abstractmethod
    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """value + Gaussian noise of standard deviation `std`, fresh in every entry."""

    @abstractmethod
    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """value + Laplace noise of parameter `scale`, fresh in every entry."""

    def gaussian_steps(self, steps: NDArray[np.int64], *, std: float, grid: float) -> NDArray[np.int64]:
        """Whole steps of the grid plus a discrete Gaussian of at least std / grid steps, fresh in every entry."""
        ratio = at_least("std", require.positive("std", std), grid)
        return np.asarray(steps + self.discrete_gaussian(std=ratio, size=steps.shape))

    def named(self, name: str) -> NoiseSource:
        """Where one part of a message draws: a stream of its own where a source has named streams, else this source."""
        return self

    @abstractmethod
    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Integers with P(k) proportional to exp(-k^2 / (2 std^2))."""

    @abstractmethod
    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """Integers with P(k) proportional to exp(-|k| / scale)."""

    @abstractmethod
    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Counts of successes among `trials` independent trials."""

    @abstractmethod
    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Bin(count, chance) elementwise, chances in [0, 1]: a shortcut of simulations for many single coins."""

    def heads(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Coins of groups of users, sum over g of Bin(counts_g, chances_g): (..., G), (..., G, m) -> (..., m).

        A shortcut of simulations as `coins` is, for few users.
        """
        return np.asarray(np.sum(self.coins(np.broadcast_to(counts[..., None], chances.shape), chances), axis=-2))

    @abstractmethod
    def uniform(self, size: Size) -> NDArray[np.float64]:
        """Uniform multiples of 2^-53 in [0, 1)."""

    @abstractmethod
    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """Independent uniform permutations of 0..n-1 along the last axis: shape (*size, n)."""


def parameter(argument: str, value: Any) -> float:
    """The parameter of integer noise: a number in (0, 2^52]."""
    if require.positive(argument, value) > LARGEST:
        raise InvalidArgument(argument, value, "at most 2^52 steps, so that sums stay inside 64-bit integers")
    return float(value)


def shape(size: Size) -> tuple[int, ...]:
    """A size as a shape: 3 means (3,)."""
    axes = size if isinstance(size, tuple) else (size,)
    if all(type(axis) is int and axis >= 0 for axis in axes):  # shapes of arrays: nothing to convert
        return axes
    return tuple(require.whole("size", axis, least=0) for axis in axes)


def finite(value: ArrayLike) -> NDArray[np.float64]:
    """Real values to be protected, as floats; an error message never carries them."""
    array = reals("value", value)
    if not np.isfinite(array).all():
        broken = int(np.count_nonzero(~np.isfinite(array)))
        raise InvalidStatistic(
            "value", Summary(f"an array with {broken} entries that are not finite"), "finite numbers"
        )
    return array


def on_grid(value: ArrayLike, grid: float) -> NDArray[np.int64]:
    """The nearest multiple of the grid, counted in steps; exact, ties to even (0.5 and 1.5 go to 0 and 2)."""
    if require.non_negative("grid", grid) == 0:
        raise InsecureSource("grid = 0 is not allowed: a secure source adds integer noise on a grid > 0")
    exact = finite(value)
    return sums.steps(exact, np.zeros_like(exact), grid)


@lru_cache(maxsize=64)
def at_least(argument: str, scale: float, grid: float) -> float:
    """scale / grid as a float that is never below the real quotient: rounding may only add noise."""
    ratio = parameter(f"{argument} / grid", scale / grid)
    below = Fraction(ratio) * Fraction(grid) < Fraction(scale)
    return math.nextafter(ratio, math.inf) if below else ratio


def noise_source(source: Any) -> NoiseSource:
    """A noise source, or an error that says what one is."""
    if not isinstance(source, NoiseSource):
        raise InvalidArgument(
            "source", source, "a NoiseSource: FastNoise(numpy.random.default_rng(seed)) or SecureNoise()"
        )
    return source
