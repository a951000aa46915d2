"""Slopes of regret in the horizon; that they are those of the theorems is tested in tests/rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.papers.scaling_000 import LINES, Scaling, horizons, regret, scaling


def test_horizons_are_a_hundred_times_apart() -> None:
    """Points of a line are not spread evenly over two decades that end where the line says."""
    assert horizons("LinUCB-SDP-Vec") == (10**6, 3162278, 10**7, 31622777, 10**8)
    assert horizons("LinUCB-LDP-batched", 10**6, 3) == (10**6, 10**7, 10**8)
    assert horizons("LinUCB", 10**8, 2) == (10**5, 10**7)


def test_the_slope_of_a_power_is_its_exponent() -> None:
    """A regret of T^0.6 does not have slope 0.6, or its rows are not its numbers."""
    one = regret(algorithm="LinUCB", horizon=100, n_seeds=2)
    results = tuple(
        replace(one, checkpoints=np.array([t]), regret=np.array([[0.9], [1.1]]) * t**0.6) for t in (100, 1000, 10_000)
    )
    line = Scaling(algorithm="LinUCB-SDP-Vec", results=results)
    assert line.slope == pytest.approx(0.6)
    assert line.theory == 0.6
    assert [row["horizon"] for row in line.rows()] == [100, 1000, 10_000]
    assert line.rows()[1] == {
        "algorithm": "LinUCB-SDP-Vec", "horizon": 1000, "mean": pytest.approx(1000**0.6),
        "stderr": pytest.approx(0.1 * 1000**0.6), "n_seeds": 2,
    }  # fmt: skip
    assert line.over_horizons().horizon == 10_000


def test_lines_are_in_order() -> None:
    """Results of one algorithm are given to another, or a horizon that is too short to be divided is not refused."""
    lines = scaling(n_seeds=1, horizon=10_000, points=2)
    assert [line.algorithm for line in lines] == list(LINES)
    for line in lines:
        assert tuple(result.horizon for result in line.results) == horizons(line.algorithm, 10_000, 2)
        assert {result.name for result in line.results} == {line.algorithm}
    with pytest.raises(InvalidArgument, match="horizon"):
        scaling(horizon=100)
