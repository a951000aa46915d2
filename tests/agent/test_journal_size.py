"""What a journal holds of those who took part: no more than it takes to count them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.episodes import EpisodeSpan, OpenSlots, Slot, slot_count_of_member
from bandanna.errors import BudgetExceeded
from bandanna.policies.base import FixedLength

PRIVACY = bd.shuffle(epsilon=1.0, delta=1e-5)


def run(path: Path, users: list[Any] | None, batches: int, **options: Any) -> bd.Agent:
    """A saved agent after batches of 100."""
    policy = bd.LinUCB(dim=2, horizon=10_000, batch=100, privacy=options.pop("privacy", PRIVACY))
    agent = bd.Agent(policy=policy, test=True, seed=0)
    agent.save(path)
    agent.act_many(np.zeros((100 * batches, 1, 2)), users)
    agent.close()
    agent.save(path)
    return agent


def rows(path: Path, query: str) -> list[Any]:
    """Straight from the journal."""
    with closing(sqlite3.connect(f"{path}.journal")) as sql:
        return sql.execute(query).fetchall()


def test_unnamed_decisions_take_a_row_for_each_batch(tmp_path: Path) -> None:
    agent = run(tmp_path / "agent", None, batches=5)
    assert rows(tmp_path / "agent", "select count(*) from members") == [(5,)]
    assert [len(entry.members) for entry in agent._runner.journals.entries()] == [1] * 5
    assert bd.Agent.load(tmp_path / "agent").releases == 5


def test_named_users_take_32_bytes_and_are_counted_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    run(path, [f"user {i}" for i in range(200)], batches=2)
    assert rows(path, "select distinct typeof(member), length(member) from members") == [("blob", 32)]
    _refused_if_known(path)


def _refused_if_known(path: Path) -> None:
    loaded, arms = bd.Agent.load(path), np.zeros((1, 2))
    loaded._runner.over = False
    with pytest.raises(BudgetExceeded, match="has taken part 1 times"):
        loaded.act(arms, user="user 17")
    loaded.act(arms, user="user 200")


def test_a_batch_of_named_and_unnamed_users_is_saved_with_all_of_them(tmp_path: Path) -> None:
    users = [None if i % 10 < 4 else f"user {i}" for i in range(300)]
    agent = run(tmp_path / "agent", users, batches=3)
    members = [entry.members for entry in agent._runner.journals.entries()]
    assert [sum(map(slot_count_of_member, batch)) for batch in members] == [100] * 3
    assert [len(batch) for batch in members] == [60 + 10] * 3
    assert len({member for batch in members for member in batch}) == 210
    assert bd.Agent.load(tmp_path / "agent").releases == 3


def test_slots_without_a_user_stand_together() -> None:
    slots = OpenSlots(1)
    for number, user in enumerate(["a" * 64, None, None, "b" * 64, None], start=7):
        slots.record(number, Slot(batch=0, session="s", features=np.zeros(1), arm=0, group=-1, user=user))
    batch = EpisodeSpan(episode=FixedLength(number=0, users=5), begin=7, users=5)
    members = slots.members(batch)
    assert members == ["a" * 64, "slots 8-9", "b" * 64, "slots 11-11"]
    assert [slot_count_of_member(member) for member in members] == [1, 2, 1, 1]
