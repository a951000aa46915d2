"""Binomial counts by a word and a table: their law, and that few are still drawn by NumPy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from bandanna.mechanisms.sources import FastNoise
from bandanna.papers.p002.coins import TabledCoins, table


def _law(trials: int, chance: float) -> dict[int, Fraction]:
    """What a uniform word makes of the table: exactly."""
    shift, ends, values = table(trials, chance)
    found: dict[int, Fraction] = {}
    for column, end in enumerate(ends.tolist()):
        first = end - (column << shift)  # words of the column's first value
        for value, words in zip(
            values[2 * column : 2 * column + 2].tolist(), (first, (1 << shift) - first), strict=True
        ):
            assert 0 <= words <= 1 << shift
            if words:
                found[value] = found.get(value, Fraction(0)) + Fraction(words, 1 << 64)
    return found


@pytest.mark.parametrize(("trials", "chance"), [(4, 0.5), (37, 0.25), (64, 0.5), (4118, 0.5), (9000, 0.75)])
def test_a_table_has_the_binomial_law(trials: int, chance: float) -> None:
    """The words of all values together do not have the binomial masses: by more than 1e-12 in total variation."""
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


def test_draws_have_the_law_of_their_table() -> None:
    """Words are read otherwise than the table is written. False alarm below 1e-6: six standard errors at each value."""
    shift, _, values = table(64, 0.5)
    assert shift == 64 - (len(values) // 2 - 1).bit_length()
    draws, law = 200_000, _law(64, 0.5)
    drawn = TabledCoins(np.random.default_rng(5)).binomial(trials=64, probability=0.5, size=(2, draws // 2))
    assert drawn.shape == (2, draws // 2)
    counts = np.bincount(drawn.ravel(), minlength=65)
    for value in range(20, 45):
        mass = float(law[value])
        assert abs(counts[value] / draws - mass) < 6 * math.sqrt(mass * (1 - mass) / draws)


def test_a_run_does_not_depend_on_how_words_are_grouped() -> None:
    """Draws beyond a chunk are other ones than the next draws would be."""
    source = TabledCoins(np.random.default_rng(6))
    two = [source.binomial(trials=64, probability=0.5, size=size) for size in (1 << 14, 10_000)]
    one = TabledCoins(np.random.default_rng(6)).binomial(trials=64, probability=0.5, size=(1 << 14) + 10_000)
    assert np.array_equal(np.concatenate(two), one)


@pytest.mark.parametrize(("trials", "size"), [(4000, 100), (2, 10_000), (0, 10_000)])
def test_few_draws_and_few_coins_are_numpys(trials: int, size: int) -> None:
    """A table is made where it costs more than it saves, or a law without spread has one."""
    ours, numpys = (kind(np.random.default_rng(7)) for kind in (TabledCoins, FastNoise))
    given = {"trials": trials, "probability": 0.5, "size": size}
    assert np.array_equal(ours.binomial(**given), numpys.binomial(**given))
