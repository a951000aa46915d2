"""An agent with a public map: records stand wherever features do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bandanna as bd
from bandanna.data.features.map import Intercept, Map, OneHot, Range, UnitBall
from bandanna.errors import FeatureWarning, InvalidArgument, InvalidStatistic

ARMS = Map(Range(price=(0, 10)), OneHot(site=["a", "b"]), UnitBall(), Intercept())
USERS = Map(Range(price=(0, 10)), OneHot(site=["a", "b"]))
FRAME = pd.DataFrame({"price": [1.0, 2.0, 9.0], "site": ["a", "b", "a"]}, index=["x", "y", "z"])
SHUFFLED = bd.shuffle(epsilon=2.0, delta=1e-3)


def with_arms(features: Map | None = ARMS, **more: Any) -> bd.Agent:
    """A test agent that chooses among arms with features."""
    policy = bd.LinTS(dim=ARMS.dim, horizon=60, intercept=True, privacy=SHUFFLED, batch=20)
    return bd.Agent(policy=policy, features=features, test=True, seed=3, **more)


def with_users(features: Map | None = USERS) -> bd.Agent:
    """A test agent whose arms have models of their own."""
    policy = bd.LinTS(n_arms=2, features=USERS.dim, horizon=60, privacy=SHUFFLED, batch=20)
    return bd.Agent(policy=policy, features=features, arms=["l", "r"], test=True, seed=3)


def test_records_are_what_their_features_are() -> None:
    mapped, plain = with_arms(), with_arms(None)
    features = dict(zip(FRAME.index, ARMS(FRAME), strict=True))
    records = {name: row.to_dict() for name, row in FRAME.iterrows()}
    for form in (FRAME, records):
        assert mapped.act(form) == plain.act(features)
        assert mapped.recommend(form) == plain.recommend(features)
    assert mapped.act(list(records.values())) == plain.act(ARMS(FRAME))
    assert mapped.act_many([FRAME, records]) == plain.act_many([features, features])
    assert mapped.features == ARMS
    assert mapped.mapped.rows == 7 * 3


def test_records_of_users_are_what_their_features_are() -> None:
    mapped, plain = with_users(), with_users(None)
    record = {"price": 3, "site": "b"}
    assert mapped.act(record) == plain.act(USERS(record))
    assert mapped.act(FRAME[:1]) == plain.act(USERS(FRAME)[0])
    assert mapped.act(FRAME.iloc[1]) == plain.act(USERS(FRAME)[1])
    assert mapped.act_many(FRAME) == plain.act_many(USERS(FRAME))
    with pytest.raises(InvalidStatistic, match="the record of one user, got 3"):
        mapped.act(FRAME)
    assert mapped.decisions == 6


def test_arms_that_stay_may_be_records() -> None:
    mapped = with_arms(arms=FRAME)
    plain = with_arms(None, arms=dict(zip(FRAME.index, ARMS(FRAME), strict=True)))
    assert mapped.act_many(30) == plain.act_many(30)


def test_a_save_holds_the_map(tmp_path: Path) -> None:
    for agent in (with_arms(), with_arms(arms=FRAME)):
        contexts = () if agent._runner.arms else (FRAME,)
        for _ in range(25):
            agent.observe(agent.act(*contexts).id, 1.0)
        agent.save(path := tmp_path / f"agent{len(contexts)}")
        again = bd.Agent.load(path)
        assert again.features == ARMS
        assert again.act(*contexts).arm == agent.act(*contexts).arm
        assert again.mapped.rows == (3 if contexts else 0)


def test_a_map_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"with Intercept\(\)"):
        with_arms(USERS)
    with pytest.raises(InvalidArgument, match=r"without Intercept\(\)"):
        with_users(ARMS)
    with pytest.raises(InvalidArgument, match="got a map to 2"):
        with_arms(Map(Range(price=(0, 1)), Intercept()))
    with pytest.raises(InvalidArgument, match=r"a map, as"):
        with_arms({"price": (0, 1)})  # type: ignore[arg-type]


def test_most_records_out_of_range_is_said_once() -> None:
    agent = with_users()
    for _ in range(9):
        agent.act({"price": 99, "site": "a"})
    with pytest.warns(FeatureWarning, match="10 values of 'price' out of their range") as caught:
        agent.act({"price": 99, "site": "a"})
    assert caught[0].filename == __file__
    agent.act({"price": 99, "site": "a"})
    assert agent.mapped.columns["price"].outside == 11


def test_a_refused_record_leaves_nothing() -> None:
    agent = with_arms()
    for odd in (FRAME.rename(columns={"price": "cost"}), [1.0], np.zeros((2, 3)), {"x": 1.0}):
        with pytest.raises(InvalidStatistic):
            agent.act(odd)
    assert agent.decisions == 0
