"""The coins of a device: what decides between arms that are tied. An argument of whoever decides, never global.

One user's coins tell nothing about another's, nor about any noise: every device has its own.
"""

from __future__ import annotations

import secrets
import zlib
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bandanna.core.streams import Streams

Integers = NDArray[np.int64]

_NAME = "ties"  # of the streams


class Coins(ABC):
    """A device's own randomness."""

    @abstractmethod
    def below(self, counts: Integers) -> Integers:
        """A uniform number of 0, ..., n - 1 for each count n >= 1; where n = 1 nothing is drawn."""


class SecureCoins(Coins):
    """From the operating system."""

    def below(self, counts: Integers) -> Integers:
        """By `secrets`, exactly uniform."""
        drawn = [secrets.randbelow(count) if count > 1 else 0 for count in counts.ravel().tolist()]
        return np.array(drawn, dtype=np.int64).reshape(counts.shape)


class NumberedCoins(Coins):
    """For tests: those of decisions `number`, `number` + 1, ..., which follow from the seed and the decision's number.

    So there is no state to be kept, and to decide for several users at once changes nothing.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number

    def below(self, counts: Integers) -> Integers:
        """Each by a generator of its own."""
        drawn = np.zeros(counts.shape, dtype=np.int64)
        for place in np.flatnonzero(counts > 1).tolist():
            key = (zlib.crc32(_NAME.encode()), self._number + place)
            rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._seed, spawn_key=key)))
            drawn[place] = rng.integers(counts[place])
        return drawn


class StreamCoins(Coins):
    """For simulations: from the stream "ties" of each seed, read in order of the users who need one."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def below(self, counts: Integers) -> Integers:
        """The first axis is the seeds."""
        rows = counts.reshape(len(counts), -1)
        drawn, tied = np.zeros(rows.shape, dtype=np.int64), rows > 1
        for place in np.flatnonzero(np.any(tied, axis=1)).tolist():
            several = rows[place, tied[place]]
            uniform = self._streams.generators(_NAME)[place].random(len(several))
            drawn[place, tied[place]] = np.asarray(uniform * several, dtype=np.int64)
        return drawn.reshape(counts.shape)


class FirstOfTied(Coins):
    """No coin at all: always 0, for what must not draw."""

    def below(self, counts: Integers) -> Integers:
        """Zeros."""
        return np.zeros(counts.shape, dtype=np.int64)
