"""Exact samplers of binomial, Gaussian and Laplace noise."""

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
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device import samplers
from bandanna.device.noise import SecureNoise
from bandanna.device.samplers import GAUSSIAN, LAPLACE, DiscreteSampler
from bandanna.errors import InvalidArgument

HALF = Fraction(1, 2)
CHANCES = [HALF, Fraction(1, 4), Fraction(255, 256), Fraction(0.1), Fraction(1e-9)]


def cumulative(trials: int, chance: Fraction) -> list[Fraction]:
    masses = (math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1))
    return list(itertools.accumulate(masses))


class Tape:
    def __init__(self, words: Iterator[int]) -> None:
        self.words, self.used = words, 0

    def __call__(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        self.used += math.prod(shape)
        return np.array([next(self.words) for _ in range(math.prod(shape))], dtype=np.uint64).reshape(shape)


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("trials", [0, 1, 2, 3, 7, 30])
def test_every_word_is_decided_as_its_uniform_numbers_are(trials: int, chance: Fraction) -> None:
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


POWERS = (GAUSSIAN, LAPLACE)


def weight(power: int, scale: float, k: Any) -> Any:
    """exp(-(|k| / scale)^power / power), to the digits that mpmath works with."""
    return mpmath.exp(-((abs(mpmath.mpf(int(k))) / mpmath.mpf(scale)) ** power) / power)


def law(power: int, scale: float, reach: int) -> NDArray[np.float64]:
    """P(k) for k = -reach, ..., reach."""
    weights = np.exp(-((np.abs(np.arange(-reach, reach + 1)) / scale) ** power) / power)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("places", [10, 95, 159])
@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(5, 2), Fraction(60), Fraction(10**9)])
def test_exponentials_are_confined(x: Fraction, places: int) -> None:
    """The integer that stands for 2^places e^-x is not within a unit below and two above of it."""
    with mpmath.workdps(80):
        exact = mpmath.ldexp(mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator), places)
        value = samplers.bound_exponential(x, places)
        assert value - 1 < exact < value + 2


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("scale", [1e-300, 0.3, 1.0, 4.0, 7.9, 16.0, 31.99])
@pytest.mark.often(when=lambda power, scale: scale != (16.0 if power == GAUSSIAN else 31.99))
def test_columns_are_drawn_by_their_distribution_function(power: int, scale: float) -> None:
    found = {bits: samplers.bound_columns(power, scale, bits) for bits in (9, 63, 127)}
    longest = max(len(up) for _, _, up in found.values())
    with mpmath.workdps(70):
        sums = list(itertools.accumulate(weight(power, scale, j) for j in range(2 * longest + 60)))
        exact = [part / sums[-1] for part in sums[:longest]]
    for bits, (first, low, up) in found.items():
        with mpmath.workdps(70):
            scaled = [mpmath.ldexp(part, bits) for part in exact[: len(up)]]
            assert all(a <= x <= b for a, x, b in zip(low, scaled[:-1], up[:-1], strict=False))
        assert first == 0
        assert low[-1] < up[-1] == 1 << bits
        assert max(b - a for a, b in zip(low, up, strict=True)) <= 2


@pytest.mark.parametrize(("power", "scale"), [(GAUSSIAN, 40.0), (LAPLACE, 13.0), (GAUSSIAN, 3.3), (LAPLACE, 0.7)])
def test_numbers_have_their_distribution_by_enumeration(power: int, scale: float) -> None:
    """Of all columns, places, signs and coins of a fine lattice of words, other shares give k than the law says.

    Total variation: at most what a lattice of 2^12 columns and 2^7 coins leaves open; a scale 20 % smaller has 0.07.
    """
    made, fine, coarse = DiscreteSampler(power, scale), 12, 7
    which = (2 * np.arange(2**fine, dtype=np.uint64) + np.uint64(1)) << np.uint64(63 - fine)
    coins = (2 * np.arange(2**coarse, dtype=np.uint64) + np.uint64(1)) << np.uint64(63 - coarse)
    places = np.array([s << 63 | m for s in (0, 1) for m in range(1 << made.bits)], dtype=np.uint64)
    grid = np.stack([part.ravel() for part in np.meshgrid(which, places, coins, indexing="ij")])
    assert made.bits > 0 or scale < 4
    drawn = made.some(grid.shape[1], lambda shape: grid)
    reach = int(np.abs(drawn).max())
    shares = np.bincount(drawn + reach, minlength=2 * reach + 1) / drawn.size
    away = 0.5 * np.abs(shares - law(power, scale, reach)).sum()
    assert away < 0.01
    assert 0.5 * np.abs(shares - law(power, 0.8 * scale, reach)).sum() > 5 * away


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("scale", [33.0, 1000.7, 2.0**40])
def test_coins_are_compared_with_the_exact_probability(power: int, scale: float) -> None:
    made = DiscreteSampler(power, scale)
    for column, share in ((0, 0.5), (3, 0.999), (40, 0.01)):
        inside = int(share * (1 << made.bits)) | 1
        with mpmath.workdps(60):
            first = column << made.bits
            chance = weight(power, scale, first + inside) / weight(power, scale, first)
            digits = int(mpmath.ldexp(chance, 63 + 64))
        for ahead in (-5, 5):  # below it: kept
            number = digits + ahead
            tape = Tape(iter([number & (1 << 64) - 1]))
            kept = made._kept(
                np.array([column]), np.array([inside]), np.array([number >> 64 << 1], dtype=np.uint64), tape
            )
            assert bool(kept[0]) is (ahead < 0)
            assert tape.used == 1
        for ahead in (-(1 << 24), 1 << 24):  # far enough away for floats
            word = np.array([(digits >> 64) + ahead << 1], dtype=np.uint64)
            kept = made._kept(np.array([column]), np.array([inside]), word, Tape(iter([])))
            assert bool(kept[0]) is (ahead < 0)


def test_a_coin_that_stays_at_the_edge_takes_as_many_words_as_it_needs() -> None:
    made = DiscreteSampler(GAUSSIAN, 1000.0)
    with mpmath.workdps(120):
        chance = weight(GAUSSIAN, 1000.0, 5 * 2**made.bits + 7) / weight(GAUSSIAN, 1000.0, 5 * 2**made.bits)
        digits = int(mpmath.ldexp(chance, 63 + 3 * 64))
    tape = Tape(iter([digits >> 128 & 2**64 - 1, digits >> 64 & 2**64 - 1, 0]))
    assert made._keeps(5, 7, digits >> 192 << 1, tape)
    assert tape.used == 3


def test_the_first_number_of_a_column_is_always_kept() -> None:
    made = DiscreteSampler(GAUSSIAN, 1000.0)
    assert made._keeps(9, 0, 2**64 - 1, Tape(iter([])))
    assert made._kept(np.array([9]), np.array([0]), np.array([2**64 - 1], dtype=np.uint64), Tape(iter([]))).all()


@pytest.mark.parametrize("power", POWERS)
def test_columns_beyond_the_table_are_reached(power: int) -> None:
    last = len(samplers.bound_columns(power, 1.0, 63)[2])
    tape = Tape(iter([2**64 - 1, 0, 0, 2**64 - 2**20]))  # which, where, a coin that is not needed, further bits
    assert DiscreteSampler(power, 1.0).some(1, tape)[0] > last - 5
    tape = Tape(iter([2**64 - 1, 0, 0, *[2**64 - 1] * 9, 0]))
    assert DiscreteSampler(power, 1.0).some(1, tape)[0] > 3 * last / (1 + (power == GAUSSIAN))


@pytest.mark.parametrize("power", POWERS)
def test_zero_has_one_sign(power: int) -> None:
    """0 is drawn with both signs, twice as often as its law says; and numbers lose their sign."""
    made = DiscreteSampler(power, 0.5)
    words = np.array([[0, 0, 2**63 + 2**62], [0, 2**63, 2**63], [0, 0, 0]], dtype=np.uint64)
    assert made.some(3, lambda shape: words).tolist() in ([0], [0, -1])


@pytest.mark.parametrize("power", POWERS)
def test_noise_of_any_scale_is_drawn_exactly(power: int) -> None:
    for scale in (5e-324, 1e-12, 1.0, 2.0**52):
        drawn = samplers.sample_discrete(power, scale, 50, lambda shape: np.random.default_rng(1).integers(
            0, 2**64, shape, dtype=np.uint64))  # fmt: skip
        assert drawn.dtype == np.int64
        assert np.abs(drawn).max() <= 50 * max(scale, 1.0)
    assert (samplers.sample_discrete(power, 1e-12, 50, SecureNoise().permutation.__globals__["_draw_words"]) == 0).all()


def test_every_number_has_words_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(real(n)) or asked[-1])
    drawn = SecureNoise().discrete_gaussian(std=2.0**30, size=(3, 20_000))
    words = np.frombuffer(b"".join(asked), dtype=np.uint64)
    assert drawn.shape == (3, 20_000)
    assert 3 * drawn.size <= words.size < 3.6 * drawn.size
    assert len(np.unique(words)) == words.size  # two are equal with probability below 1e-8
    assert len(np.unique(drawn)) > 0.99 * drawn.size


def test_threads_draw_apart() -> None:
    """Threads that draw at once from one table draw equal numbers (false alarm below 2^-200)."""
    source = SecureNoise()
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda _: source.discrete_gaussian(std=2.0**40, size=50).tobytes(), range(16)))
    assert len(set(draws)) == 16


@pytest.mark.parametrize("size", [0, (), (2, 0), (3, 4), 40_000])
def test_arrays_have_the_requested_shape(size: Any) -> None:
    """An array has another shape than was asked for, or less than all its numbers."""
    for draw in (
        lambda: SecureNoise().discrete_gaussian(std=3.0, size=size),
        lambda: SecureNoise().discrete_laplace(scale=2.0**30, size=size),
    ):
        assert draw().shape == np.zeros(size).shape


@pytest.mark.parametrize("std", [0.6, 3.3, 100.0])
def test_opendp_draws_the_same_law(std: float) -> None:
    mod, measurements, domains, metrics = (
        pytest.importorskip(f"opendp.{part}") for part in ("mod", "measurements", "domains", "metrics")
    )
    mod.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="i64")
    n = 6_000
    theirs = np.array(measurements.make_gaussian(*space, scale=std)([0] * n))
    ours = SecureNoise().discrete_gaussian(std=std, size=10 * n)
    at = np.unique(np.concatenate([ours, theirs]))
    below = [np.searchsorted(np.sort(draws), at, side="right") / draws.size for draws in (ours, theirs)]
    gap = float(np.abs(below[0] - below[1]).max())
    assert gap <= sum(math.sqrt(math.log(4e9) / (2 * draws.size)) for draws in (ours, theirs))


def test_scales_beyond_integers_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="std"):
        SecureNoise().discrete_gaussian(std=2.0**53, size=1)
