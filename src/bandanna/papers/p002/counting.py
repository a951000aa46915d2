"""How far running counts of bits are off, of many streams at once, without an estimate for every user.

    central   estimate - truth is the mechanism's noise, whatever the bits are
    shuffle   so it is after a full batch; an estimate stands until the next one is, and the truth only grows: errors
              are largest at either end
    local     who lies is drawn, and what that adds to the count or takes from it

Central and shuffle are draw for draw what `ContinualSum.run` gives, up to rounding; local has the same law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.counters.continual_sum import ContinualSum
from bandanna.environments.hard_bits import HardBits
from bandanna.mechanisms.sources import FastNoise
from bandanna.papers.p002.coins import TabledCoins
from bandanna.protocols.central_continual import CentralContinual, law
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.local_bits import LocalBits

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
    noise = law.noise(shape, protocol.mechanism, source)[..., 0]
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
