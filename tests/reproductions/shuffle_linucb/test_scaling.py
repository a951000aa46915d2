"""Slopes of regret in the horizon; that they are those of the theorems is tested in tests/rates."""

from __future__ import annotations

import pytest

from bandanna.errors import InvalidArgument
from reproductions.shuffle_linucb.scaling import LINES, line, scaling


def test_horizons_are_a_hundred_times_apart() -> None:
    assert line("LinUCB-SDP-Vec").horizons == (10**6, 3162278, 10**7, 31622777, 10**8)
    assert line("LinUCB-LDP-batched", 10**6, 3).horizons == (10**6, 10**7, 10**8)
    assert line("LinUCB", 10**8, 2).horizons == (10**5, 10**7)


def test_lines_belong_to_their_algorithm() -> None:
    rates = scaling(n_seeds=1, horizon=10_000, points=2)
    assert [rate.arguments["algorithm"] for rate in rates] == list(LINES)
    for name, rate in zip(LINES, rates, strict=True):
        assert tuple(point.row["horizon"] for point in rate.points) == line(name, 10_000, 2).horizons
        assert {point.result.name for point in rate.points if point.result} == {name}
    with pytest.raises(InvalidArgument, match="horizon"):
        scaling(horizon=100)
