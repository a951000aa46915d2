"""Browser clients (in Node) against real processes: totals are the sums of what devices drew, whatever happened."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client import device_logic
from bandanna.deployment.client.outbox import Outbox
from bandanna.deployment.client.session import AsyncSession, RegistrarClient
from bandanna.deployment.messages import report
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import encode_base64url
from bandanna.deployment.messages.report import Ticket
from bandanna.deployment.processes import RunningDeployment
from bandanna.policies.registry import make_encoding
from bandanna.protocols.mixers import MixerState

from ...deployment.test_processes import on_disk
from .running import node

pytestmark = pytest.mark.browser

ARMS = 4
Record = dict[str, dict[int, list[list[int]]]]  # of every slot, by version: the messages of its parts


def users(count: int, dim: int, rng: np.random.Generator, prefix: str = "browser") -> list[dict[str, Any]]:
    """People with features of four arms, the last of them a constant, and a reward for each."""
    contexts = rng.uniform(-0.5, 0.5, (count, ARMS, dim))
    contexts[..., -1] = 1.0
    rewards = rng.integers(0, 2, (count, ARMS)).astype(float)
    return [
        {"name": f"{prefix} {number}", "contexts": contexts[number].tolist(), "rewards": rewards[number].tolist()}
        for number in range(count)
    ]


def config(task: Any, secrets: Any, people: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """For clients/js/test/crowd.mjs."""
    return {"analyzer": task.url("analyzer"), "registrar": task.url("registrar"), "task": task.id,
            "token": secrets["registrar"].token, "users": people, **more}  # fmt: skip


def drawn_by(record: dict[str, Any]) -> tuple[Record, dict[str, int]]:
    """What a crowd of browsers drew, and in which batch each slot is."""
    drawn: Record = {}
    for each in sorted(record["drawn"], key=lambda each: int(each["part"])):
        messages = drawn.setdefault(each["slot"], {}).setdefault(each["version"], [])
        assert len(messages) == each["part"]  # drawn once
        messages.append([int(number) for number in each["message"]])
    return drawn, {each["slot"]: each["epoch"] for each in record["drawn"]}


def publication(task: Any, number: int) -> dict[str, Any]:
    """The one of this number, or a newer one, when it is there."""
    with httpx.Client(trust_env=False, timeout=600.0) as http:
        for _ in range(40):
            query = {"after": number - 1, "wait": 10}
            found = http.get(f"{task.url('analyzer')}/tasks/{task.id}/snapshot", params=query)
            if found.status_code == 200:
                told: dict[str, Any] = found.json()
                return told
    raise AssertionError("nothing was published")


def learned(task: Any, drawn: Record, epochs: dict[str, int], batches: int) -> str:
    """The state of a policy that is told the sums of what was drawn: the newest report of each slot."""
    policy = task.policy
    state = policy.init(None)
    for epoch in range(batches):
        standing = [messages[max(messages)][0] for slot, messages in drawn.items() if epochs[slot] == epoch]
        protocol = policy._query(policy.episode(state)).protocol
        assert len(standing) == policy.episode(state).users
        view = MixerState(users=len(standing), numbers=np.sum(standing, axis=0, dtype=np.int64))
        _, estimate = protocol.analyzer.analyze(None, view, None)
        state = policy._update(state, estimate)
    return make_encoding().dumps(state)


@pytest.mark.parametrize("mixers", [1, 2])
def test_a_small_crowd_that_dies_and_comes_back(mixers: int, tmp_path: Path) -> None:
    policy = bd.LinTS(dim=3, horizon=160, batch=40, intercept=True, privacy=bd.shuffle(epsilon=4.0, delta=1e-4))
    task, secrets = on_disk(policy, tmp_path, mixers=mixers, seed=None)
    people = users(80, 3, np.random.default_rng(mixers))
    with RunningDeployment(task, tmp_path):
        record = json.loads(node("crowd.mjs", config(task, secrets, people, concurrency=16, kill=0.3)))
        told = publication(task, 2)
    assert all(each["takingPart"] and each["kept"] for each in record["users"])
    assert record["deaths"] > 0
    assert record["retries"] >= record["deaths"]
    drawn, epochs = drawn_by(record)
    sent = {slot: counts for slot, counts in record["sent"].items() if slot in drawn and max(drawn[slot]) == 1}
    assert set(map(tuple, sent.values())) == {(1, 1)}  # one zero report and one final one, however often they were sent
    standing = {slot: messages for slot, messages in drawn.items() if 1 in messages}
    assert told["number"] == 2
    assert told["state"] == learned(task, standing, epochs, 2)


def test_browsers_and_python_in_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 browser clients and 1,000 Python clients in one task: a total is not the sum of what they drew."""
    size, batches = 200, 10
    policy = bd.LinTS(dim=3, horizon=2000, batch=size, intercept=True, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    task, secrets = on_disk(policy, tmp_path, mixers=1, seed=None)
    rng = np.random.default_rng(5)
    browsers, others = users(1000, 3, rng), users(1000, 3, rng, "python")
    ours, epochs = _recorded(monkeypatch)

    with RunningDeployment(task, tmp_path):

        async def both() -> tuple[str, list[str]]:
            given = config(task, secrets, browsers, concurrency=24)
            in_node = asyncio.to_thread(node, "crowd.mjs", given)
            in_python = _pythons(tmp_path, secrets["registrar"].token, others)
            told, kept = await asyncio.gather(in_node, in_python)
            return told, kept

        text, kept = asyncio.run(both())
        record = json.loads(text)
        assert [each for each in record["users"] if not each["kept"]] == []
        assert [each for each in kept if each != "kept"] == []
        last = publication(task, batches)
    theirs, their_epochs = drawn_by(record)
    standing = {slot: messages for slot, messages in (theirs | ours).items() if 1 in messages}
    assert len(standing) == 2000
    assert last["number"] == batches
    assert last["state"] == learned(task, standing, their_epochs | epochs, batches)


def _recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[Record, dict[str, int]]:
    """What Python clients draw: the first message about a slot is the zero report, the second the final one."""
    drawn: Record = {}
    epochs: dict[str, int] = {}
    original = report.encode_body

    def body_of(rows: Any, *, batch: Batch, ticket: Ticket, **parts: Any) -> bytes:
        messages = drawn.setdefault(encode_base64url(ticket.slot), {})
        messages[len(messages)] = [row.tolist() for row in rows]
        epochs[encode_base64url(ticket.slot)] = batch.epoch
        return original(rows, batch=batch, ticket=ticket, **parts)

    monkeypatch.setattr(device_logic, "encode_body", body_of)
    return drawn, epochs


async def _pythons(folder: Path, token: str, people: list[dict[str, Any]]) -> list[str]:
    """Everybody acts and reports, some at a time; "kept", or what became of decision and report instead."""
    together = asyncio.Semaphore(24)
    outbox = Outbox(":memory:")

    async def play(person: dict[str, Any], http: httpx.AsyncClient) -> str:
        async with together:
            registrar = RegistrarClient(user=person["name"], token=token)
            session = AsyncSession(folder, tickets=registrar, outbox=outbox, http=http, patience=60.0)
            decision = await session.act(person["contexts"])
            outcome = await session.report(decision, person["rewards"][decision.action])
            return "kept" if outcome.kept else f"{decision.reason or outcome}"

    async with httpx.AsyncClient(timeout=600.0, trust_env=False) as http:
        return list(await asyncio.gather(*(play(person, http) for person in people)))
