"""Searches end on the safe side and next to the threshold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.numeric.search import find_crossing, find_greatest, find_least, find_least_integer


@given(st.floats(1e-12, 1e12), st.floats(1e-14, 0.1))
def test_the_least_x_meets_the_condition_closely(threshold: float, relative: float) -> None:
    found = find_least(lambda x: x >= threshold, 1e-13, 1e13, relative=relative)
    assert threshold <= found <= threshold * (1 + relative) * (1 + 1e-15)


@given(st.floats(1e-12, 1e12), st.floats(1e-14, 0.1))
def test_the_greatest_x_meets_the_condition_closely(threshold: float, relative: float) -> None:
    found = find_greatest(lambda x: x <= threshold, 1e-13, 1e13, relative=relative)
    assert threshold / (1 + relative) * (1 - 1e-15) <= found <= threshold


def test_conditions_that_hold_at_an_end_are_searched() -> None:
    assert find_least(lambda x: True, 2.0, 8.0) == 2.0
    assert find_least(lambda x: x >= 8.0, 2.0, 8.0) == 8.0
    assert find_greatest(lambda x: True, 2.0, 8.0) == 8.0
    assert find_greatest(lambda x: x <= 2.0, 2.0, 8.0) == 2.0
    assert find_least(lambda x: x >= 3.0, 3.0, 3.0) == 3.0


def test_a_search_to_the_last_bit_ends() -> None:
    low = 1.0
    high = math.nextafter(math.nextafter(low, 2.0), 2.0)
    assert find_least(lambda x: x > low, low, high, relative=1e-300) in (math.nextafter(low, 2.0), high)


def test_huge_and_tiny_numbers_do_not_overflow() -> None:
    assert find_least(lambda x: x >= 1e300, 1e-300, 1.7e308) == pytest.approx(1e300, rel=1e-11)
    assert find_least(lambda x: x >= 1e-300, 1e-307, 1e300) == pytest.approx(1e-300, rel=1e-11)


@given(st.integers(1, 10**12), st.integers(-5, 10**12))
def test_the_least_whole_number_is_found_from_any_start(threshold: int, start: int) -> None:
    asked: list[int] = []

    def meets(n: int) -> bool:
        asked.append(n)
        return n >= threshold

    assert find_least_integer(meets, start, most=10**13) == threshold
    assert all(1 <= n <= 10**13 for n in asked)
    assert len(asked) < 200


def test_the_least_whole_number_stays_within_its_limit() -> None:
    assert find_least_integer(lambda n: n >= 100, 5, most=99) is None
    assert find_least_integer(lambda n: n >= 100, 5, most=100) == 100
    assert find_least_integer(lambda n: n >= 100, 10**6, most=100) == 100
    assert find_least_integer(lambda n: False, 1, most=1) is None
    assert find_least_integer(lambda n: True, 10**9, most=10**10) == 1


@pytest.mark.parametrize("root", [1e-9, 0.3, 1.0, 7.77, 123.456])
@pytest.mark.parametrize("power", [0.2, 1.0, 5.0])
def test_crossing_is_found_in_few_steps(root: float, power: float) -> None:
    asked = []

    def excess(x: float) -> float:
        asked.append(x)
        return (root / x) ** power - 1

    found = find_crossing(excess, root / 2, 1.9 * root)
    assert excess(found) <= 0
    assert root * (1 - 1e-15) <= found <= root * (1 + 1e-12)
    assert len(asked) <= 25  # 40 halvings


def test_crossing_of_a_step_and_of_infinite_values() -> None:
    assert find_crossing(lambda x: 1.0 if x < 0.4 else -1.0, 0.1, 1.0) == pytest.approx(0.4, rel=1e-12)
    assert find_crossing(lambda x: 1.0 if x < 0.4 else -math.inf, 0.1, 1.0) == pytest.approx(0.4, rel=1e-12)
    assert find_crossing(lambda x: -1.0, 0.1, 1.0) == 0.1


def test_crossing_prefers_few_digits() -> None:
    assert find_crossing(lambda x: 1.0 - x, 0.7, 1.3) == 1.0
    assert find_crossing(lambda x: 0.25 - x, 0.2, 0.31) == 0.25
