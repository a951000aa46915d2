"""Sums of floats that do not depend on their order, run-length lists of batch sizes, and sums of blocks of a tree.

Rounding errors of plain sums grow like n^2, so one replaced user can move a sum by more than the domain allows
(Casacuberta, Shoemate, Vadhan and Wagaman 2022). A sum is therefore a pair of floats, `high` and `rest`, of about 106
bits. Operations on pairs are exact to some parts in 2^100.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, groupby, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.errors import InvalidStatistic, ValueSummary
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

# Exact sums


Pair = tuple[Floats, Floats]  # high + rest, |rest| at most half a unit in the last place of high

_DIGITS = 32  # of a value in whole units: fewer than 2^30 users fit into 64-bit integers
_FINER = 31  # digits of the rest of a value in whole fine units
_MASK = (1 << _FINER) - 1
_SPLIT = 2.0**27 + 1  # halves a float's digits (Veltkamp)
LARGEST_SUM = 2**51  # grid steps up to which a grid point's float is nearer to it than to any other by a quarter step
_NEAR = 2.0**-40  # of a half: closer than this, the side is decided by exact fractions


def exact_sum(values: Floats, bound: float) -> Pair:
    """Sum values in [-bound, bound] over users, (..., users, dim) -> a pair of (..., dim).

    The pair is the exact sum of the values, each cut at 2^-62 of the bound.
    """
    whole, small = _split_units(values, bound)
    return _pair(np.sum(whole, axis=-2), np.sum(small, axis=-2), finest_step(bound))


def finest_step(bound: float) -> float:
    """Return the step at which values in [-bound, bound] are cut: at most 2^-62 of the bound."""
    return math.ldexp(1.0, math.frexp(bound)[1] - _DIGITS - _FINER)


def convert_to_steps(values: Floats, bound: float) -> Ints:
    """Return values in [-bound, bound] in whole steps of `finest_step(bound)`: 64-bit integers."""
    whole, small = _split_units(values, bound)
    return np.asarray((whole << _FINER) + small)


def sum_steps(steps: Ints, step: float = 1.0) -> Pair:
    """Sum integers over users exactly, times a power of two: (..., users, dim) -> a pair of (..., dim)."""
    return _pair(np.sum(steps >> _FINER, axis=-2), np.sum(steps & _MASK, axis=-2), step)


def _split_units(values: Floats, bound: float) -> tuple[Ints, Ints]:
    step = finest_step(bound)
    unit = math.ldexp(step, _FINER)
    whole = np.rint(values / unit)  # the division is exact, and so is the rest
    small = np.rint((values - whole * unit) / step)
    return whole.astype(np.int64), small.astype(np.int64)


def _pair(wholes: Ints, smalls: Ints, step: float) -> Pair:
    unit = step * 2.0**_FINER
    wholes, smalls = wholes + (smalls >> _FINER), smalls & _MASK  # carry
    most, some = wholes >> _FINER, wholes & _MASK
    high, rest = two_sum(np.asarray(most * (unit * 2.0**_FINER)), np.asarray(some * unit))
    return two_sum(high, rest + smalls * step)  # the rest has few digits: nothing is rounded


def two_sum(a: Floats, b: Floats) -> Pair:
    """Return a + b as a pair, exactly (Knuth)."""
    high = np.asarray(a + b)
    back = high - a
    return high, np.asarray((a - (high - back)) + (b - back))


def two_product(a: Floats, b: Floats) -> Pair:
    """Return a b as a pair, exactly (Dekker), for sizes below 2^500 whose product is above 2^-960."""
    high = np.asarray(a * b)
    (a1, a2), (b1, b2) = _split_float(a), _split_float(b)
    return high, np.asarray(((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2)


def add_pairs(one: Pair, other: Pair) -> Pair:
    """Return the sum of two pairs, to parts in 2^100 of the larger."""
    high, rest = two_sum(one[0], other[0])
    return two_sum(high, rest + (one[1] + other[1]))


def find_nearest_grid_point(total: Pair, grid: float) -> Floats:
    """Return the float of the grid point nearest to a pair, an exact number of steps."""
    counts = count_grid_steps(*total, grid)
    if (np.abs(counts) > LARGEST_SUM).any():
        allowed, hint = f"a sum of at most 2^51 steps of the grid {grid!r}", "Take fewer users, or more noise"
        raise InvalidStatistic("value", ValueSummary("a larger sum"), allowed, hint)
    return np.asarray(counts * grid)


def count_grid_steps(high: Floats, rest: Floats, grid: float) -> Ints:
    """Return the multiple of the grid nearest to high + rest, in steps; exact, ties to even (0.5 and 1.5: 0 and 2)."""
    if (np.abs(high) / 2.0**62 >= grid).any():
        allowed = f"entries below 2^62 steps of the grid {grid!r}"
        raise InvalidStatistic("value", ValueSummary("an entry of 2^62 grid steps or more"), allowed)
    mantissa, exponent = math.frexp(grid)  # in units of 2^exponent nothing leaves the floats
    high, rest = np.ldexp(high, -exponent), np.ldexp(rest, -exponent)
    first = np.rint(high / mantissa)
    product, error = two_product(first, np.full_like(first, mantissa))
    left = (((high - product) - error) + rest) / mantissa  # what `first` leaves over, in steps
    second = np.rint(left)
    found = first.astype(np.int64) + second.astype(np.int64)
    near = np.abs(np.abs(left - second) - 0.5) <= _NEAR
    for place in zip(*np.nonzero(near), strict=True):
        found[place] = round((Fraction(float(high[place])) + Fraction(float(rest[place]))) / Fraction(mantissa))
    return found


def _split_float(a: Floats) -> Pair:
    wide = _SPLIT * a
    upper = wide - (wide - a)
    return upper, np.asarray(a - upper)


# Run-length sizes


@stored_as("Sizes")
@dataclass(frozen=True)
class RunLengthSizes:
    """The sizes of batches 0, 1, ..., as `runs` of (size, how often); it reads like a tuple."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, sizes: Iterable[int]) -> RunLengthSizes:
        return cls(tuple((size, sum(1 for _ in run)) for size, run in groupby(sizes)))

    @cached_property
    def _begins(self) -> tuple[list[int], list[int]]:
        times, users = (time for _, time in self.runs), (size * time for size, time in self.runs)
        return list(accumulate(times, initial=0)), list(accumulate(users, initial=0))

    def __len__(self) -> int:
        return self._begins[0][-1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(repeat(size, times) for size, times in self.runs)

    def __getitem__(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.runs[bisect_right(self._begins[0], number) - 1][0]

    @property
    def users(self) -> int:
        return self._begins[1][-1]

    def before(self, number: int) -> int:
        """Return the number of users in the batches before this one, or before the end."""
        if number == len(self):
            return self.users
        run = bisect_right(self._begins[0], number) - 1
        return self._begins[1][run] + (number - self._begins[0][run]) * self.runs[run][0]

    def counts(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for size, times in self.runs:
            counts[size] += times
        return counts

    def each(self, values: Iterable[float]) -> NDArray[np.float64]:
        """Repeat one value per run for each of its batches."""
        return np.repeat(np.fromiter(values, np.float64, len(self.runs)), [times for _, times in self.runs])


def assigned_arms(places: Ints, *, arms: Ints, plays: Ints, in_turn: bool) -> Ints:
    """Return the arms of places 0, 1, ..., (n,) -> (n,), `plays` of each: one arm after the other, or in turn.

    >>> assigned_arms(np.arange(4), arms=np.array([5, 7]), plays=np.array([1, 3]), in_turn=True)
    array([5, 7, 7, 7])
    """
    if not in_turn:
        return np.asarray(arms[np.searchsorted(np.cumsum(plays), places, side="right")])
    if np.all(plays == plays[0]):
        return np.asarray(arms[places % len(arms)])
    turn = np.concatenate([np.arange(n) for n in plays])  # the first play of every arm, then the second ...
    return np.asarray(np.repeat(arms, plays)[np.argsort(turn, kind="stable")][places])


# Sums of blocks of a tree over a sequence of steps


_PAIRWISE = 8  # parts of a block: NumPy's sums are pairwise from here on
Numbers = TypeVar("Numbers", NDArray[np.float64], NDArray[np.int64])


def average_blocks(own: Sequence[Floats], degrees: Sequence[int], weights: Sequence[float]) -> list[Floats]:
    """Estimate the blocks bottom-up: a weight on the own release, the rest on the sum of the parts' estimates.

    `own` has (..., N_j, dim) and `weights` a number for each level, 1 on the lowest; degrees are d_2, ..., d_k.
    """
    estimates = [own[0]]
    for release, degree, weight in zip(own[1:], degrees, weights[1:], strict=True):
        if weight == 1.0:
            estimates.append(release)
            continue
        combined = sum_parts(estimates[-1], release.shape[-2], degree)
        combined *= 1 - weight
        combined += weight * release
        estimates.append(combined)
    return estimates


def sum_parts(parts: Numbers, count: int, degree: int) -> Numbers:
    """Sum `count` groups of `degree` blocks: (..., N_j, dim) -> (..., count, dim)."""
    whole = parts[..., : count * degree, :]
    if degree < _PAIRWISE:  # NumPy's sums over few numbers are slower, and the same to the last bit
        summed = whole[..., ::degree, :].copy()
        for place in range(1, degree):
            summed += whole[..., place::degree, :]
        return summed
    return np.asarray(np.sum(whole.reshape(*parts.shape[:-2], count, degree, parts.shape[-1]), axis=-2))


def compute_prefixes(blocks: Sequence[Floats], degrees: Sequence[int]) -> Floats:
    """Return, after every lowest block, the sum of the maximal complete blocks: (..., N_1, dim)."""
    top = blocks[-1]
    total = np.zeros((*top.shape[:-2], top.shape[-2] + 1, top.shape[-1]))  # after 0, 1, ... blocks of the top level
    np.cumsum(top, axis=-2, out=total[..., 1:, :])
    for level, degree in zip(reversed(blocks[:-1]), reversed(degrees), strict=True):
        total = _extend_prefixes(total, level, degree)
    return np.asarray(total[..., 1:, :])


def _extend_prefixes(total: Floats, blocks: Floats, degree: int) -> Floats:
    *shape, count, dim = blocks.shape
    parents = count // degree
    after = np.empty((*shape, count + 1, dim))
    after[..., ::degree, :] = begun = total[..., : parents + 1, :]
    if degree >= _PAIRWISE:
        whole = parents * degree
        inside = np.cumsum(blocks[..., :whole, :].reshape(*shape, parents, degree, dim), axis=-2)[..., :-1, :]
        here = after[..., :whole, :].reshape(*shape, parents, degree, dim)[..., 1:, :]
        np.add(begun[..., :-1, None, :], inside, out=here)
        after[..., whole + 1 :, :] = begun[..., -1:, :] + np.cumsum(blocks[..., whole:, :], axis=-2)
        return after
    for place in range(1, degree):
        more, here = blocks[..., place - 1 :: degree, :], after[..., place::degree, :]
        begun = np.add(begun[..., : more.shape[-2], :], more, out=here)
    return after
