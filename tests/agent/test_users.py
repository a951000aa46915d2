"""Users' ids: what may be one, and that no message shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.errors import BudgetExceeded, InvalidArgument

SETS = np.random.default_rng(0).normal(size=(4, 2, 3)) / 3


def agent() -> Agent:
    """Nobody may take part twice."""
    return Agent(policy=bd.LinUCB(dim=3, horizon=20, batch=5, privacy=bd.local(epsilon=1.0, delta=1e-5)))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_a_numpy_id_counts_as_the_plain_number(kind: type[np.integer[Any]]) -> None:
    mine = agent()
    mine.act(SETS[0], user=kind(3))
    for same in (3, "3", np.int32(3)):
        with pytest.raises(BudgetExceeded):
            mine.act(SETS[1], user=same)
    mine.act_many(SETS[:2], users=np.array([4, 5], dtype=kind))
    with pytest.raises(BudgetExceeded):
        mine.act(SETS[1], user=5)


@pytest.mark.parametrize(
    "user",
    [True, np.True_, 3.0, np.float64(3), 10**5000, pd.NA, np.timedelta64(3), "", b"a", ("a",), np.ma.masked],
    ids=lambda user: type(user).__name__,
)
def test_a_bad_id_is_refused_and_leaves_no_decision(user: Any) -> None:
    mine = agent()
    with pytest.raises(InvalidArgument, match=r"^user must be ") as alone:
        mine.act(SETS[0], user=user)
    with pytest.raises(InvalidArgument, match=r"^users\[1\] must be "):
        mine.act_many(SETS[:2], users=["fine", user])
    assert len(str(alone.value)) < 200
    assert mine.decisions == 0
    assert mine.act(SETS[0], user="fine")


@pytest.mark.parametrize(
    "users",
    ["ab", b"ab", 3, {"a": 1, "b": 2}, {"a", "b"}, np.ma.array([1, 2], mask=[0, 1]), ["a"], ["a", "b", "c"], 2.5],
    ids=["text", "bytes", "number", "mapping", "set", "masked", "short", "long", "float"],
)
def test_what_is_no_list_of_users(users: Any) -> None:
    mine = agent()
    with pytest.raises(InvalidArgument, match=r"^users must be ") as refused:
        mine.act_many(SETS[:2], users=users)
    assert "one for each set of arms" in str(refused.value)
    assert mine.decisions == 0


@pytest.mark.parametrize("user", ["secretly@example.org" * 50_000, 7_777_777], ids=["long", "number"])
def test_no_message_shows_an_id(user: Any) -> None:
    mine = agent()
    mine.act(SETS[0], user=user)
    with pytest.raises(BudgetExceeded) as refused:
        mine.act(SETS[1], user=user)
    assert str(user)[:7] not in str(refused.value)
    assert len(str(refused.value)) < 300
