"""Binomials by inversion: exact in law, by enumeration of what random words can be and by exact arithmetic."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device import samplers
from bandanna.device.noise import SecureNoise

HALF = Fraction(1, 2)
CHANCES = [HALF, Fraction(1, 4), Fraction(255, 256), Fraction(0.1), Fraction(1e-9)]


def cumulative(trials: int, chance: Fraction) -> list[Fraction]:
    """F(0), ..., F(n), exactly."""
    masses = (math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1))
    return list(itertools.accumulate(masses))


class Tape:
    """Random words from a list, each of them handed out once."""

    def __init__(self, words: Iterator[int]) -> None:
        self.words, self.used = words, 0

    def __call__(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """The next words."""
        self.used += math.prod(shape)
        return np.array([next(self.words) for _ in range(math.prod(shape))], dtype=np.uint64).reshape(shape)


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("trials", [0, 1, 2, 3, 7, 30])
def test_every_word_is_decided_as_its_uniform_numbers_are(trials: int, chance: Fraction) -> None:
    """All uniform numbers that begin with a word have the word's count, or the word is left open; few are.

    So the law is exact: of all words, as many have count k as P(k) says, up to those that are left open.
    """
    bits, exact = 9, cumulative(trials, chance)
    first, low, up = samplers.binomial_cdf_bounds(trials, chance, bits)
    assert all(a <= exact[first + i] * 2**bits <= b for i, (a, b) in enumerate(zip(low, up, strict=True)))
    counts: Counter[int] = Counter()
    for word in range(2**bits):
        place = bisect_right(up, word)
        if word < low[place]:
            k = first + place
            assert (exact[k - 1] if k else 0) <= Fraction(word, 2**bits)
            assert Fraction(word + 1, 2**bits) <= exact[k]
            counts[k] += 1
    left_open = 2**bits - counts.total()
    assert left_open <= 2 * len(up)
    masses = np.diff([Fraction(0), *exact])
    assert all(0 <= masses[k] * 2**bits - counts[k] <= left_open for k in range(trials + 1))


@pytest.mark.parametrize(("trials", "chance"), [(2048, HALF), (200, Fraction(0.3)), (5, Fraction(1e-300))])
def test_tables_hold_the_exact_distribution_function(trials: int, chance: Fraction) -> None:
    exact = cumulative(trials, chance)
    for bits in (63, 127):
        first, low, up = samplers.binomial_cdf_bounds(trials, chance, bits)
        assert all(a <= exact[first + i] * 2**bits <= b for i, (a, b) in enumerate(zip(low, up, strict=True)))
        assert max(b - a for a, b in zip(low, up, strict=True)) <= 2
        assert all(exact[k] * 2**bits <= up[0] for k in range(first))
        assert len(up) + first == trials + 1 or low[-1] < 1 << bits


@pytest.mark.parametrize("trials", [571_683, samplers.PART])
def test_large_tables_agree_with_mpmath(trials: int) -> None:
    first, low, up = samplers.binomial_cdf_bounds(trials, HALF, 63)
    with mpmath.workdps(50):
        scaled = [mpmath.ldexp(mpmath.binomial(trials, k), 63 - trials) for k in range(first + 1, first + len(up), 997)]
        steps = [(up[k - first] - up[k - first - 1]) for k in range(first + 1, first + len(up), 997)]
        assert all(abs(step - exact) <= 2 for step, exact in zip(steps, scaled, strict=True))
        even = trials - trials % 2
        first, low, up = samplers.binomial_cdf_bounds(even, HALF, 63)
        middle = (2**63 + mpmath.ldexp(mpmath.binomial(even, even // 2), 63 - even)) / 2
        assert low[even // 2 - first] <= middle <= up[even // 2 - first]


@pytest.mark.parametrize("further", [[0], [2**64 - 1], [2**63 - 5], [2**63 + 5]])
def test_open_words_are_decided_by_further_bits_of_the_same_number(further: list[int]) -> None:
    trials, chance = 30, Fraction(0.3)
    exact = cumulative(trials, chance)
    edge = int(exact[9] * 2**63)
    tape = Tape(iter([edge << 1, *further]))
    (drawn,) = samplers.draw_binomials(trials, chance, 1, tape)
    number = Fraction(edge << 64 | further[0], 2**127)
    assert tape.used == 2
    assert drawn == bisect_right(exact, number)


def test_a_number_that_stays_at_the_edge_takes_as_many_words_as_it_needs() -> None:
    exact = cumulative(30, Fraction(0.3))
    digits = int(exact[9] * 2 ** (63 + 3 * 64))
    words = [digits >> 192 << 1, digits >> 128 & 2**64 - 1, digits >> 64 & 2**64 - 1, 0]
    tape = Tape(iter(words))
    assert samplers.draw_binomials(30, Fraction(0.3), 1, tape)[0] == 9
    assert tape.used == 4


def test_parts_of_many_trials_add_up_and_no_word_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    words = [int(word) for word in rng.integers(0, 2**64, 21, dtype=np.uint64)]
    trials, count = 2 * samplers.PART + 5, 7
    for chunk in (1, 3, 1 << 16):
        monkeypatch.setattr(samplers, "_INVERSION_CHUNK", chunk)
        tape = Tape(iter(words))
        drawn = samplers.draw_binomials(trials, HALF, count, tape)
        assert tape.used == 3 * count
        single = [samplers.draw_binomials(samplers.PART, HALF, 1, Tape(iter([w])))[0] for w in words[: 2 * count]]
        rest = [samplers.draw_binomials(5, HALF, 1, Tape(iter([w])))[0] for w in words[2 * count :]]
        assert sum(single) + sum(rest) == drawn.sum()


def test_secure_binomials_ask_the_system_for_eight_bytes_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw has 8 bytes of the operating system's own, used once and by nothing else."""
    asked: list[bytes] = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(real(n)) or asked[-1])
    drawn = SecureNoise().binomial(trials=10**6, probability=0.5, size=(3, 50_000))
    words = np.frombuffer(b"".join(asked), dtype=np.uint64)
    assert words.size == drawn.size  # a word is left open with probability below 1e-9
    assert len(np.unique(words)) == words.size  # two are equal with probability below 1e-9
    again = samplers.draw_binomials(10**6, HALF, drawn.size, Tape(iter(words.tolist())))
    assert (again == drawn.ravel()).all()


def test_all_ones_and_all_zeros_are_the_ends() -> None:
    for trials in range(40):
        assert samplers.draw_binomials(trials, HALF, 3, Tape(itertools.repeat(2**64 - 1))).tolist() == [trials] * 3
        assert samplers.draw_binomials(trials, HALF, 3, Tape(itertools.repeat(0))).tolist() == [0] * 3


def test_threads_share_no_randomness() -> None:
    """Threads that draw at once, from one source and one table, draw different numbers (false alarm below 2^-200)."""
    source = SecureNoise()
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda _: source.binomial(trials=10**6, probability=0.5, size=50).tobytes(), range(16)))
    assert len(set(draws)) == 16


def test_a_forked_process_shares_no_randomness() -> None:
    code = """
import os
from bandanna.device.noise import SecureNoise
source = SecureNoise()
draw = lambda: source.binomial(trials=10**6, probability=0.5, size=50).tobytes() + source.uniform(9).tobytes()
draw()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, draw())
    os._exit(0)
mine, other = draw(), os.read(reading, 10_000)
os.wait()
assert len(mine) == len(other)
assert mine[:400] != other[:400] and mine[400:] != other[400:]
"""
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
