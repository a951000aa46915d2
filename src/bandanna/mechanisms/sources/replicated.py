"""Noise for simulations of several seeds side by side: every seed has streams of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.core.streams import Streams
from bandanna.device.noise import NoiseSource, Size, shape
from bandanna.mechanisms.sources.fast import FastNoise


class ReplicatedNoise(NoiseSource):
    """Fast noise whose first axis is the seeds of `streams`; a seed draws the same numbers in any company."""

    secure = False

    def __init__(self, streams: Streams, part: str = "") -> None:
        self._streams, self._part = streams, part
        self._seeds = len(streams.seeds)

    def named(self, name: str) -> ReplicatedNoise:
        """The same seeds with streams that begin with this name."""
        return ReplicatedNoise(self._streams, f"{self._part}{name} ")

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """value + N(0, std^2)."""
        exact = np.asarray(value, dtype=float)
        drawn = std * self._streams.normal(self._part + "noise", exact.shape[1:])
        drawn += exact
        return drawn

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """value + Laplace(scale)."""
        exact = np.asarray(value, dtype=float)
        return np.stack([source.laplace(row, scale=scale, grid=grid) for source, row in self._each("laplace", exact)])

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """By each seed's own generator."""
        rest = self._rest(size)
        return np.stack([s.discrete_gaussian(std=std, size=rest) for s in self._sources("discrete gaussian")])

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """By each seed's own generator."""
        rest = self._rest(size)
        return np.stack([s.discrete_laplace(scale=scale, size=rest) for s in self._sources("discrete laplace")])

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """From the stream "coins" of this law."""
        trials, chance = require.whole("trials", trials, least=0), require.chance("probability", probability)
        return self._streams.coins(self._part + "coins", trials, chance, self._rest(size))

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """By each seed's own generator."""
        rows = zip(self._sources("group coins"), counts, chances, strict=True)
        return np.stack([source.coins(n, p) for source, n, p in rows])

    def heads(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Every user's coin, U < chance: by the first 16 bits of U, and by the others only where those leave it open.

        All seeds have the same number of users, chances are below 1.
        """
        ends = np.cumsum(counts, axis=1)
        users = np.arange(int(ends[0, -1]))
        group = np.zeros((self._seeds, len(users)), dtype=np.int64)
        for end in ends[:, :-1].T:
            group += users >= end[:, None]
        scaled = 2.0**16 * chances
        first = scaled.astype(np.uint16)  # (S, G, m), rounded down
        mine = first[np.arange(self._seeds)[:, None], group]
        drawn = self._streams.sixteen_bits(self._part + "rounding bits", mine.shape[1:])
        below = (drawn < mine).view(np.uint8)
        for each in np.flatnonzero(drawn == mine):
            seed, user, place = np.unravel_index(each, mine.shape)
            of = seed, group[seed, user], place
            rest = self._streams.generators(self._part + "further bits")[seed].random()
            below[seed, user, place] = rest < scaled[of] - first[of]
        wide = np.uint8 if len(users) < 256 else np.int64
        return np.asarray(np.add.reduce(below, axis=1, dtype=wide), dtype=np.int64)

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """From the stream "rounding"."""
        return self._streams.uniform(self._part + "rounding", self._rest(size))

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """By each seed's own generator."""
        rest = self._rest(size)
        return np.stack([s.permutation(n, size=rest) for s in self._sources("order")])

    def _rest(self, size: Size) -> tuple[int, ...]:
        axes = shape(size)
        if not axes or axes[0] != self._seeds:
            raise ValueError(f"the first axis of {axes} must be the {self._seeds} seeds")
        return axes[1:]

    def _sources(self, name: str) -> list[FastNoise]:
        return [FastNoise(rng) for rng in self._streams.generators(self._part + name)]

    def _each(self, name: str, rows: NDArray[np.float64]) -> list[tuple[FastNoise, NDArray[np.float64]]]:
        return list(zip(self._sources(name), rows, strict=True))
