"""Exact sums, run-length sizes, and sums of blocks of a tree."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.errors import InvalidStatistic
from bandanna.numeric import exact_sums
from bandanna.numeric.exact_sums import RunLengthSizes, convert_to_steps, exact_sum, finest_step, sum_steps

from ..drawn import examples


def drifting(first: float, dim: int = 2) -> np.ndarray:
    """Half a million values in [-1, 1] whose rounding errors depend on the first one.

    After 2^17 ones the sum is 2^17, where floats are 2^-35 apart, or 2^17 - 2, where they are 2^-36 apart: a value just
    above 2^-36 is rounded up to the double in one case only, 393216 times.
    """
    values = np.ones((2**19, dim))
    values[0] = first
    values[2**17 :] = 2.0**-36 + 2.0**-50
    return values


def exactly(pair: exact_sums.Pair, place: tuple[int, ...] = (0,)) -> Fraction:
    return Fraction(float(pair[0][place])) + Fraction(float(pair[1][place]))


def test_neighbours_differ_by_the_replaced_value_only() -> None:
    one, other = drifting(1.0), drifting(-1.0)
    assert np.all(np.sum(one, axis=-2) - np.sum(other, axis=-2) > 2 + 2.0**-18)  # what plain sums do
    assert exactly(exact_sum(one, 1.0)) - exactly(exact_sum(other, 1.0)) == 2


@pytest.mark.parametrize("bound", [1e-30, 0.3, 1.0, 5.0, 1e30])
def test_sums_are_exact_up_to_a_cut_at_2_to_the_minus_62(bound: float) -> None:
    rng = np.random.default_rng(4)
    values = bound * rng.uniform(-1, 1, (2, 500, 3)) * 10.0 ** rng.integers(-12, 1, (2, 500, 3))
    values[0, :5] = bound * np.array([[1, -1, 0], [-1, 1, 1], [0.5, 2.0**-33, 2.0**-60], [1, 1, 1], [0, 0, -1]])
    found = exact_sum(values, bound)
    assert found[0].shape == found[1].shape == (2, 3)
    assert np.all(np.abs(found[1]) <= np.spacing(np.abs(found[0])) / 2)
    for place in np.ndindex(2, 3):
        exact = sum((Fraction(value) for value in values[place[0], :, place[1]].tolist()), Fraction(0))
        assert abs(exactly(found, place) - exact) <= 500 * Fraction(bound) / 2**62


numbers = st.floats(-1e30, 1e30, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-30)


@settings(deadline=None)
@given(numbers, numbers)
def test_pairs_hold_sums_and_products_exactly(a: float, b: float) -> None:
    one, other = np.array([a]), np.array([b])
    assert exactly(exact_sums.two_sum(one, other)) == Fraction(a) + Fraction(b)
    assert exactly(exact_sums.two_product(one, other)) == Fraction(a) * Fraction(b)
    twice = exact_sums.add_pairs(exact_sums.two_product(one, other), exact_sums.two_sum(one, other))
    exact = Fraction(a) * Fraction(b) + Fraction(a) + Fraction(b)
    assert abs(exactly(twice) - exact) <= (abs(Fraction(a) * Fraction(b)) + abs(Fraction(a)) + abs(Fraction(b))) / 2**99


@settings(deadline=None)
@given(st.floats(0.5, 1.0), st.integers(-300, 300), st.integers(-(2**51), 2**51), st.floats(-1, 1), st.booleans())
def test_the_nearest_grid_point_is_exact(mantissa: float, exponent: int, whole: int, part: float, half: bool) -> None:
    grid = math.ldexp(mantissa, exponent)
    exact = (Fraction(whole) + (Fraction(1, 2) if half else Fraction(part))) * Fraction(grid)
    high = float(exact)
    pair = np.array([high]), np.array([float(exact - Fraction(high))])
    nearest = round(exactly(pair) / Fraction(grid))
    assert exact_sums.count_grid_steps(*pair, grid)[0] == nearest
    if abs(nearest) <= 2**51:
        again = exact_sums.find_nearest_grid_point(pair, grid)
        assert exact_sums.count_grid_steps(again, np.zeros(1), grid)[0] == nearest


def test_sums_beyond_the_integers_are_refused() -> None:
    with pytest.raises(InvalidStatistic, match="2\\^51"):
        exact_sums.find_nearest_grid_point((np.array([2.0**52]), np.zeros(1)), 1.0)
    with pytest.raises(InvalidStatistic, match="2\\^62"):
        exact_sums.find_nearest_grid_point((np.array([2.0**62]), np.zeros(1)), 1.0)


@pytest.mark.parametrize("bound", [1.0, 2.0, math.nextafter(1.0, 0.0), 3e-7, 1e9])
def test_integers_on_the_wire_have_the_same_exact_sum(bound: float) -> None:
    rng = np.random.default_rng(3)
    shares = np.concatenate([rng.uniform(-1, 1, (500, 2)), np.ones((30, 2)), -np.ones((9, 2)), np.zeros((1, 2))])
    values = bound * shares
    values[::7] *= 1e-9
    steps = convert_to_steps(values, bound)
    assert steps.dtype == np.int64
    assert np.max(np.abs(steps * finest_step(bound) - values)) <= finest_step(bound)
    for order in (slice(None), slice(None, None, -1)):
        for one, other in zip(sum_steps(steps[order], finest_step(bound)), exact_sum(values, bound), strict=True):
            assert np.array_equal(one, other)
    exact = [sum(map(int, column)) for column in steps.T]  # by Python's integers, which have no largest
    high, rest = sum_steps(steps)
    assert [int(h) + int(r) for h, r in zip(high, rest, strict=True)] == exact


SIZES = st.lists(st.integers(1, 4), max_size=12)


@given(SIZES)
def test_runs_are_their_sizes(plain: list[int]) -> None:
    sizes = RunLengthSizes.of(plain)
    assert list(sizes) == [sizes[number] for number in range(len(sizes))] == plain
    before = [sizes.before(number) for number in range(len(plain) + 1)]
    assert before == [0, *itertools.accumulate(plain)]
    assert sizes.users == sum(plain)
    assert sizes.counts() == {size: plain.count(size) for size in plain}
    assert np.array_equal(sizes.each(size for size, _ in sizes.runs), plain)
    assert sizes == RunLengthSizes.of(iter(plain))
    assert len(sizes.runs) == len(list(itertools.groupby(plain)))


@given(SIZES, st.sampled_from([-1, 0, 1]))
def test_there_is_nothing_beyond_the_last(plain: list[int], beyond: int) -> None:
    sizes = RunLengthSizes.of(plain)
    with pytest.raises(IndexError):
        _ = sizes[-1 if beyond < 0 else len(plain) + beyond]


def test_a_long_run_takes_no_room() -> None:
    sizes = RunLengthSizes(((3, 10**15), (7, 10**15)))
    assert (sizes[10**15 - 1], sizes[10**15]) == (3, 7)
    assert sizes.before(10**15 + 2) == 3 * 10**15 + 14
    assert sizes.users == 10**16


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**31))
def test_sums_of_parts_are_numpys(degree: int, count: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, count * degree + rng.integers(3), dim)) * 10.0 ** rng.integers(-9, 9, (2, 1, 1))
    for each in (parts, rng.integers(0, 2**40, parts.shape)):
        groups = each[:, : count * degree].reshape(2, count, degree, dim)
        assert np.array_equal(exact_sums.sum_parts(each, count, degree), np.sum(groups, axis=-2))


@given(st.integers(2, 12), st.integers(1, 40), st.integers(0, 11), st.integers(0, 2**31))
def test_prefixes_are_the_same_for_few_and_many_parts(degree: int, count: int, rest: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = rng.normal(size=(2, count * degree + rest % degree, 1)), rng.normal(size=(2, count, 1))
    found = exact_sums.compute_prefixes([low, high], [degree])
    inside, above = (np.concatenate([np.zeros((2, 1, 1)), np.cumsum(each, axis=1)], axis=1) for each in (low, high))
    parent = np.arange(inside.shape[1]) // degree
    assert np.allclose(found, (above[:, parent] + inside - inside[:, parent * degree])[:, 1:], rtol=0, atol=1e-12)


@examples(30, full=100)
@given(st.integers(1, 60), st.lists(st.integers(2, 5), max_size=3), st.integers(0, 2**31))
def test_prefixes_are_sums_of_maximal_blocks(lowest: int, degrees: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [lowest]
    for degree in degrees:
        if counts[-1] // degree < 1:
            break
        counts.append(counts[-1] // degree)
    degrees = degrees[: len(counts) - 1]
    own = [rng.normal(size=(2, count, 1)) for count in counts]
    weights = [1.0, *rng.uniform(0.2, 1.0, len(counts) - 1)]
    blocks = exact_sums.average_blocks(own, degrees, weights)
    found = exact_sums.compute_prefixes(blocks, degrees)
    for q in range(1, lowest + 1):
        left, total, sizes = 0, np.zeros((2, 1)), np.cumprod([1, *degrees])
        for level in reversed(range(len(counts))):
            while left + sizes[level] <= q:
                total = total + estimate(own, degrees, weights, level, left // sizes[level])
                left += sizes[level]
        assert np.allclose(found[:, q - 1], total)


def estimate(own: list, degrees: list[int], weights: list[float], level: int, block: int) -> np.ndarray:
    if level == 0:
        return own[0][:, block]
    degree = degrees[level - 1]
    parts = [estimate(own, degrees, weights, level - 1, block * degree + i) for i in range(degree)]
    return weights[level] * own[level][:, block] + (1 - weights[level]) * sum(parts)
