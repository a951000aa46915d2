"""Arms as a table with names, and reports of an agent that had to be clipped."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bandanna.agent.agent import Agent
from bandanna.errors import ClippingWarning, InvalidArgument, InvalidStatistic
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none


def agent(**changes: Any) -> Agent:
    """Batches of four."""
    policy = LinUCB(**{"dim": 2, "horizon": 40, "batch": 4, "privacy": none(), **changes})
    return Agent(policy=policy, test=True, seed=0)


def test_arms_of_a_table_have_its_names() -> None:
    table = pd.DataFrame({"price": [0.9, 0.1, 0.2], "taste": [0.0, 0.3, 0.4]}, index=["tea", "coffee", "milk"])
    assert agent().act(table).arm == "tea"
    assert agent().recommend(table) == "tea"
    assert agent().act(table[table.price < 0.5]).arm == "milk"
    assert agent().act(table.reset_index(drop=True)[1:]).arm == 2
    assert [decision.arm for decision in agent().act_many([table, table[1:]])] == ["tea", "milk"]
    assert agent().act(table.to_numpy()).arm == 0
    pairs = pd.DataFrame([[0.1, 0.1], [0.9, 0.0]], index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    assert agent().act(pairs).arm == ("a", 2)


def test_tables_of_other_libraries_have_names() -> None:

    class Table:
        index = ("x", "y")

        def to_numpy(self) -> Any:
            return np.array([[0.1, 0.0], [0.9, 0.0]])

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.to_numpy()

    assert agent().act(Table()).arm == "y"


@pytest.mark.parametrize(
    ("table", "error", "named"),
    [
        (pd.DataFrame([[0.1, 0.0], [0.9, 0.0]], index=["a", "a"]), InvalidArgument, r"contexts\.index\[1\] must be "),
        (pd.DataFrame([[0.1, 0.0, 0.0]], index=["a"]), InvalidStatistic, r"got an array of shape \(1, 3\)"),
        (pd.DataFrame([[0.1, np.nan]], index=["a"]), InvalidStatistic, "contexts, arm 0, feature 1"),
        (pd.DataFrame([["x", "y"]], index=["a"]), InvalidStatistic, "contexts"),
    ],
)
def test_bad_tables_are_refused_by_name(table: Any, error: type[Exception], named: str) -> None:
    one = agent()
    with pytest.raises(error, match=named):
        one.act(table)
    assert one.decisions == 0


def play(one: Agent, features: list[float], reward: float, count: int) -> None:
    """Decisions that are answered."""
    for _ in range(count):
        one.observe(one.act([features]).id, reward)


def test_an_agent_says_once_that_most_reports_were_clipped(tmp_path: Path) -> None:
    one = agent()
    play(one, [3.0, 4.0], 1.0, 5)  # the fifth closes the first batch
    assert (one.clipped, one.decisions) == (4, 5)
    with pytest.warns(ClippingWarning, match="4 of 4 reports had to be clipped") as said:
        play(one, [3.0, 4.0], 2.0, 8)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert (one.clipped, one.decisions) == (12, 13)
    one.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").clipped == 12
    assert "clipped" not in repr(one)  # the count is not protected


def test_a_warning_as_error_loses_no_decision() -> None:
    one = agent()
    play(one, [3.0, 4.0], 1.0, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ClippingWarning):
            one.act([[0.1, 0.1]])
        assert one.decisions == 5
        one.act([[0.1, 0.1]])


def test_missing_and_short_reports_are_not_clipped() -> None:
    one = agent()
    play(one, [0.3, 0.4], 1.0, 2)
    play(one, [3.0, 4.0], 1.0, 2)
    one.act_many([[[3.0, 4.0]]] * 4)  # never answered
    one.close()
    assert (one.clipped, one.missing) == (2, 4)
    quiet = agent()
    play(quiet, [0.3, 0.4], 1.0, 8)
    quiet.close()
    assert quiet.clipped == 0


def test_the_last_batch_is_told_about_too() -> None:
    one = agent()
    play(one, [0.3, 0.4], 3.0, 4)
    with pytest.warns(ClippingWarning, match="4 of 4"):
        one.close()
