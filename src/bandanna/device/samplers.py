"""Exact samplers of binomial, discrete Gaussian and discrete Laplace noise from random words, without rounding."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, count, takewhile

import numpy as np
from numpy.typing import NDArray

# Binomial noise by inversion


Words = Callable[[tuple[int, ...]], NDArray[np.uint64]]  # independent random 64-bit words of a shape
Bounds = tuple[int, list[int], list[int]]

PART = 1 << 24  # trials in one table, of 50,000 numbers; more are drawn in parts and added
_INVERSION_CHUNK = 1 << 16  # words held at a time


def draw_binomials(trials: int, chance: Fraction, count: int, words: Words) -> NDArray[np.int64]:
    """Draw `count` independent numbers of Bin(trials, chance)."""
    drawn = np.zeros(count, dtype=np.int64)
    for part, times in ((PART, trials // PART), (trials % PART, 1)):
        if not (part and times):
            continue
        table = _binomial_sampler(part, chance)
        for begin in range(0, count, _INVERSION_CHUNK):
            some = drawn[begin : begin + _INVERSION_CHUNK]
            step = max(1, _INVERSION_CHUNK // some.size)
            for done in range(0, times, step):
                some += table.draw(words((min(step, times - done), some.size)), words).sum(axis=0)
    return drawn


def count_words(trials: int) -> int:
    """Return the random words of a draw: one for each part of the trials."""
    return -(-trials // PART)


class InversionSampler:
    """Draws from a distribution on whole numbers by inversion; `bounds(bits)` bounds its distribution function F.

    A draw is the number of k with F(k) <= u, for u uniform in [0, 1). The known bits of u confine it to [w, w + 1) /
    2^bits. One word almost always decides; if not, more bits of the same u and a finer table do. `bounds` gives first,
    low and up with low[i] <= 2^bits F(first + i) <= up[i], and up[-1] = 2^bits.
    """

    def __init__(self, bounds: Callable[[int], Bounds]) -> None:
        self._bounds = bounds
        self._first, low, up = bounds(_BITS)
        self._low, self._up = np.array(low, dtype=np.uint64), np.array(up, dtype=np.uint64)

    def draw(self, random: NDArray[np.uint64], words: Words) -> NDArray[np.int64]:
        known = random >> np.uint64(64 - _BITS)
        place = self._up.searchsorted(known, side="right")
        drawn = np.asarray(self._first + place, dtype=np.int64)
        undecided = known >= self._low.take(place)
        if undecided.any():
            for open_ in zip(*np.nonzero(undecided), strict=True):
                drawn[open_] = self._refine(int(known[open_]), words)
        return drawn

    def _refine(self, known: int, words: Words) -> int:
        """Return the number of the uniform that begins with these bits, drawing as many more bits as it takes."""
        bits = _BITS
        while True:
            bits, known = bits + 64, known << 64 | int(words((1,))[0])
            first, low, up = self._bounds(bits)
            place = bisect_right(up, known)
            if known < low[place]:
                return first + place


@lru_cache(maxsize=32)
def _binomial_sampler(trials: int, chance: Fraction) -> InversionSampler:
    return InversionSampler(partial(binomial_cdf_bounds, trials, chance))


def binomial_cdf_bounds(trials: int, chance: Fraction, bits: int) -> Bounds:
    """Return low <= 2^bits F(k) <= up for k = first, first + 1, ...; below them up = 1 holds as well, above them
    low[-1].

    Proof. v_k are the probabilities in units of the mode's 2^-places, each from its neighbour towards the mode, rounded
    down. Ratios of neighbours are at most 1 away from the mode, so that errors do not grow but for a unit at each step:
    all n + 1 of them, also where v = 0 ended the recursion, lie in [0, n], and sums of them in [0, slack].
    """
    n, (a, c) = trials, chance.as_integer_ratio()
    places = bits + 2 * n.bit_length() + 8
    mode = (n + 1) * a // c
    above = _multiply_ratios(1 << places, (((n - k) * a, (k + 1) * (c - a)) for k in range(mode, n)))
    below = _multiply_ratios(1 << places, ((k * (c - a), (n - k + 1) * a) for k in range(mode, 0, -1)))
    sums = list(accumulate([*reversed(below), 1 << places, *above]))
    slack, total, one = n * (n + 1), sums[-1], 1 << bits
    low = [(part << bits) // (total + slack) for part in sums]
    up = [min(one, -(-(part + slack << bits) // total)) for part in sums]
    if mode + len(above) == n:
        low[-1] = one  # F(n) = 1
    return mode - len(below), low, up


def _multiply_ratios(value: int, ratios: Iterable[tuple[int, int]]) -> list[int]:
    values = []
    for numerator, denominator in ratios:
        value = value * numerator // denominator
        values.append(value)
        if not value:
            break
    return values


# Discrete Gaussian and Laplace noise by columns and rejection


GAUSSIAN, LAPLACE = 2, 1
_FINE = {GAUSSIAN: 5, LAPLACE: 3}  # scales from 2^4 to 2^5 columns, and from 2^2 to 2^3
_CLOSE = 2.0**-40
_BITS = 63  # of a coin
_GUARD = 32  # places of a weight behind those of the distribution function
_CHUNK = 1 << 14  # numbers held at a time


def sample_discrete(power: int, scale: float, size: int, words: Words) -> NDArray[np.int64]:
    """Draw `size` independent numbers from random words."""
    columns, parts, missing = _discrete_sampler(power, scale), [np.zeros(0, dtype=np.int64)], size
    while missing:
        part = columns.some(min(missing + missing // 8 + 8, _CHUNK), words)[:missing]  # what is kept is independent
        parts.append(part)
        missing -= len(part)
    return np.concatenate(parts)


class DiscreteSampler:
    """Draws from P(k) proportional to exp(-g(|k|)), g(m) = (m / scale)^power / power; power 2: Gaussian, 1: Laplace.

    Whole numbers m >= 0 lie in columns of 2^bits of them. A column j is drawn by inversion with probability
    proportional to exp(-g(first of j)), the largest weight in it. A place in it and a sign are random bits. The number
    is kept with probability exp(g(first of j) - g(m)), at least 78 % of all; 0 has two signs, and is kept with one of
    them.

    A coin is compared with a float that is within 2^-48 of the probability to keep; if they are closer than 2^-40, more
    bits of the same coin are compared with more digits of it.

    Reference: rejection within columns, Devroye 1986, section VIII.3; the law, Canonne, Kamath and Steinke 2020.
    """

    def __init__(self, power: int, scale: float) -> None:
        self.power = power
        self.bits = max(0, math.frexp(scale)[1] - _FINE[power])
        self.scale = math.ldexp(scale, -self.bits)  # in columns; exact
        self._which = _column_sampler(power, self.scale)

    def some(self, tries: int, words: Words) -> NDArray[np.int64]:
        which, where, coins = words((3, tries))
        column, negative = self._which.draw(which, words), where >> np.uint64(63) == 1
        inside = (where & np.uint64((1 << self.bits) - 1)).view(np.int64)
        size = (column << self.bits) + inside
        kept = ~negative | (size > 0)
        if self.bits:
            kept &= self._kept(column, inside, coins, words)
        return np.asarray(np.where(negative, -size, size)[kept])

    def _kept(
        self, column: NDArray[np.int64], inside: NDArray[np.int64], coins: NDArray[np.uint64], words: Words
    ) -> NDArray[np.bool_]:
        chance = np.exp(-self._rise(column, np.ldexp(inside.astype(float), -self.bits)))
        above = np.ldexp((coins >> np.uint64(64 - _BITS)).astype(float), -_BITS) - chance
        kept: NDArray[np.bool_] = above < 0
        if (close := np.abs(above) < _CLOSE).any():
            for n in np.flatnonzero(close):
                kept[n] = self._keeps(int(column[n]), int(inside[n]), int(coins[n]), words)
        return kept

    def _rise(self, column: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.power == LAPLACE:
            return share / self.scale
        return share * (column + share / 2) / self.scale**2

    def _keeps(self, column: int, inside: int, coin: int, words: Words) -> bool:
        first, share, scale = Fraction(column), Fraction(inside, 1 << self.bits), Fraction(self.scale)
        rise = ((first + share) ** self.power - first**self.power) / (self.power * scale**self.power)
        bits, known = _BITS, coin >> (64 - _BITS)
        while rise:
            bits, known = bits + 64, known << 64 | int(words((1,))[0])
            weight = bound_exponential(rise, bits)
            if known < weight - 2:
                return True
            if known > weight + 1:
                return False
        return True  # exp(0) = 1 is above every coin


def bound_exponential(x: Fraction, places: int) -> int:
    """Return v with v - 1 < 2^places e^-x < v + 2, for x >= 0.

    Proof. `Decimal.exp` rounds correctly. With `digits` of them x, e^-x and the product are off by a share of 5
    10^-digits each at most, the first x times as much in e^-x, and (x + 2) e^-x <= 2: in all they are off by less than
    2^places 10^{1 - digits} < 1 unit.
    """
    digits = Context(
        prec=places * 3 // 10 + places // 100 + 8, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]
    )
    exponent = digits.divide(Decimal(-x.numerator), Decimal(x.denominator))
    return int(digits.multiply(digits.exp(exponent), Decimal(1 << places)))


def bound_columns(power: int, scale: float, bits: int) -> Bounds:
    """Return low <= 2^bits F(j) <= up for columns j = 0, 1, ..., with F their distribution function.

    Proof. Each weight is within 2 units of 2^-places. The columns behind the last one have less than 2 / (1 - e^{-1/8})
    < 18 units: their weights begin below 2 and fall at least by a factor e^{-1/8} from one to the next, Laplace ones
    because a scale has less than 8 columns, Gaussian ones by e^{-j/scale^2}, where j > 7 scale (g(j) > 41 log 2 with 41
    places and more) and a scale has less than 32.
    """
    places, exact = bits + _GUARD, Fraction(scale)
    exponents = (Fraction(j) ** power / (power * exact**power) for j in count())
    sums = list(accumulate(takewhile(bool, (bound_exponential(x, places) for x in exponents))))
    slack, total, one = 2 * len(sums) + 18, sums[-1], 1 << bits
    low = [max(0, part - slack << bits) // (total + slack) for part in sums]
    up = [min(one, -(-(part + slack << bits) // (total - slack))) for part in sums]
    return 0, low, [*up[:-1], one]


@lru_cache(maxsize=64)
def _discrete_sampler(power: int, scale: float) -> DiscreteSampler:
    return DiscreteSampler(power, scale)


@lru_cache(maxsize=64)
def _column_sampler(power: int, scale: float) -> InversionSampler:
    """Return the sampler of columns, cached: scales that differ by a power of two have columns of the same law."""
    return InversionSampler(lambda bits: bound_columns(power, scale, bits))
