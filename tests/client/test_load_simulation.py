"""Simulated users of a deployment account for everybody who reported nothing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers, describe_missing_users, world_for_task
from bandanna.deployment.client.outbox import Outbox
from bandanna.deployment.client.session import AsyncSession, RegistrarClient, Session
from bandanna.deployment.processes import RunningDeployment

from ..deployment.inside import Inside, a_task
from ..deployment.test_processes import on_disk


@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
def test_every_user_without_a_report_has_a_reason(dropout: float, tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=60, batch=20, privacy=bd.local(epsilon=4.0, delta=1e-4))
    task, secrets = a_task(policy, seed=None, close="grace")
    inside = Inside(task, secrets, tmp_path)
    inside.collector._answered = False
    crowd = SimulatedUsers(task, inside, world_for_task(task), rounds=50, concurrency=1, dropout=dropout)
    account = crowd.run()
    assert (account.users, account.unbatched) == (50, 10)
    assert account.dropped == (40 if dropout == 1.0 else 0 if dropout == 0.0 else pytest.approx(16, abs=10))
    reasons = f"{account.dropped} by --dropout, " * (account.dropped > 0) + "10 because the last batch did not fill"
    assert describe_missing_users(account) == f"{account.dropped + 10} of 50 users reported nothing: {reasons}."
    account.dropped = account.unbatched = 0
    assert describe_missing_users(account) == ""


# Sessions against real processes: registrar, shuffler, helper and analyzer over loopback


BATCH = 16


@pytest.mark.usefixtures("_quick_roles")
def test_processes_learn_from_sessions_with_two_mixers_and_wrong_clocks(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + 3600.0)
    policy = bd.LinTS(
        dim=3, horizon=4 * BATCH, batch=BATCH, intercept=True, privacy=bd.shuffle(epsilon=4.0, delta=1e-4)
    )
    task, secrets = on_disk(policy, tmp_path, mixers=2, seed=None, grace=0.0, close="answered")
    token, outbox = secrets["registrar"].token, Outbox(tmp_path / "outbox.db")
    rng = np.random.default_rng(1)

    async def play(number: int, http: httpx.AsyncClient) -> tuple[bool, bool]:
        registrar = RegistrarClient(user=f"user {number}", token=token)
        session = AsyncSession(tmp_path, tickets=registrar, outbox=outbox, http=http, patience=120.0)
        contexts = np.concatenate([rng.uniform(-0.5, 0.5, (4, 2)), np.ones((4, 1))], axis=1)
        decision = await session.act({"abcd"[arm]: contexts[arm] for arm in range(4)})
        assert decision.arm in "abcd"
        outcome = await session.report(decision.id, float(decision.action == 1))
        return decision.taking_part, outcome.kept

    async def crowd(numbers: range) -> list[tuple[bool, bool]]:
        async with httpx.AsyncClient(timeout=600.0, trust_env=False) as http:
            return list(await asyncio.gather(*(play(number, http) for number in numbers)))

    with RunningDeployment(task, tmp_path):
        for batch in range(2):
            done = asyncio.run(crowd(range(batch * BATCH, (batch + 1) * BATCH)))
            assert done == [(True, True)] * BATCH
        seen = _after(task.url("analyzer"), task.id, 2)
        with httpx.Client(trust_env=False) as http:
            registrar = RegistrarClient(user="user 0", token=token)
            again = Session(tmp_path, tickets=registrar, outbox=":memory:", http=http)  # another device of hers
            decision = again.act(np.ones((4, 3)))
    assert seen["number"] == 2
    assert (decision.taking_part, decision.reason) == (False, "participations")


def _after(url: str, task: str, number: int) -> Any:
    with httpx.Client(trust_env=False, timeout=600.0) as http:
        for _ in range(40):
            found = http.get(f"{url}/tasks/{task}/snapshot", params={"after": number - 1, "wait": 10})
            if found.status_code == 200:
                return found.json()
    raise AssertionError("nothing was published")
