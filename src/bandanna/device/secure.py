"""Noise from the operating system's entropy, exact in law on integers; it cannot be seeded."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.device.columns import GAUSSIAN, LAPLACE, drawn
from bandanna.device.inversion import binomials
from bandanna.device.noise import NoiseSource, Size, at_least, on_grid, parameter, shape
from bandanna.errors import InsecureSource


class SecureNoise(NoiseSource):
    """Noise for people: no seed, no floating-point noise, nothing approximated.

    Gaussian and Laplace releases are grid * (round(value / grid) + discrete noise) with integers inside the bracket;
    the released float is a function of that integer alone, so floating point leaks nothing about the value.
    All of it is made of random words of os.urandom, which needs neither a key in this process nor care when it forks:
    a binomial takes 8 bytes, however many its trials (`inversion`), a Gaussian or Laplace number about 25 (`columns`).
    """

    secure = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if arguments or named:
            raise InsecureSource(
                "SecureNoise() takes no argument: it draws from the operating system and cannot be seeded"
            )

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """Multiples of the grid: the rounded value plus a discrete Gaussian of parameter std / grid."""
        return np.asarray(self.gaussian_steps(on_grid(value, grid), std=std, grid=grid) * grid)

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """Multiples of the grid: the rounded value plus a discrete Laplace of parameter scale / grid."""
        steps = on_grid(value, grid)
        ratio = at_least("scale", require.positive("scale", scale), grid)
        return np.asarray((steps + self.discrete_laplace(scale=ratio, size=steps.shape)) * grid)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Exact for every std that a float can have."""
        wanted = shape(size)
        return drawn(GAUSSIAN, parameter("std", std), math.prod(wanted), _words).reshape(wanted)

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """Exact for every scale that a float can have."""
        wanted = shape(size)
        return drawn(LAPLACE, parameter("scale", scale), math.prod(wanted), _words).reshape(wanted)

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Exact for every probability that a float can have, by inversion (`inversion`)."""
        chance = Fraction(require.chance("probability", probability))
        wanted, trials = shape(size), require.whole("trials", trials, least=0)
        return binomials(trials, chance, math.prod(wanted), _words).reshape(wanted)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Refused: a deployment draws the coins of every message."""
        raise InsecureSource("coins of many users at once are a shortcut of simulations; a secure source draws each")

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """The upper 53 of 64 random bits each, times 2^-53."""
        return np.asarray((_words(shape(size)) >> np.uint64(11)) * 2.0**-53)

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """The order of random 64-bit keys, drawn anew for a row with equal keys: given distinct keys it is uniform."""
        wanted = (*shape(size), require.whole("n", n))
        keys = _words(wanted).reshape(-1, n)
        while (again := (np.diff(np.sort(keys, axis=-1), axis=-1) == 0).any(axis=-1)).any():
            keys[again] = _words((int(again.sum()), n))
        return np.argsort(keys, axis=-1).astype(np.int64).reshape(wanted)


def _words(wanted: tuple[int, ...]) -> NDArray[np.uint64]:
    """Random 64-bit words."""
    return np.frombuffer(bytearray(os.urandom(8 * math.prod(wanted))), dtype=np.uint64).reshape(wanted)
