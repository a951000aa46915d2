"""Calls by wrong names are answered with the right ones."""

from __future__ import annotations

from typing import Any

import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bd.central(eps=1.0, delta=1e-5), "Did you mean 'epsilon'"),  # type: ignore[call-arg]
        (lambda: bd.shuffle(rho=1.0), "rho is not an argument of bd.shuffle"),  # type: ignore[call-arg]
        (lambda: bd.concurrent(delta=1e-5), "epsilon"),  # type: ignore[call-arg]
        (lambda: bd.central(1.0, 1e-5, 0.5), "3 without names"),  # type: ignore[misc]
        (lambda: bd.Agent(bd.LinUCB(dim=2, horizon=5, privacy=bd.none()), ["a"]), r"bd.Agent\(arms=...\)"),  # type: ignore[misc]
        (lambda: bd.Agent(), "policy"),  # type: ignore[call-arg]
        (lambda: bd.simulate(bd.LinUCB(dim=2, horizon=5, privacy=bd.none()), None, seeds=3), "Did you mean 'n_seeds'"),  # type: ignore[arg-type, call-arg]
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(call: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        call()
