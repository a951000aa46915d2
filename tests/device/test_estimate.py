"""Estimates add up."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.device.domain import Estimate


def test_sums_of_batches() -> None:
    """Totals, counts or variances of separately noised batches do not add, or an estimate is changed by adding."""
    first = Estimate(total=np.array([[1.0, 2.0], [0.0, 1.0]]), count=3, variance=0.5)
    second = Estimate(total=np.array([[10.0, 20.0], [5.0, 5.0]]), count=4, variance=0.25)
    both = first + second
    np.testing.assert_array_equal(both.total, [[11.0, 22.0], [5.0, 6.0]])
    assert (both.count, both.variance) == (7, 0.75)
    np.testing.assert_array_equal(first.total, [[1.0, 2.0], [0.0, 1.0]])
    assert (first + second + first).count == 10


def test_estimates_are_frozen() -> None:
    """An estimate can be given other users afterwards."""
    estimate = Estimate(total=np.zeros(2), count=3, variance=0.5)
    with pytest.raises(AttributeError):
        estimate.count = 4
