"""A device's own randomness, for what it decides: an argument of every decision, independent of all noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bandanna.core.streams import Streams

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Coins(ABC):
    """Random numbers in any shape; with seeds side by side, these are the first axis. A name is a purpose."""

    @abstractmethod
    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """In [0, 1)."""

    @abstractmethod
    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """Standard normal."""

    @abstractmethod
    def among(self, wanted: NDArray[np.bool_], name: str) -> Floats:
        """Uniform numbers where they are wanted, 0 elsewhere: a seed draws for its own places only."""

    @abstractmethod
    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """How many of so many coins say yes, elementwise."""


class GeneratorCoins(Coins):
    """From one generator, whatever the name: one run of a simulation, or an agent in a test."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """The generator's."""
        return self._rng.random(shape)

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """The generator's."""
        return self._rng.standard_normal(shape)

    def among(self, wanted: NDArray[np.bool_], name: str) -> Floats:
        """One for each place, in order."""
        drawn = np.zeros(wanted.shape)
        drawn[wanted] = self._rng.random(int(np.count_nonzero(wanted)))
        return drawn

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """The generator's."""
        return np.asarray(self._rng.binomial(counts, chances), dtype=np.int64)


class SeededCoins(Coins):
    """Of a simulation: every seed has streams of its own, one for each name."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """(S, ...)."""
        return self._streams.uniform(name, shape[1:])

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """(S, ...)."""
        return self._streams.normal(name, shape[1:])

    def among(self, wanted: NDArray[np.bool_], name: str) -> Floats:
        """(S, ...), each row by its own seed."""
        drawn = np.zeros(wanted.shape)
        for seed in np.flatnonzero(wanted.reshape(len(wanted), -1).any(axis=1)):
            rng, places = self._streams.generators(name)[seed], wanted[seed]
            drawn[seed][places] = rng.random(int(np.count_nonzero(places)))
        return drawn

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """(S, ...), each row by its own seed."""
        return self._streams.binomial(name, counts, np.clip(chances, 0.0, 1.0))

    def of(self, seed: int) -> Coins:
        """The coins of one seed alone (its place among the seeds)."""
        return _OneSeed(self._streams, seed)


class _OneSeed(Coins):
    """Generators of one seed, by name."""

    def __init__(self, streams: Streams, seed: int) -> None:
        self._streams, self._seed = streams, seed

    def _named(self, name: str) -> GeneratorCoins:
        return GeneratorCoins(self._streams.generators(name)[self._seed])

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """By the name's generator."""
        return self._named(name).uniform(shape, name)

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """By the name's generator."""
        return self._named(name).normal(shape, name)

    def among(self, wanted: NDArray[np.bool_], name: str) -> Floats:
        """By the name's generator."""
        return self._named(name).among(wanted, name)

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """By the name's generator."""
        return self._named(name).binomial(counts, chances, name)


def gamma(shapes: Floats, coins: Coins, *, proposals: int = 3) -> Floats:
    """Gamma(shape) for shapes >= 1, any array of them: a few proposals at once, more where all were refused.

    Marsaglia and Tsang 2000: d V with d = shape - 1/3, V = (1 + X / sqrt(9 d))^3, X ~ N(0, 1), kept with
    log U < X^2/2 + d (1 - V + log V); a proposal is refused with probability below 5 %.
    """
    d = (shapes - 1 / 3)[..., None]
    x = coins.normal((*shapes.shape, proposals), "gamma proposals")
    u = coins.uniform((*shapes.shape, proposals), "gamma acceptances")
    drawn, missing = _marsaglia(d, x, u)
    while np.any(missing):
        again = np.broadcast_to(missing[..., None], (*shapes.shape, 3))
        one, two, three = np.moveaxis(coins.among(again, "gamma rest"), -1, 0)[..., None]
        normal = np.sqrt(-2 * np.log1p(-one)) * np.cos(2 * math.pi * two)  # Box and Muller 1958
        fresh, refused = _marsaglia(d, normal, three)
        drawn, missing = np.where(missing, fresh, drawn), missing & refused
    return drawn


def _marsaglia(d: Floats, x: Floats, u: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The first accepted of the proposals (last axis), and where none was."""
    v = np.maximum(1 + x / np.sqrt(9 * d), 1e-90) ** 3
    kept = np.log(np.maximum(u, 1e-300)) < 0.5 * x * x + d * (1 - v + np.log(v))
    first = np.argmax(kept, axis=-1)[..., None]
    return np.asarray((d * np.take_along_axis(v, first, axis=-1))[..., 0]), ~np.any(kept, axis=-1)
