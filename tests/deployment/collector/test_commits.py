"""Group commit: who waits for what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from bandanna.deployment.collector_worker import GroupCommit
from bandanna.deployment.http.requests import RequestRefused
from bandanna.errors import BandannaError


class Writing:
    """Doubles numbers, when it is let."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.free = threading.Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        assert self.free.wait(600)
        if min(items) < 0:
            raise BandannaError("no")
        return [2 * item for item in items]


async def begun(writing: Writing, commits: GroupCommit[int, int], count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(commits.submit(0))]
    while not writing.groups:
        await asyncio.sleep(0.001)
    tasks += [asyncio.create_task(commits.submit(item)) for item in range(1, count)]
    await asyncio.sleep(0)
    return tasks


def test_who_comes_during_a_transaction_shares_the_next() -> None:

    async def run() -> list[int]:
        commits = GroupCommit[int, int](writing, most=4)
        tasks = await begun(writing, commits, 10)
        writing.free.set()
        return await asyncio.gather(*tasks)

    writing = Writing()
    assert asyncio.run(run()) == [2 * item for item in range(10)]
    assert writing.groups == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


def test_who_finds_too_many_waiting_is_sent_away() -> None:

    async def run() -> list[int]:
        commits = GroupCommit[int, int](writing, waiting=3)
        tasks = await begun(writing, commits, 4)
        with pytest.raises(RequestRefused, match="busy"):
            await commits.submit(9)
        writing.free.set()
        return await asyncio.gather(*tasks)

    writing = Writing()
    assert asyncio.run(run()) == [0, 2, 4, 6]


def test_a_failed_transaction_fails_for_those_in_it_only() -> None:

    async def run() -> list[int | BaseException]:
        commits = GroupCommit[int, int](writing, most=2)
        tasks = await begun(writing, commits, 1)
        tasks += [asyncio.create_task(commits.submit(item)) for item in (-1, 2, 3)]
        await asyncio.sleep(0)
        writing.free.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    writing = Writing()
    told = asyncio.run(run())
    assert [told[0], told[3]] == [0, 6]
    assert all(isinstance(each, BandannaError) for each in told[1:3])


def test_a_transaction_is_written_even_if_nobody_waits_for_it_any_more() -> None:

    async def run() -> int:
        commits = GroupCommit[int, int](writing)
        tasks = await begun(writing, commits, 3)
        tasks[0].cancel()
        tasks[1].cancel()
        writing.free.set()
        return await tasks[2]

    writing = Writing()
    assert asyncio.run(run()) == 4
    assert writing.groups == [[0], [1, 2]]
