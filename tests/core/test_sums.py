from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.core.sums import exact_sum


def drifting(first: float, dim: int = 2) -> np.ndarray:
    """Half a million values in [-1, 1] whose rounding errors depend on the first one.

    After 2^17 ones the sum is 2^17, where floats are 2^-35 apart, or 2^17 - 2, where they are 2^-36 apart: a value just
    above 2^-36 is rounded up to the double in one case only, 393216 times.
    """
    values = np.ones((2**19, dim))
    values[0] = first
    values[2**17 :] = 2.0**-36 + 2.0**-50
    return values


def test_neighbours_differ_by_the_replaced_value_only() -> None:
    """A user's replacement moves the computed sum by more than it moves the real one."""
    one, other = drifting(1.0), drifting(-1.0)
    assert np.all(np.sum(one, axis=-2) - np.sum(other, axis=-2) > 2 + 2.0**-18)  # what plain sums do
    np.testing.assert_allclose(exact_sum(one, 1.0) - exact_sum(other, 1.0), 2.0, rtol=0, atol=2.0**-34)


@pytest.mark.parametrize("bound", [1e-30, 0.3, 1.0, 5.0, 1e30])
def test_sum_is_correct(bound: float) -> None:
    """The sum of ordinary values, of any size, is farther from the exact one than its docstring says."""
    rng = np.random.default_rng(4)
    values = bound * rng.uniform(-1, 1, (2, 500, 3)) * 10.0 ** rng.integers(-12, 1, (2, 500, 3))
    values[0, :5] = bound * np.array([[1, -1, 0], [-1, 1, 1], [0.5, 2.0**-33, 2.0**-60], [1, 1, 1], [0, 0, -1]])
    found = exact_sum(values, bound)
    assert found.shape == (2, 3)
    for place in np.ndindex(2, 3):
        exact = math.fsum(values[place[0], :, place[1]])
        assert abs(found[place] - exact) <= 500 * bound * 2.0**-52
