"""Many draws of one binomial law at once: a word and a table for each, in place of NumPy's sampler."""

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
_WORTHWHILE = 8  # draws for each number of a table
_AT_ONCE = 1 << 14  # words: they stay in a cache

Table = tuple[int, NDArray[np.uint64], NDArray[np.int64]]


class TabledCoins(FastNoise):
    """Fast noise whose binomial counts are drawn by the alias method wherever many are wanted.

    A word's first bits choose one of K columns, which have equal shares of the law; the other bits choose one of the
    two values of a column. The law is the binomial one up to the rounding of its masses, some parts in 10^13.
    Reference: Walker 1977.
    """

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Bin(trials, probability)."""
        trials, chance, wanted = require.whole("trials", trials, least=0), float(probability), shape(size)
        spread = math.sqrt(trials * chance * (1 - chance))
        if math.prod(wanted) < _WORTHWHILE * 2 * _REACH * spread or spread < 1:
            return super().binomial(trials=trials, probability=probability, size=size)
        shift, ends, values = table(trials, chance)
        drawn = np.empty(math.prod(wanted), dtype=np.int64)
        for begin in range(0, len(drawn), _AT_ONCE):
            words = self._rng.integers(0, 1 << 64, min(_AT_ONCE, len(drawn) - begin), dtype=np.uint64)
            column = (words >> np.uint64(shift)).view(np.int64)
            second = words >= ends.take(column)
            drawn[begin : begin + len(words)] = values.take(2 * column + second)
        return drawn.reshape(wanted)


@lru_cache(maxsize=64)
def table(trials: int, chance: float) -> Table:
    """Bits of a word behind the column, where the first value of each column ends, and the values, two by two."""
    centre, reach = trials * chance, _REACH * math.sqrt(trials * chance * (1 - chance)) + 2
    support = np.arange(max(0, math.floor(centre - reach)), min(trials, math.ceil(centre + reach)) + 1)
    bits = (len(support) - 1).bit_length()
    masses = np.zeros(1 << bits)
    masses[: len(support)] = _masses(trials, chance, support)
    share, other = _columns(masses)
    columns = np.arange(1 << bits)
    ends = np.ldexp(share, 64 - bits).astype(np.uint64)
    full = ends >> np.uint64(64 - bits) > 0  # a column of one value
    other[full], ends[full] = columns[full], 0
    values = support[0] + np.stack([columns, other], axis=1).ravel()
    return 64 - bits, (columns.astype(np.uint64) << np.uint64(64 - bits)) + ends, values


def _masses(trials: int, chance: float, support: NDArray[np.int64]) -> Floats:
    """P(k) of the support, from the ratios P(k)/P(k - 1) = (n - k + 1) p / (k (1 - p)) away from the centre."""
    ratios = (trials - support[1:] + 1) / support[1:] * (chance / (1 - chance))
    up = ratios > 1
    rising, falling = np.cumprod(1 / ratios[up][::-1])[::-1], np.cumprod(ratios[~up])
    relative = np.concatenate([rising, [1.0], falling])
    return np.asarray(relative / math.fsum(relative))


def _columns(masses: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """For each column the share of its own value, and whose mass fills the rest [Vose 1991]."""
    share, other = masses * len(masses), np.arange(len(masses))
    small, large = (list(np.flatnonzero(part)) for part in (share < 1, share >= 1))
    while small and large:
        low, high = small.pop(), large[-1]
        other[low] = high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            small.append(large.pop())
    share[small + large] = 1.0
    return share, other
