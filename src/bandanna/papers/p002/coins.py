"""Many draws of one law at once, by 16 random bits and a table for each, in place of NumPy's samplers.

A number U is uniform on [0, 1), in 64 bits, of which the first 16 decide nearly always; the others are drawn only where
they do not. So a draw takes a quarter of a random word.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.device.noise import Size, shape
from bandanna.mechanisms.sources import FastNoise

_REACH = 9.5  # standard deviations: beyond is less than 2^-63, a word's resolution
_FEW = 1 << 12  # draws for which no table is made
_WIDE = 1 << 9  # standard deviation of laws of which the first bits decide too little
_AT_ONCE = 1 << 16  # draws: they stay in a cache
_FIRST, _REST = 16, np.uint64(48)  # bits

Words = NDArray[np.uint16]
Table = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]


class TabledCoins(FastNoise):
    """Fast noise whose binomial counts are drawn by inversion from a table, wherever many are wanted.

    The law is the binomial one up to the rounding of its masses, some parts in 10^13.
    """

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Bin(trials, probability)."""
        trials, chance, wanted = require.whole("trials", trials, least=0), float(probability), shape(size)
        spread = math.sqrt(trials * chance * (1 - chance))
        if math.prod(wanted) < _FEW or not 1 <= spread <= _WIDE:
            return super().binomial(trials=trials, probability=probability, size=size)
        values, support, ends = table(trials, chance)
        drawn = np.empty(math.prod(wanted), dtype=np.int64)
        for begin in range(0, len(drawn), _AT_ONCE):
            part = drawn[begin : begin + _AT_ONCE]
            words = self.words(len(part))
            values.take(words, out=part, mode="clip")  # which no word needs: without a copy
            open_ = np.flatnonzero(part < 0)
            part[open_] = support[np.searchsorted(ends, self._whole(words[open_]), side="right")]
        return drawn.reshape(wanted)

    def flips(self, chance: float, size: Size) -> NDArray[np.bool_]:
        """U < chance, of so many U."""
        wanted, end = shape(size), min(math.floor(math.ldexp(chance, 64)), 2**64 - 1)
        first = end >> int(_REST)
        words = self.words(math.prod(wanted))
        flips = words < first
        open_ = np.flatnonzero(words == first)
        flips[open_] = self._whole(words[open_]) < np.uint64(end)
        return flips.reshape(wanted)

    def words(self, count: int) -> Words:
        """The first bits of so many U."""
        per = 64 // _FIRST
        return self._raw(-(-count // per)).view(np.uint16)[:count]

    def _whole(self, words: Words) -> NDArray[np.uint64]:
        """All bits of those that begin with these."""
        return (words.astype(np.uint64) << _REST) + (self._raw(len(words)) >> np.uint64(_FIRST))

    def _raw(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._rng.bit_generator.random_raw(count), dtype=np.uint64)


@lru_cache(maxsize=64)
def table(trials: int, chance: float) -> Table:
    """What the first bits of a word say, -1 where they leave it open; the values of the law, and where each ends."""
    centre, reach = trials * chance, _REACH * math.sqrt(trials * chance * (1 - chance)) + 2
    support = np.arange(max(0, math.floor(centre - reach)), min(trials, math.ceil(centre + reach)) + 1)
    words = np.rint(np.ldexp(_masses(trials, chance, support), 64)).astype(np.uint64)
    support, words = support[words > 0], words[words > 0]
    middle = int(np.argmax(words))
    words[middle] = 2**64 - (sum(words.tolist()) - int(words[middle]))  # what rounding left over
    ends = np.cumsum(words[:-1])  # of each value but the last
    cells = (ends >> _REST).astype(np.int64)  # in which they lie
    inside = ends & np.uint64((1 << 48) - 1) != 0
    values = np.repeat(support, np.diff(cells + inside, prepend=0, append=1 << _FIRST))
    values[cells[inside]] = -1
    return values, support, ends


def _masses(trials: int, chance: float, support: NDArray[np.int64]) -> Floats:
    """P(k) of the support, from the ratios P(k)/P(k - 1) = (n - k + 1) p / (k (1 - p)) away from the centre."""
    ratios = (trials - support[1:] + 1) / support[1:] * (chance / (1 - chance))
    up = ratios > 1
    rising, falling = np.cumprod(1 / ratios[up][::-1])[::-1], np.cumprod(ratios[~up])
    relative = np.concatenate([rising, [1.0], falling])
    return np.asarray(relative / math.fsum(relative))
