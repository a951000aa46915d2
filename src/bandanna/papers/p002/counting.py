"""How far running counts of bits are off, of many streams at once, without an estimate for every user.

    central   estimate - truth is the mechanism's noise, whatever the bits are
    shuffle   an estimate stands until the next lowest batch is full, and the truth only grows: errors are largest at
              either end
    local     answers are counted in whole numbers, and the lies undone of their running count

Each is draw for draw what `ContinualSum.run` gives, up to rounding.
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
from bandanna.protocols.central_continual import CentralContinual, law
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.local_bits import LocalBits

Bits = NDArray[np.bool_]
Counts = NDArray[np.int32]  # half as much to read as 64 bits
Errors = tuple[Floats, Floats]  # after the worst prefix, and the largest of all prefixes: (runs,) each


class Truth:
    """Bits of some streams and how many ones there are after every user; streams that are the same are drawn once."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self._drawn: dict[tuple[int, int], tuple[Bits, Counts]] = {}

    def of(self, hard: HardBits) -> tuple[Bits, Counts]:
        """(runs, n) each."""
        key = hard.horizon, hard.repeats  # all that `bits` depends on, with the same start
        if key not in self._drawn:
            bits = hard.bits(Streams(self.seeds))
            self._drawn[key] = bits, np.cumsum(bits, axis=1, dtype=np.int32)
        return self._drawn[key]


def errors_of(counter: ContinualSum, hard: HardBits, source: FastNoise) -> Callable[[Truth], Errors]:
    """The errors of this counter, as a function of streams."""
    protocol = counter.protocol
    if isinstance(protocol, ConcurrentShuffle):
        return lambda truth: _shuffled(protocol, truth.of(hard)[1], source)
    if isinstance(protocol, CentralContinual):
        return lambda truth: _central(protocol, (len(truth.seeds), counter.horizon, 1), source)
    assert isinstance(protocol, LocalBits)
    return lambda truth: _local(protocol, *truth.of(hard), source)


def _central(protocol: CentralContinual, shape: tuple[int, ...], source: FastNoise) -> Errors:
    """The last prefix of a BLT has the most noise."""
    noise = law.noise(shape, protocol.mechanism, source)[..., 0]
    return noise[:, -1], _largest(noise)


def _shuffled(protocol: ConcurrentShuffle, truth: Counts, source: FastNoise) -> Errors:
    """By how many ones each lowest batch has; users of unfinished batches are errors too."""
    n, low, steps = truth.shape[1], protocol.tree.sizes[0], protocol.tree.worst_steps
    full = truth[:, low - 1 :: low]
    after = protocol.after_batches(np.diff(full, axis=1, prepend=np.int32(0)), source)
    worst = int(steps[np.argmax(protocol.prefix_variance(steps))]) // low - 1
    above = after - full
    last = truth[:, 2 * low - 2 :: low]  # of those whom the same estimate serves
    late = np.max(last - after[:, : last.shape[1]], axis=1, initial=0.0)
    ending = truth[:, n - 1] - after[:, -1]  # where the last batch is not full, or is the last one
    largest = np.maximum(np.max(above, axis=1), np.maximum(late, ending))
    return above[:, worst], np.maximum(largest, truth[:, low - 2])


def _local(protocol: LocalBits, bits: Bits, truth: Counts, source: FastNoise) -> Errors:
    """(ones - lie m) / (1 - 2 lie) - truth after m answers."""
    coins, lie, survives = source.uniform(bits.shape), protocol.mechanism.lie, protocol.mechanism.truth
    answers = coins < lie
    np.logical_or(answers, bits & (coins < 1 - lie), out=answers)
    walk: Floats = np.asarray(survives * truth, dtype=float)
    np.add(walk, lie * np.arange(1, truth.shape[1] + 1), out=walk)
    np.subtract(np.cumsum(answers, axis=1, dtype=np.int32), walk, out=walk)
    return walk[:, -1] / survives, _largest(walk) / survives


def _largest(numbers: Floats) -> Floats:
    """Of |x| along the last axis."""
    return np.asarray(np.maximum(np.max(numbers, axis=-1), -np.min(numbers, axis=-1)))
