"""Too many at once, and clocks that jump: nothing is lost, nothing is closed that is not full."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.deployment.collector import SCHEMA, Collector
from bandanna.deployment.collector_worker import GroupCommit
from bandanna.deployment.http.requests import RequestRefused
from bandanna.deployment.messages.canonical import COLLECTOR
from bandanna.deployment.messages.report import FINAL, ZERO, TaggedReport, join_reports
from bandanna.storage.database.base import open_database

from ..inside import Inside, a_task


def test_a_flood_is_sent_away_and_the_rest_is_done() -> None:
    groups: list[int] = []

    def commit(items: Sequence[int]) -> list[int]:
        time.sleep(0.01)
        groups.append(len(items))
        return [2 * item for item in items]

    async def flood() -> list[Any]:
        commits = GroupCommit(commit, most=5, waiting=20)
        return await asyncio.gather(*(commits.submit(item) for item in range(100)), return_exceptions=True)

    said = asyncio.run(flood())
    refused = [each for each in said if isinstance(each, RequestRefused)]
    assert {(each.status, each.reason, each.retry_after) for each in refused} == {(503, "busy", 1.0)}
    assert [each for each in said if not isinstance(each, RequestRefused)] == [2 * n for n in range(100 - len(refused))]
    assert 20 <= 100 - len(refused) <= 25
    assert max(groups) <= 5


def test_a_failure_of_one_group_is_the_next_ones_beginning() -> None:
    failing = [True]

    def commit(items: Sequence[int]) -> list[int]:
        if failing:
            failing.clear()
            raise OSError
        return list(items)

    async def twice() -> tuple[Any, Any]:
        commits = GroupCommit(commit)
        first = await asyncio.gather(commits.submit(1), return_exceptions=True)
        return first[0], await commits.submit(2)

    first, second = asyncio.run(twice())
    assert isinstance(first, OSError)
    assert second == 2


@cache
def _task() -> Any:
    policy = bd.make("LinTS-SDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3)
    return a_task(policy, seed=None, grace=60.0, close="grace")


@pytest.mark.parametrize("jump", [-1e9, -100.0, 0.0, 1e9])
def test_a_clock_that_jumps_moves_only_the_closing(jump: float, tmp_path: Path) -> None:
    inside, now = Inside(*_task(), tmp_path), [1000.0]
    rows = open_database(str(tmp_path / "own.db"), role="shuffler", schema=SCHEMA)
    parts: dict[str, Any] = {
        "task_id": inside.task.id, "task": inside.task.digest, "key": inside.keys[COLLECTOR], "grace": 60.0,
        "clock": lambda: now[0],
    }  # fmt: skip
    collector = Collector(rows, **parts)
    collector.plan(inside.learner.now.batches, inside.learner.running)
    batch = inside.learner.now.batches[0]
    size = batch.rounds[0].size

    def send(given: Any, version: int) -> None:
        parts: dict[str, Any] = {"slot": given.slot, "epoch": 0, "round_": 0, "body": bytes(size)}
        report = TaggedReport.make(given.collector, batch.digest, version=version, **parts)
        (verdicts,) = collector.accept([join_reports([report.to_bytes()])])
        assert not verdicts[0].reason

    people = inside.tickets(range(10), 0)
    for given in people[:9]:
        send(given, ZERO)
    now[0] += jump
    assert not collector.close_due()  # whatever the clock says, nine are not ten
    send(people[9], ZERO)
    assert collector.closes_at == now[0] + 60
    now[0] += 59
    assert not collector.close_due()
    send(people[0], FINAL)
    again = Collector(rows, **parts)  # begun anew, it knows when it was
    assert again.closes_at == collector.closes_at
    now[0] += 2
    assert collector.close_due()
    assert not collector.close_due()
