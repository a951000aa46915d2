from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.errors import InvalidStatistic
from bandanna.numeric import exact_sums
from bandanna.numeric.exact_sums import convert_to_steps, exact_sum, finest_step, sum_steps


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
