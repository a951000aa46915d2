"""Named random streams: seed s gives the same run alone, among other seeds, in any order and in any process.

Every (seed, name) has a generator of its own, derived from both. A stream is read as one long sequence, drawn ahead
in blocks: how much is drawn at once changes the speed, never the numbers.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument

_BLOCK = 4096  # numbers drawn ahead, per seed


class Streams:
    """Random streams of several seeds side by side; every draw has the seeds as its first axis."""

    def __init__(self, seeds: Sequence[int]) -> None:
        if not len(seeds):
            raise InvalidArgument("seeds", seeds, "at least one whole number")
        self.seeds = tuple(require.whole("seed", seed, least=0, most=require.SEEDS) for seed in seeds)
        self._generators: dict[str, list[np.random.Generator]] = {}
        self._ahead: dict[str, Floats] = {}  # (seeds, what is drawn but not yet used)

    def generators(self, name: str) -> list[np.random.Generator]:
        """The generators of a stream, one per seed. Whoever uses them draws one kind of number in one order."""
        if name not in self._generators:
            key = (zlib.crc32(name.encode()),)
            self._generators[name] = [
                np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key))) for seed in self.seeds
            ]
        return self._generators[name]

    def normal(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Standard normal numbers, (seeds, *shape)."""
        return self._take(name, shape, lambda rng, out: rng.standard_normal(out=out))

    def uniform(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Uniform numbers in [0, 1), (seeds, *shape)."""
        return self._take(name, shape, lambda rng, out: rng.random(out=out))

    def sixteen_bits(self, name: str, shape: tuple[int, ...]) -> NDArray[np.uint16]:
        """Uniform whole numbers below 2^16, (seeds, *shape), four of a word."""
        count = math.prod(shape)
        words = self._take(name, (-(-count // 4),), _raw)
        return words.view(np.uint16)[:, :count].reshape(len(self.seeds), *shape)

    def next_uniform(self, name: str, count: int) -> Floats:
        """The uniform numbers that the generators of a stream give next, (seeds, count): nothing is taken yet."""
        seen = np.empty((len(self.seeds), count))
        for rng, row in zip(self.generators(name), seen, strict=True):
            state = rng.bit_generator.state
            rng.random(out=row)
            rng.bit_generator.state = state
        return seen

    def take_uniform(self, name: str, counts: NDArray[np.int64]) -> None:
        """Take so many of them, (seeds,)."""
        for rng, count in zip(self.generators(name), counts.tolist(), strict=True):
            rng.random(count)

    def binomial(self, name: str, trials: NDArray[np.int64] | int, chance: Floats) -> NDArray[np.int64]:
        """Bin(trials, chance), elementwise for arrays (seeds, ...)."""
        trials, chance = np.broadcast_arrays(np.asarray(trials), chance)
        draws = [rng.binomial(n, p) for rng, n, p in zip(self.generators(name), trials, chance, strict=True)]
        return np.asarray(draws, dtype=np.int64)

    def coins(self, name: str, trials: int, chance: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Bin(trials, chance) with one law for all, (seeds, *shape); every law has a stream of its own."""
        own = f"{name} {trials} {chance!r}"
        drawn = self._take(own, shape, lambda rng, out: np.copyto(out, rng.binomial(trials, chance, len(out))))
        return drawn.astype(np.int64)  # exact: below 2^53

    def _take(self, name: str, shape: tuple[int, ...], fill: Callable[[np.random.Generator, Floats], object]) -> Floats:
        wanted, seeds = math.prod(shape), len(self.seeds)
        ahead = self._ahead.get(name)
        left = 0 if ahead is None else ahead.shape[1]
        if ahead is None or left < wanted:
            longer = np.empty((seeds, left + max(wanted - left, _BLOCK)))
            if ahead is not None and left:
                longer[:, :left] = ahead
            for rng, row in zip(self.generators(name), longer, strict=True):
                fill(rng, row[left:])
            ahead = longer
        self._ahead[name] = ahead[:, wanted:]
        return ahead[:, :wanted].reshape(seeds, *shape)


def _raw(rng: np.random.Generator, out: Floats) -> None:
    """Words as they are."""
    bits: Any = rng.bit_generator
    out.view(np.uint64)[:] = bits.random_raw(len(out))
