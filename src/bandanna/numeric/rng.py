"""Random numbers: named streams of simulated seeds, and the randomness of devices."""

from __future__ import annotations

import math
import os
import secrets
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import InsecureSource, InvalidArgument
from bandanna.types import Floats, Ints

# Named streams


_BLOCK = 4096  # numbers drawn ahead, per seed


class Streams:
    """Random streams of several seeds side by side; every draw has the seeds as its first axis.

    Every (seed, name) has a generator derived from both, so a seed gives the same run alone, among other seeds, and in
    any process. A stream is one long sequence, drawn ahead in blocks of any size.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        if not len(seeds):
            raise InvalidArgument("seeds", seeds, "a list of at least one whole number")
        self.seeds = tuple(validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT) for seed in seeds)
        self._generators: dict[str, list[np.random.Generator]] = {}
        self._ahead: dict[str, Floats] = {}  # (seeds, what is drawn but not yet used)

    def generators(self, name: str) -> list[np.random.Generator]:
        """Return the generators of a stream, one per seed, for one kind of draw in one order."""
        if name not in self._generators:
            key = (zlib.crc32(name.encode()),)
            self._generators[name] = [
                np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key))) for seed in self.seeds
            ]
        return self._generators[name]

    def normal(self, name: str, shape: tuple[int, ...]) -> Floats:
        return self._take(name, shape, lambda rng, out: rng.standard_normal(out=out))

    def uniform(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Draw uniform numbers in [0, 1), (seeds, *shape)."""
        return self._take(name, shape, lambda rng, out: rng.random(out=out))

    def sixteen_bits(self, name: str, shape: tuple[int, ...]) -> NDArray[np.uint16]:
        """Draw uniform whole numbers below 2^16, (seeds, *shape), four from each word."""
        count = math.prod(shape)
        words = self._take(name, (-(-count // 4),), _fill_words)
        return words.view(np.uint16)[:, :count].reshape(len(self.seeds), *shape)

    def next_uniform(self, name: str, count: int) -> Floats:
        """Return the next uniform numbers of a stream, (seeds, count), without taking them."""
        numbers = np.empty((len(self.seeds), count))
        for rng, row in zip(self.generators(name), numbers, strict=True):
            state = rng.bit_generator.state
            rng.random(out=row)
            rng.bit_generator.state = state
        return numbers

    def take_uniform(self, name: str, counts: NDArray[np.int64]) -> None:
        for rng, count in zip(self.generators(name), counts.tolist(), strict=True):
            rng.random(count)

    def binomial(self, name: str, trials: NDArray[np.int64] | int, chance: Floats) -> NDArray[np.int64]:
        trials, chance = np.broadcast_arrays(np.asarray(trials), chance)
        draws = [rng.binomial(n, p) for rng, n, p in zip(self.generators(name), trials, chance, strict=True)]
        return np.asarray(draws, dtype=np.int64)

    def coins(self, name: str, trials: int, chance: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draw Bin(trials, chance), (seeds, *shape); every law has a stream of its own."""
        own = f"{name} {trials} {chance!r}"
        drawn = self._take(own, shape, lambda rng, out: np.copyto(out, rng.binomial(trials, chance, len(out))))
        return drawn.astype(np.int64)  # exact: below 2^53

    def _take(self, name: str, shape: tuple[int, ...], fill: Callable[[np.random.Generator, Floats], object]) -> Floats:
        count, seeds = math.prod(shape), len(self.seeds)
        ahead = self._ahead.get(name)
        left = 0 if ahead is None else ahead.shape[1]
        if ahead is None or left < count:
            longer = np.empty((seeds, left + max(count - left, _BLOCK)))
            if ahead is not None and left:
                longer[:, :left] = ahead
            for rng, row in zip(self.generators(name), longer, strict=True):
                fill(rng, row[left:])
            ahead = longer
        self._ahead[name] = ahead[:, count:]
        return ahead[:, :count].reshape(seeds, *shape)


def _fill_words(rng: np.random.Generator, out: Floats) -> None:
    bits: Any = rng.bit_generator
    out.view(np.uint64)[:] = bits.random_raw(len(out))


# Randomness of devices


TIES = "ties"  # what coins between tied arms are called
_PROPOSALS, _ACCEPTANCES = "gamma proposals", "gamma acceptances"  # and those of `gamma`
_SPARE = np.uint64(11)  # bits of a word that a float has no room for
_FEW = 16  # numbers that are transformed one by one: sooner than as an array


class DeviceRandomness(ABC):
    """The random numbers of devices, each for a named purpose; the first axis is the devices, or the seeds.

    They are an argument, never global.
    """

    @abstractmethod
    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """Draw numbers in [0, 1)."""

    @abstractmethod
    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """Draw standard normal numbers."""

    @abstractmethod
    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        """Draw uniform numbers at the marked places only; the others are 0."""

    @abstractmethod
    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """Draw Bin(counts, chances), elementwise: for users of a simulation who share a row."""

    def below(self, counts: Ints) -> Ints:
        """Draw a uniform number of 0, ..., n - 1 for each count n; n = 1 draws nothing."""
        return np.asarray(self.among(counts > 1, TIES) * counts, dtype=np.int64)


class SecureRandomness(DeviceRandomness):
    """Randomness from the operating system."""

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        words = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.uint64)
        return np.asarray(((words >> _SPARE) * 2.0**-53).reshape(shape))

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        count = math.prod(shape)
        if count <= _FEW:
            pairs = zip(*self.uniform((2, count), name).tolist(), strict=True)
            drawn = [math.sqrt(-2 * math.log1p(-one)) * math.cos(2 * math.pi * two) for one, two in pairs]
            return np.array(drawn).reshape(shape)
        one, two = self.uniform((2, *shape), name)
        return np.asarray(np.sqrt(-2 * np.log1p(-one)) * np.cos(2 * math.pi * two))

    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        return _draw_where(mask, lambda count: self.uniform((count,), name))

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        """Refuse: a device flips its own coin."""
        raise InsecureSource("coins of many users at once are a shortcut for simulation")

    def below(self, counts: Ints) -> Ints:
        drawn = [secrets.randbelow(count) if count > 1 else 0 for count in counts.ravel().tolist()]
        return np.array(drawn, dtype=np.int64).reshape(counts.shape)


class GeneratorRandomness(DeviceRandomness):
    """Randomness for one run of a simulation, from the generator of each purpose."""

    def __init__(self, named: Callable[[str], np.random.Generator]) -> None:
        self._named = named

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return self._named(name).random(shape)

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        return self._named(name).standard_normal(shape)

    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        return _draw_where(mask, self._named(name).random)

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        return np.asarray(self._named(name).binomial(counts, chances), dtype=np.int64)


class NumberedRandomness(DeviceRandomness):
    """Randomness for tests that follows from the seed and the number of a decision, `number` and following."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number

    def _of(self, device: int) -> GeneratorRandomness:
        def named(name: str) -> np.random.Generator:
            key = (zlib.crc32(name.encode()), self._number + device)
            return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._seed, spawn_key=key)))

        return GeneratorRandomness(named)

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return np.array([self._of(i).uniform(shape[1:], name) for i in range(shape[0])]).reshape(shape)

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        return np.array([self._of(i).normal(shape[1:], name) for i in range(shape[0])]).reshape(shape)

    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        rows = [self._of(i).among(row, name) if np.any(row) else np.zeros(np.shape(row)) for i, row in enumerate(mask)]
        return np.array(rows).reshape(mask.shape)

    def below(self, counts: Ints) -> Ints:
        if counts.ndim != 1:
            return super().below(counts)
        drawn = [int(self._of(i).uniform((), TIES) * n) if n > 1 else 0 for i, n in enumerate(counts.tolist())]
        return np.array(drawn, dtype=np.int64)

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        pairs = enumerate(zip(counts, np.broadcast_to(chances, counts.shape), strict=True))
        return np.array([self._of(i).binomial(n, p, name) for i, (n, p) in pairs]).reshape(counts.shape)


class StreamRandomness(DeviceRandomness):
    """Randomness for simulations, from each seed's streams; the first axis is the seeds."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def of(self, seed: int) -> GeneratorRandomness:
        """Return the randomness of one seed alone, by its place among the seeds."""
        return GeneratorRandomness(lambda name: self._streams.generators(name)[seed])

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return self._streams.uniform(name, shape[1:])

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        return self._streams.normal(name, shape[1:])

    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        drawn = np.zeros(mask.shape)
        for seed in np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)).tolist():
            drawn[seed] = self.of(seed).among(mask[seed], name)
        return drawn

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        return self._streams.binomial(name, counts, np.clip(chances, 0.0, 1.0))


class NoRandomness(DeviceRandomness):
    """Randomness for code that must not draw: always 0."""

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return np.zeros(shape)

    normal = uniform

    def among(self, mask: NDArray[np.bool_], name: str) -> Floats:
        return np.zeros(mask.shape)

    def binomial(self, counts: Ints, chances: Floats, name: str) -> Ints:
        return np.zeros(counts.shape, dtype=np.int64)


def draw_gamma(shapes: Floats, coins: DeviceRandomness, *, proposals: int = 3) -> Floats:
    """Draw Gamma(shape) for shapes >= 1, any array of them: a few proposals at once, more where all were refused.

    Marsaglia and Tsang 2000: d V with d = shape - 1/3, V = (1 + X / sqrt(9 d))^3, X ~ N(0, 1), accepted with log U <
    X^2/2 + d (1 - V + log V), which fails with probability below 5 %.
    """
    d, shape = (shapes - 1 / 3)[..., None], (*shapes.shape, proposals)
    drawn, missing = _accept_gamma(d, coins.normal(shape, _PROPOSALS), coins.uniform(shape, _ACCEPTANCES))
    while np.any(missing):
        again = np.broadcast_to(missing[..., None], (*shapes.shape, 3))
        one, two, three = np.moveaxis(coins.among(again, "gamma rest"), -1, 0)[..., None]
        normal = np.sqrt(-2 * np.log1p(-one)) * np.cos(2 * math.pi * two)  # Box and Muller 1958
        fresh, refused = _accept_gamma(d, normal, three)
        drawn, missing = np.where(missing, fresh, drawn), missing & refused
    return drawn


def _accept_gamma(d: Floats, x: Floats, u: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the first accepted proposal (last axis), and where none was accepted."""
    v = np.maximum(1 + x / np.sqrt(9 * d), 1e-90) ** 3
    accepted = np.log(np.maximum(u, 1e-300)) < 0.5 * x * x + d * (1 - v + np.log(v))
    first = np.argmax(accepted, axis=-1)[..., None]
    return np.asarray((d * np.take_along_axis(v, first, axis=-1))[..., 0]), ~np.any(accepted, axis=-1)


def _draw_where(mask: NDArray[np.bool_], draw: Callable[[int], Floats]) -> Floats:
    drawn = np.zeros(mask.shape)
    drawn[mask] = draw(int(np.count_nonzero(mask)))
    return drawn
