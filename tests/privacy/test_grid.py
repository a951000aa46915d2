"""The fine grid: fine enough, and exact in binary."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.privacy.prices import fine_grid


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_a_grid_is_fine_beside_sensitivity_and_noise(std: float, change: float, touched: int) -> None:
    grid = fine_grid(std, change, touched)
    assert 0 < grid <= std / 2**20
    assert grid * math.sqrt(touched) <= change / 2**14 * (1 + 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_a_grid_is_no_finer_than_needed(std: float, change: float, touched: int) -> None:
    grid = 2 * fine_grid(std, change, touched)
    assert grid > std / 2**20 or grid * math.sqrt(touched) > change / 2**14 * (1 - 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_grids_are_the_noise_over_a_power_of_two(std: float, change: float, touched: int) -> None:
    steps = std / fine_grid(std, change, touched)
    assert math.frexp(steps)[0] == 0.5


@pytest.mark.parametrize("touched", [1, 4, 25])
@pytest.mark.parametrize(("std", "change"), [(1.0, 1.0), (2.0**10, 1.0), (1.05 * 2**10, 1.0), (2.0**10, 0.95)])
def test_grids_are_right_next_to_powers_of_two(std: float, change: float, touched: int) -> None:
    grid = fine_grid(std, change, touched)
    assert grid * math.sqrt(touched) <= change * 2.0**-14
    assert std / grid == 2**20 or 2 * grid * math.sqrt(touched) > change * 2.0**-14
