"""An agent says how long its releases take before the first one, and warns where that is long."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import SlowReleaseWarning

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def test_a_slow_release_is_announced() -> None:
    policy = bd.LinUCB(dim=5, horizon=1_000_000, batch=500_000, privacy=bd.local(**BUDGET))
    with pytest.warns(SlowReleaseWarning, match=r"about 3\.5 seconds"):
        agent = bd.Agent(policy=policy)
    assert agent.release_seconds == pytest.approx(500_000 * 20 * 3.5e-7, rel=0.01)


def test_a_quick_release_is_not() -> None:
    quick = bd.Agent(policy=bd.LinUCB(dim=3, horizon=1000, batch=100, privacy=bd.shuffle(**BUDGET)))
    assert 0 < quick.release_seconds < 0.01
    many = bd.LinUCB(dim=5, horizon=100_000, batch=50_000, privacy=bd.local(**BUDGET))
    assert bd.Agent(policy=many, test=True, seed=0).release_seconds < 1


def test_the_estimate_is_that_of_the_largest_batch_so_far() -> None:
    grows = bd.LinUCB(
        dim=2, horizon=1000, batch=bd.policies.geometric(first=10, ratio=3.0), privacy=bd.shuffle(**BUDGET)
    )
    protocols = grows._channel.protocols
    largest = max(protocols)
    expected = protocols[largest].draws(largest).seconds(secure=True)
    assert bd.Agent(policy=grows).release_seconds == expected
    first = bd.LinUCB(dim=2, horizon=100, batch=50, privacy=bd.shuffle(**BUDGET))
    same = bd.Agent(policy=bd.policies.Anytime(first=first)).release_seconds
    assert same == bd.Agent(policy=first).release_seconds


@pytest.mark.parametrize("name", ["LinUCB", "LinTS", "LinUCB-JDP"])
def test_a_decision_costs_the_same_at_any_horizon(name: str) -> None:
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5} if name.endswith("JDP") else {}

    def calls(horizon: int) -> int:
        made = bd.Agent(policy=bd.make(name, dim=2, horizon=horizon, **budget), arms=np.eye(2), test=True, seed=0)
        count = 0

        def counted(*_: Any) -> None:
            nonlocal count
            count += 1

        for _ in range(4):  # what is found out once is known then
            made.observe(made.act(), 1.0)
        try:
            sys.setprofile(counted)
            for _ in range(8):
                made.observe(made.act(), 1.0)
        finally:
            sys.setprofile(None)
        return count

    assert calls(10**6) < 1.1 * calls(10**3)
