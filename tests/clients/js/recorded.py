"""Recorded entropy: noise and coins from words that are written down, so that another program can draw the same."""

from __future__ import annotations

import base64
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from bandanna.device.noise import SecureNoise, Size, to_shape
from bandanna.device.samplers import draw_binomials
from bandanna.numeric.rng import DeviceRandomness, SecureRandomness
from bandanna.types import Floats, Ints


class Words:
    """Random words of a seed, and all that were drawn."""

    def __init__(self, seed: int) -> None:
        self._generator, self._drawn = np.random.default_rng(seed), bytearray()

    def __call__(self, wanted: tuple[int, ...]) -> NDArray[np.uint64]:
        """So many."""
        words = self._generator.integers(0, 2**64, math.prod(wanted), dtype=np.uint64).astype("<u8")
        self._drawn += words.tobytes()
        return words.reshape(wanted)

    def uniform(self, wanted: tuple[int, ...]) -> Floats:
        """As secure sources make them."""
        return np.asarray((self(wanted) >> np.uint64(11)) * 2.0**-53)

    def taken(self) -> str:
        """What was drawn since the last time, in base64."""
        drawn, self._drawn = self._drawn, bytearray()
        return base64.b64encode(drawn).decode("ascii")


class RecordedNoise(SecureNoise):
    """A secure source, of these words."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Of the words."""
        wanted = to_shape(size)
        return draw_binomials(trials, Fraction(probability), math.prod(wanted), self._words).reshape(wanted)

    def uniform(self, size: Size) -> Floats:
        """Of the words."""
        return self._words.uniform(to_shape(size))


class RecordedCoins(SecureRandomness):
    """A device's coins, of these words."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """Of the words."""
        return self._words.uniform(shape)

    def below(self, counts: Ints) -> Ints:
        """One uniform number for each tie, as coins of simulations have it."""
        return DeviceRandomness.below(self, counts)
