"""Binomial counts from random words, exact in law: inversion of a uniform number of which bits are drawn as needed.

A count is the number of k with F(k) <= u, for F the distribution function and u uniform in [0, 1). Bits of u that are
known confine it to [w, w + 1) / 2^bits, and integers confine F to [low, up] / 2^bits; one word is almost always enough
to decide, and where it is not, more bits of the same u and a finer table are. Nothing is rounded or cut off, and the
cost of a draw does not grow with the number of trials.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Words = Callable[[tuple[int, ...]], NDArray[np.uint64]]  # independent random 64-bit words of a shape
Bounds = tuple[int, list[int], list[int]]

PART = 1 << 24  # trials in one table, of 50,000 numbers; more are drawn in parts and added
_BITS = 63  # of a word; so that 2^bits is a word too
_CHUNK = 1 << 16  # words held at a time


def binomials(trials: int, chance: Fraction, count: int, words: Words) -> NDArray[np.int64]:
    """`count` independent draws of Bin(trials, chance): the sum of one draw for each part of the trials."""
    drawn = np.zeros(count, dtype=np.int64)
    for part, times in ((PART, trials // PART), (trials % PART, 1)):
        if not (part and times):
            continue
        table = _table(part, chance)
        for begin in range(0, count, _CHUNK):
            some = drawn[begin : begin + _CHUNK]
            step = max(1, _CHUNK // some.size)
            for done in range(0, times, step):
                some += table.draw(words((min(step, times - done), some.size)), words).sum(axis=0)
    return drawn


def words_for(trials: int) -> int:
    """Random words that a draw takes: one for each part."""
    return -(-trials // PART)


class Inversion:
    """A law on whole numbers, drawn from random words by what `bounds(bits)` knows of its distribution function.

    `bounds` gives first, low and up with low[i] <= 2^bits F(first + i) <= up[i], and up[-1] = 2^bits.
    """

    def __init__(self, bounds: Callable[[int], Bounds]) -> None:
        self._bounds = bounds
        self._first, low, up = bounds(_BITS)
        self._low, self._up = np.array(low, dtype=np.uint64), np.array(up, dtype=np.uint64)

    def draw(self, random: NDArray[np.uint64], words: Words) -> NDArray[np.int64]:
        """One draw for each random word; further words where one does not decide."""
        known = random >> np.uint64(64 - _BITS)
        place = self._up.searchsorted(known, side="right")
        drawn = np.asarray(self._first + place, dtype=np.int64)
        undecided = known >= self._low.take(place)
        if undecided.any():
            for open_ in zip(*np.nonzero(undecided), strict=True):
                drawn[open_] = self._refine(int(known[open_]), words)
        return drawn

    def _refine(self, known: int, words: Words) -> int:
        """The number of the uniform one that begins with these bits, by as many more as it takes."""
        bits = _BITS
        while True:
            bits, known = bits + 64, known << 64 | int(words((1,))[0])
            first, low, up = self._bounds(bits)
            place = bisect_right(up, known)
            if known < low[place]:
                return first + place


@lru_cache(maxsize=32)
def _table(trials: int, chance: Fraction) -> Inversion:
    return Inversion(partial(bounds, trials, chance))


def bounds(trials: int, chance: Fraction, bits: int) -> Bounds:
    """low <= 2^bits F(k) <= up for k = first, first + 1, ...; below them up = 1 holds as well, above them low[-1].

    Proof. v_k are the probabilities in units of the mode's 2^-places, each from its neighbour towards the mode,
    rounded down. Ratios of neighbours are at most 1 away from the mode, so that errors do not grow but for a unit at
    each step: all n + 1 of them, also where v = 0 ended the recursion, lie in [0, n], and sums of them in [0, slack].
    """
    n, (a, c) = trials, chance.as_integer_ratio()
    places = bits + 2 * n.bit_length() + 8
    mode = (n + 1) * a // c
    above = _falling(1 << places, (((n - k) * a, (k + 1) * (c - a)) for k in range(mode, n)))
    below = _falling(1 << places, ((k * (c - a), (n - k + 1) * a) for k in range(mode, 0, -1)))
    sums = list(accumulate([*reversed(below), 1 << places, *above]))
    slack, total, one = n * (n + 1), sums[-1], 1 << bits
    low = [(part << bits) // (total + slack) for part in sums]
    up = [min(one, -(-(part + slack << bits) // total)) for part in sums]
    if mode + len(above) == n:
        low[-1] = one  # F(n) = 1
    return mode - len(below), low, up


def _falling(value: int, ratios: Iterable[tuple[int, int]]) -> list[int]:
    """value r_1, value r_1 r_2, ..., each rounded down, to the first zero."""
    values = []
    for numerator, denominator in ratios:
        value = value * numerator // denominator
        values.append(value)
        if not value:
            break
    return values
