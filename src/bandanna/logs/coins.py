"""Coins of devices in a replay: those of a slot depend on nobody else, so that a replaced person changes no other's."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import GeneratorCoins


class SlotCoins(GeneratorCoins):
    """Those of one episode of one seed: every purpose has a generator, and every slot its place in what is drawn."""

    def __init__(self, seed: int, episode: int) -> None:
        self._seed, self._episode = seed, episode
        self._generators: dict[str, np.random.Generator] = {}

        def named(name: str) -> np.random.Generator:
            if name not in self._generators:
                key = (zlib.crc32(f"replay {name}".encode()), episode)
                sequence = np.random.SeedSequence(seed, spawn_key=key)
                self._generators[name] = np.random.Generator(np.random.SFC64(sequence))
            return self._generators[name]

        super().__init__(named)

    def among(self, wanted: NDArray[np.bool_], name: str) -> Floats:
        """Drawn for all places, and 0 where none is wanted: who is tied moves nobody else's coin."""
        return np.asarray(np.where(wanted, self.uniform(wanted.shape, name), 0.0))

    def at(self, rows: Ints, slots: int) -> SlotCoins:
        """Those that these of `slots` slots have if all of them draw, from the first on: whoever else is in `rows`."""
        return _Some(self._seed, self._episode, rows, slots)


class _Some(SlotCoins):
    """Of some slots: all draw, and the others' are left out."""

    def __init__(self, seed: int, episode: int, rows: Ints, slots: int) -> None:
        super().__init__(seed, episode)
        self._rows, self._slots = rows, slots

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        """(rows, ...)."""
        return super().uniform((self._slots, *shape[1:]), name)[self._rows]

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        """(rows, ...)."""
        return super().normal((self._slots, *shape[1:]), name)[self._rows]
