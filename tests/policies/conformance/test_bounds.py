"""Every result can be asked for the bounds that belong to its policy."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.policies.registry import ALGORITHMS, compute_bounds

from .catalogue import CASES, OF_EVERY_CLASS, Case, every_case
from .driving import simulated


@pytest.mark.often(of=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_every_result_has_its_regret_bounds(case: Case) -> None:
    result = simulated(case.key, "law", seeds=2)
    for curve in result.bounds():
        assert curve.values.shape == result.checkpoints.shape
        assert np.all(curve.values >= 0)


def test_bounds_stand_with_the_policies() -> None:
    setting = {"policy": "UCB1", "n_arms": 3, "trust": "none", "epsilon": np.inf, "delta": 0.0}
    assert [formula.__name__ for formula, _ in ALGORITHMS["UCB1"].kind._regret_bounds(setting)] == ["finite_lower"]
    assert list(type(CASES["one's own"].policy)._regret_bounds(setting)) == []


@pytest.mark.parametrize("name", ["RS-GLinUCB", "GLM-JDP", "GLM-SDP"])
def test_bounds_begin_with_the_first_round(name: str) -> None:
    setting = {
        "policy": ALGORITHMS[name].kind.__name__,
        "dim": 3,
        "n_arms": 5,
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    curves = compute_bounds(setting, [1, 2, 10])
    assert curves
    for curve in curves:
        assert np.all(np.diff(curve.values) > 0)
        assert curve.values[0] >= 0
