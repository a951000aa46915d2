"""Errors of running counts of bits, of many streams at once, without an estimate for every user.

Many draws of one law take 16 random bits and a table for each, in place of NumPy's samplers. A number U is uniform on
[0, 1), in 64 bits, of which the first 16 decide nearly always; the others are drawn only where they do not. So a draw
takes a quarter of a random word.

    central   estimate - truth is the mechanism's noise, whatever the bits are
    shuffle   so it is after a full batch; an estimate stands until the next one is, and the truth only grows: errors
              are largest at either end
    local     who lies is drawn, and what that adds to the count or takes from it

Central and shuffle are draw for draw what `ContinualSum.run` gives, up to rounding; local has the same law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.agent.continual_sum import ContinualSum
from bandanna.device.noise import FastNoise, Size, to_shape
from bandanna.numeric.rng import Streams
from bandanna.protocols import continual
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.randomized_response import LocalBits
from bandanna.types import Floats
from reproductions.concurrent_shuffle.hard_bits import HardBits

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
        trials, chance, wanted = validation.integer("trials", trials, least=0), float(probability), to_shape(size)
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
        wanted, end = to_shape(size), min(math.floor(math.ldexp(chance, 64)), 2**64 - 1)
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


Counts = NDArray[np.int32]  # half as much to read as 64 bits
_PART = 1 << 15  # users at once: they stay in a cache
Errors = tuple[Floats, Floats]  # after the worst prefix, and the largest of all prefixes: (runs,) each


class Truth:
    """How many ones there are after every user of some streams; streams that are the same are drawn once."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self._drawn: dict[tuple[int, int], Counts] = {}

    def of(self, hard: HardBits) -> Counts:
        """(runs, n)."""
        key = hard.horizon, hard.repeats  # all that they depend on, with the same start
        if key not in self._drawn:
            self._drawn[key] = hard.counts(Streams(self.seeds))
        return self._drawn[key]


def errors_of(counter: ContinualSum, hard: HardBits, source: TabledCoins) -> Callable[[Truth], Errors]:
    """The errors of this counter, as a function of streams."""
    protocol = counter.protocol
    if isinstance(protocol, ConcurrentShuffle):
        return lambda truth: _shuffled(protocol, truth.of(hard), source)
    if isinstance(protocol, CentralContinual):
        return lambda truth: _central(protocol, (len(truth.seeds), counter.horizon, 1), source)
    assert isinstance(protocol, LocalBits)
    return lambda truth: _local(protocol, truth.of(hard), source)


def _central(protocol: CentralContinual, shape: tuple[int, ...], source: FastNoise) -> Errors:
    """The last prefix of a BLT has the most noise."""
    noise = continual.sample_prefix_noise(shape, protocol.mechanism, source)[..., 0]
    return noise[:, -1], _largest(noise)


def _shuffled(protocol: ConcurrentShuffle, truth: Counts, source: FastNoise) -> Errors:
    """Noise after each lowest batch, whatever its bits are; users of unfinished batches are errors too."""
    runs, n = truth.shape
    low, steps = protocol.tree.sizes[0], protocol.tree.worst_steps
    above = protocol.noise_of_bits((runs, n // low), source)
    worst = int(steps[np.argmax(protocol.prefix_variance(steps))]) // low - 1
    full, last = truth[:, low - 1 :: low], truth[:, 2 * low - 2 :: low]  # and those whom the same estimate serves
    late = (last - full[:, : last.shape[1]]) - above[:, : last.shape[1]]
    ending = truth[:, n - 1] - full[:, -1] - above[:, -1]  # where the last batch is not full, or is the last one
    largest = np.maximum(np.max(above, axis=1), np.maximum(np.max(late, axis=1, initial=0.0), ending))
    return above[:, worst], np.maximum(largest, truth[:, low - 2])


def _local(protocol: LocalBits, truth: Counts, source: TabledCoins) -> Errors:
    """(ones - lie m) / (1 - 2 lie) - truth after m answers.

    A user i lies, L_i = 1, with probability `lie`. The answer to a zero is L_i and that to a one 1 - L_i: what it has
    beyond its mean is s_i (L_i - lie), s_i = 1 for zeros and -1 for ones.
    """
    lie, survives = protocol.mechanism.lie, protocol.mechanism.truth
    lies = source.flips(lie, truth.shape).view(np.int8)
    (runs, n), largest, ending = truth.shape, np.zeros(len(truth)), np.zeros(len(truth))
    ones, told = np.zeros((2, runs, 1), dtype=np.int32)  # so far
    for begin in range(0, n, step := max(1, _PART // runs)):
        counts = truth[:, begin : begin + step]
        signed = lies[:, begin : begin + step] * (1 - 2 * np.diff(counts, axis=1, prepend=ones))
        signed[:, :1] += told
        walk = np.cumsum(signed, axis=1, dtype=np.int32)
        zeros = np.arange(begin + 1, begin + counts.shape[1] + 1, dtype=np.int32) - 2 * counts  # less ones
        ones, told, off = counts[:, -1:], walk[:, -1:], walk - lie * zeros
        largest, ending = np.maximum(largest, _largest(off)), off[:, -1]
    return ending / survives, largest / survives


def _largest(numbers: Floats) -> Floats:
    """Of |x| along the last axis."""
    return np.asarray(np.maximum(np.max(numbers, axis=-1), -np.min(numbers, axis=-1)))
