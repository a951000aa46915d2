"""Slopes, and what rates are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball
from bandanna.experiments.executors import ignore_progress
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.result import Result
from reproductions.figure import Curve
from reproductions.rates import Line, Rate, across, draw_rates, rates_and_slopes, regrets_over


def regret(*, algorithm: str, horizon: int, n_seeds: int, seed: int) -> Result:
    """A regret of T^0.6, on average over two seeds."""
    policy = LinUCB(dim=2, horizon=100, privacy=none(), batch=10)
    one = simulate(policy, LinearContextual(dim=2, n_arms=3), n_seeds=n_seeds, seed=seed, checkpoints=1)
    return replace(one, checkpoints=np.array([horizon]), regret=np.array([[0.9], [1.1]]) * horizon**0.6)


@pytest.fixture(scope="module")
def rates() -> list[Rate]:
    """One line of three horizons."""
    line = Line(arguments={"algorithm": "A"}, theory=0.6, horizons=(100, 1000, 10_000))
    return regrets_over(regret, [line], n_seeds=2, seed=0, jobs=1, progress=ignore_progress)


def test_the_slope_of_a_power_is_its_exponent(rates: list[Rate]) -> None:
    document: dict[str, Any] = rates_and_slopes(rates)
    assert document["slopes"] == [{"algorithm": "A", "slope": pytest.approx(0.6), "theory": 0.6}]
    assert [row["horizon"] for row in document["rows"]] == [100, 1000, 10_000]
    assert document["rows"][1] == {
        "algorithm": "A", "horizon": 1000, "mean": pytest.approx(1000**0.6), "stderr": pytest.approx(0.1 * 1000**0.6),
        "n_seeds": 2,
    }  # fmt: skip


def test_a_slope_needs_every_point() -> None:
    points = tuple(Curve(row={"n": n, "std": std}) for n, std in ((10, 1.0), (100, None)))
    assert Rate(arguments={}, theory=0.5, points=points, x="n", y="std").slope is None


def test_rates_state_the_epsilon_of_what_ran(rates: list[Rate], tmp_path: Path) -> None:
    spent = (0.98, 1.0, 0.9)
    private = [CentralGaussian.calibrate(domain=Ball(dim=1), budget=ApproxDP(epsilon=e, delta=1e-3)) for e in spent]
    points = tuple(
        replace(point, result=replace(point.result, guarantee=each.guarantee))
        for point, each in zip(rates[0].points, private, strict=True)
        if point.result is not None
    )
    line = replace(rates[0], points=points)
    assert line.epsilon == "ε ≤ 1"
    assert replace(line, points=points[1:2] * 3).epsilon == "ε = 1"
    alone = tuple(Curve(row=point.row, promise=each.guarantee) for point, each in zip(points, private, strict=True))
    assert replace(line, points=alone).epsilon == line.epsilon
    _, svg = draw_rates([line], tmp_path / "scaling", title="t", label="{algorithm}")
    assert "A, ε ≤ 1, slope 0.60 (0.6)" in svg.read_text()


def test_rates_are_drawn_at_their_horizons(rates: list[Rate], tmp_path: Path) -> None:
    assert rates[0].epsilon == ""  # no privacy, no epsilon
    drawn = across([100, 1000, 10_000], rates[0].points)
    assert (drawn.checkpoints.tolist(), drawn.horizon) == ([100, 1000, 10_000], 10_000)
    assert [path.suffix for path in draw_rates(rates, tmp_path / "scaling", title="t", label="{algorithm}")] == [
        ".png",
        ".svg",
    ]
