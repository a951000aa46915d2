"""Matrices in rows of eight are those of the loops, and arms side by side those of one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.core.streams import Streams
from bandanna.kernels.eights import product, room, sweep
from bandanna.kernels.pointing import pointing, pointing_columns
from bandanna.kernels.scoring import swept


@pytest.mark.parametrize("d", [1, 2, 3, 5, 7, 8, 9, 12])
def test_inverses_have_the_same_bits(d: int) -> None:
    """An inverse in rows of eight differs from the sweeps' in a bit, or one of them calls another matrix definite."""
    rng, column, definite = np.random.default_rng(d), np.empty(d), 0
    for _ in range(50):
        half = rng.standard_normal((d, d))
        matrix = half @ half.T + rng.uniform(-1.0, 1.0) * np.eye(d)
        one, two = matrix.copy(), room(d)
        two[:, :d] = matrix
        found = swept(one, column)
        assert sweep(two, column) is found
        definite += found
        if found:
            np.testing.assert_array_equal(two[:, :d], one)
    assert 0 < definite < 50


@pytest.mark.parametrize("d", [1, 2, 5, 8, 9, 12])
def test_products_have_the_same_bits(d: int) -> None:
    """A product in rows of eight is added up in another order, or with what stands behind the last column."""
    rng, (one, two, out) = np.random.default_rng(d), (room(d), room(d), room(d))
    one[:, :d], two[:, :d] = rng.standard_normal((2, d, d))
    out[:] = np.nan
    expected = np.zeros((d, d))
    for m in range(d):
        expected += one[:, m : m + 1] * two[m : m + 1, :d]
    product(one, two, out)
    np.testing.assert_array_equal(out[:, :d], expected)


@pytest.mark.parametrize(("dim", "last"), [(1, 0.5), (4, 0.25), (7, 0.0)])
def test_arms_side_by_side_are_those_of_one_after_the_other(dim: int, last: float) -> None:
    """The arms that LinUCB's kernel draws are not those of the world, or its generator goes on elsewhere."""
    n, words = 131, Streams([5]).words("contexts")
    assert words is not None
    one, two = words[0].copy(), words[0].copy()
    rows, columns = np.empty((n, dim + 1)), np.empty((dim + 1, n))
    pointing(one, np.array([0.7]), dim, last, rows)
    pointing_columns(two, 0.7, dim, last, np.empty(n * dim), np.empty(n), columns)
    np.testing.assert_array_equal(columns.T, rows)
    np.testing.assert_array_equal(one, two)
