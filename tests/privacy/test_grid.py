"""The fine grid: fine enough, and exact in binary."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.privacy.prices import fine_grid


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_fine_enough(std: float, change: float, touched: int) -> None:
    """Rounding raises the sensitivity by more than 2^-14 of it, or the noise has fewer than 2^20 steps."""
    grid = fine_grid(std, change, touched)
    assert 0 < grid <= std / 2**20
    assert grid * math.sqrt(touched) <= change / 2**14 * (1 + 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_no_finer_than_needed(std: float, change: float, touched: int) -> None:
    """A grid twice as coarse would do as well: integers on the wire are longer than they need be."""
    grid = 2 * fine_grid(std, change, touched)
    assert grid > std / 2**20 or grid * math.sqrt(touched) > change / 2**14 * (1 - 1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**7))
def test_steps_are_a_power_of_two(std: float, change: float, touched: int) -> None:
    steps = std / fine_grid(std, change, touched)
    assert math.frexp(steps)[0] == 0.5


@pytest.mark.parametrize("touched", [1, 4, 25])
@pytest.mark.parametrize(("std", "change"), [(1.0, 1.0), (2.0**10, 1.0), (1.05 * 2**10, 1.0), (2.0**10, 0.95)])
def test_beside_powers_of_two(std: float, change: float, touched: int) -> None:
    """A factor of 0.9 in noise or sensitivity, or a forgotten dimension, changes nothing where it should."""
    grid = fine_grid(std, change, touched)
    assert grid * math.sqrt(touched) <= change * 2.0**-14
    assert std / grid == 2**20 or 2 * grid * math.sqrt(touched) > change * 2.0**-14
