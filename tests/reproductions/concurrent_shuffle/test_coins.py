"""Binomial counts and coins by sixteen bits and a table: their law, and that few are still drawn by NumPy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bandanna.device.noise import FastNoise
from reproductions.concurrent_shuffle.counting import TabledCoins, table


def _law(trials: int, chance: float) -> dict[int, Fraction]:
    """What a uniform word makes of the table: exactly."""
    _, support, ends = table(trials, chance)
    edges = [0, *ends.tolist(), 1 << 64]
    return {int(k): Fraction(b - a, 1 << 64) for k, a, b in zip(support, edges[:-1], edges[1:], strict=True)}


@pytest.mark.parametrize(("trials", "chance"), [(4, 0.5), (37, 0.25), (64, 0.5), (4118, 0.5), (9000, 0.75)])
def test_a_table_has_the_binomial_law(trials: int, chance: float) -> None:
    found, p = _law(trials, chance), Fraction(chance)
    ones, all_ = p.numerator, p.denominator  # whole numbers: of 2^64 all_^trials
    exact = [(all_ - ones) ** trials << 64]
    for k in range(trials):
        exact.append(exact[-1] * (trials - k) * ones // ((k + 1) * (all_ - ones)))
    whole = all_**trials
    words = [int(found.pop(k, 0) * (1 << 64)) * whole for k in range(trials + 1)]
    assert not found
    assert sum(words) == sum(exact)
    assert Fraction(sum(abs(a - b) for a, b in zip(words, exact, strict=True)), whole << 64) < 1e-12


@pytest.mark.parametrize(("trials", "chance"), [(4, 0.5), (64, 0.5), (4118, 0.5), (9000, 0.75)])
def test_the_first_bits_say_what_all_of_them_would(trials: int, chance: float) -> None:
    values, support, ends = table(trials, chance)
    assert len(values) == 1 << 16
    begin = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    lowest, highest = (np.searchsorted(ends, words, side="right") for words in (begin, begin + np.uint64(2**48 - 1)))
    assert np.array_equal(values, np.where(lowest == highest, support[lowest], -1))


def test_draws_have_the_law_of_their_table() -> None:
    draws, law = 200_000, _law(64, 0.5)
    drawn = TabledCoins(np.random.default_rng(5)).binomial(trials=64, probability=0.5, size=(2, draws // 2))
    assert drawn.shape == (2, draws // 2)
    counts = np.bincount(drawn.ravel(), minlength=65)
    for value in range(20, 45):
        mass = float(law[value])
        assert abs(counts[value] / draws - mass) < 6 * math.sqrt(mass * (1 - mass) / draws)


class _Given(TabledCoins):
    """Words that are given."""

    def __init__(self, *words: list[int]) -> None:
        super().__init__(np.random.default_rng(0))
        self._words = [np.array(each, dtype=np.uint64) for each in words]

    def _raw(self, count: int) -> Any:
        given = self._words.pop(0)
        assert len(given) == count
        return given


def test_further_bits_decide_where_the_first_leave_it_open() -> None:
    chance = (3 + Fraction(5, 1 << 32)) / (1 << 16)  # begins with 3, and then 5 of 2^32
    first = 2 | 3 << 16 | 3 << 32 | 4 << 48  # four words of 16 bits, the lowest first
    further = [(5 << 32) - 1, 5 << 32]  # of 64 bits, of which the first 48 are used
    flips = _Given([first], further).flips(float(chance), 4)
    assert flips.tolist() == [True, True, False, False]
    values, support, ends = table(64, 0.5)
    cell = int(np.flatnonzero(values < 0)[10])
    inside = int(ends[np.searchsorted(ends, np.uint64(cell << 48))])
    word, rest = cell | cell << 16 | cell << 32 | cell << 48, inside - (cell << 48)
    many = 1 << 12
    drawn = _Given([word] * (many // 4), [(rest - 1) << 16, rest << 16] * (many // 2)).binomial(
        trials=64, probability=0.5, size=many
    )
    before = support[np.searchsorted(ends, np.uint64(inside - 1), side="right")]
    assert drawn[:2].tolist() == [before, before + 1]


def test_a_run_does_not_depend_on_how_words_are_grouped() -> None:
    source = TabledCoins(np.random.default_rng(6))
    two = [source.binomial(trials=64, probability=0.5, size=size) for size in (1 << 16, 10_000)]
    one = TabledCoins(np.random.default_rng(6)).binomial(trials=64, probability=0.5, size=(1 << 16) + 10_000)
    assert np.array_equal(np.concatenate(two), one)


@pytest.mark.parametrize(("trials", "size"), [(4000, 100), (2, 10_000), (0, 10_000), (1 << 22, 10_000)])
def test_few_draws_and_few_coins_are_numpys(trials: int, size: int) -> None:
    ours, numpys = (kind(np.random.default_rng(7)) for kind in (TabledCoins, FastNoise))
    given = {"trials": trials, "probability": 0.5, "size": size}
    assert np.array_equal(ours.binomial(**given), numpys.binomial(**given))
