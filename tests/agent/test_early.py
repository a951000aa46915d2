"""Features and rewards that are out of range are noticed before a batch is full."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import bandanna as bd
from bandanna.errors import ClippingWarning


def agent(**changes: Any) -> bd.Agent:
    """Whose first batch has more than a hundred people."""
    privacy = bd.shuffle(epsilon=1.0, delta=1e-5)
    return bd.Agent(
        policy=bd.LinTS(horizon=4_000, batch=120, privacy=privacy, **(changes or {"dim": 2})), test=True, seed=0
    )


def test_features_that_nobody_scaled_are_noticed_early() -> None:
    one = agent()
    for _ in range(9):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})
    with pytest.warns(ClippingWarning, match="10 of the first 10 features"):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})
    for _ in range(20):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})  # said once
    with pytest.warns(ClippingWarning, match="features"):
        agent(n_arms=2, features=2).act_many([[3.0, 4.0]] * 20)


def test_stars_instead_of_rewards_are_noticed_early() -> None:
    one = agent()
    for stars in (1, 4, 5, 3, 4, 1, 2, 5, 5):
        one.observe(one.act([[0.1, 0.2], [0.3, 0.1]]), stars)
    last = one.act([[0.1, 0.2], [0.3, 0.1]])
    with pytest.warns(ClippingWarning, match=r"of the first 10 rewards.*\[0, 1\]"):
        assert one.observe(last, 4)


def test_a_few_are_let_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = agent(dim=3, intercept=True)
        for step in range(30):
            decision = one.act([[0.5, 0.5 + (step == 3), 1.0], [0.2, 0.3, 1.0]])
            one.observe(decision, 1.0 + (step == 4))
