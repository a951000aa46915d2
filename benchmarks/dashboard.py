"""The dashboard: CPU seconds of the server for a page of a task with 1e5 publications, beside one with ten.

Dashboard and analyzer are in this process, without sockets, so that a page's price has that of the analyzer's answers
in it. What is measured is one request, from its headers to the last byte; the promise is 50 ms for each page.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.promises import Ratio

MANY, FEW = 100_000, 10
PROMISE = 0.050
ROUNDS = 5
PORT = 8701


class Task:
    """A task with so many publications, its analyzer, and a dashboard that has read what it reads of them."""

    def __init__(self, folder: Path, publications: int) -> None:
        from prometheus_client import CollectorRegistry

        from bandanna.deployment.analyzer.processor import SCHEMA, BatchProcessor
        from bandanna.deployment.analyzer.service import AnalyzerRoutes
        from bandanna.deployment.http.application import build_application
        from bandanna.deployment.http.metrics import EventLog
        from bandanna.deployment.messages.canonical import loads, sign
        from bandanna.deployment.registrar import SCHEMA as REGISTRAR_SCHEMA
        from bandanna.deployment.registrar import Notary
        from bandanna.deployment.registrar_service import make_notary
        from bandanna.deployment.task.creation import create_task
        from bandanna.privacy.stores.database import LEDGER_SCHEMA
        from bandanna.storage.database.base import open_database

        arms = {f"arm {place}": [place / 10, 1 - place / 10, 0.3, 0.1, 1.0] for place in range(10)}
        policy = {"dim": 5, "intercept": True, "batch": 200, "horizon": 200 * (MANY + 9), "epsilon": 1.0, "delta": 1e-5}
        document = {"title": "long", "algorithm": "LinTS-SDP", "policy": policy, "arms": {"features": arms}}
        self.task, secrets = create_task(document, expect=False)
        own = {each.role: each for each in secrets}
        self._sign = partial(sign, own["analyzer"].sign, self.task.id)
        self._cosign = partial(sign, own["registrar"].sign, self.task.id)
        folder.mkdir()
        self._rng = np.random.default_rng(5)
        rows = open_database(str(folder / "analyzer.db"), role="analyzer", schema=SCHEMA + LEDGER_SCHEMA)
        kept = open_database(str(folder / "registrar.db"), role="registrar", schema=REGISTRAR_SCHEMA)
        notary = Notary(kept, **make_notary(self.task, own["registrar"]))
        self._processor = BatchProcessor(
            rows, self.task, sign=self._sign, opener=None, witness=lambda content: notary.witness(loads(content))
        )
        self._processor.settle()
        self._lengthen(rows, publications)
        log = EventLog("bench")
        self.app = build_application(
            role="analyzer", routes=AnalyzerRoutes(self._processor, rows, log).routes, start=_nothing, stop=_nothing,
            health=dict, status=dict, metrics=CollectorRegistry(), log=log, token=None,
        )  # fmt: skip

    def _lengthen(self, rows: Any, count: int) -> None:
        """Whole documents; with a state of its own, and signed, where a dashboard reads them."""
        from bandanna.deployment.analyzer import publication
        from bandanna.deployment.messages.canonical import dumps, loads
        from bandanna.deployment.messages.publication import PublicationPin, chain_document, cosigned_statement

        last = self._processor.published
        assert last is not None
        content = loads(last.document)
        previous, made = last.chain, []
        for number in range(1, count):
            signed = number % 512 in (0, 511) or number < 20 or number > count - 20
            content |= self._state(number) if signed else {}
            document = dumps(content | {"number": number, "previous": previous, "epoch": number})
            previous = chain_document(previous, document)
            signature = self._sign("publication", document) if signed else ""
            cosignature = (
                self._cosign("cosignature", cosigned_statement(PublicationPin(number, previous))) if signed else ""
            )
            parts = (document.decode(), signature, previous, "{}", last.entries, cosignature)
            made.append((number, number - 1, 0, "released", *parts))
            if len(made) == 5_000:
                _write(rows, made)
        _write(rows, made)
        with rows.reading() as read:
            self._processor.published = publication.read_publication_row(read)

    def _state(self, batches: int) -> dict[str, str]:
        """After so many batches."""
        from bandanna.policies.linear.base import LinearState
        from bandanna.policies.registry import make_encoding

        policy: Any = self.task.policy
        total = 50.0 * batches + self._rng.normal(size=policy._domain.dim) * 8 * batches**0.5
        snapshot, repairs = policy._estimate(total, batches)
        state = LinearState(total=total, batches=batches, repairs=repairs, snapshot=snapshot)
        encoding = make_encoding()
        return {"state": encoding.dumps(state), "snapshot": encoding.dumps(policy.publish(state))}

    async def opened(self) -> Any:
        """A browser at a dashboard that has caught up."""
        import httpx

        from bandanna.deployment.dashboard.app import TaskBoard, build_dashboard
        from bandanna.deployment.dashboard.poller import HttpRoleClient, TaskPoller
        from bandanna.deployment.http.metrics import EventLog

        watch = TaskPoller(f"http://127.0.0.1:{PORT}", HttpRoleClient(transport=httpx.ASGITransport(app=self.app)))
        began = time.process_time()
        await watch.step()
        self.reading = time.process_time() - began
        assert not [each for each in watch.known.warnings if "another plan" not in each], watch.known.warnings
        app = build_dashboard(TaskBoard([watch]), admin=None, log=EventLog("bench"))
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8710")


def _write(rows: Any, made: list[Any]) -> None:
    with rows.transaction() as written:
        written.many("insert into releases values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", made)
    made.clear()


async def _nothing() -> None:
    """Neither begin nor end."""


def pages(task: str, publications: int) -> dict[str, list[str]]:
    """What is asked for, ROUNDS times; of releases other ones each time, since those that were read are kept."""
    root = f"/tasks/{task}"
    step = 512 if publications > 512 * (ROUNDS + 1) else 1
    return {
        "the overview": ["/"] * ROUNDS,
        "a task": [root] * ROUNDS,
        "a task's twin": [f"{root}.json"] * ROUNDS,
        "a page of releases": [
            f"{root}/releases?page={max(1, publications // 100 - place)}" for place in range(ROUNDS)
        ],
        "a release": [f"{root}/releases/{step * (place + 1)}" for place in range(ROUNDS)],
    }


async def cost(client: Any, paths: list[str]) -> float:
    """CPU seconds of one page: of the cheapest."""
    seconds = []
    for path in paths:
        began = time.process_time()
        answer = await client.get(path)
        seconds.append(time.process_time() - began)
        assert answer.status_code == 200, (path, answer.text)
    return min(seconds)


def measure(many: int = MANY, say: Callable[[str], None] = lambda _: None) -> list[Ratio]:
    """Every page of the long history beside the same of the short one."""

    async def measured(task: Task, count: int) -> dict[str, float]:
        client = await task.opened()
        say(f"{count:,} publications: {task.reading:.2f} s of CPU to read what is drawn, once")
        return {name: await cost(client, paths) for name, paths in pages(task.task.id, count).items()}

    with tempfile.TemporaryDirectory() as place:
        found = {count: asyncio.run(measured(Task(Path(place) / str(count), count), count)) for count in (FEW, many)}
    beside = f"{FEW} batches"
    return [
        Ratio(what=f"{name}, {many:,} batches", ours=ours, beside=beside, theirs=found[FEW][name], promise=PROMISE)
        for name, ours in found[many].items()
    ]


if __name__ == "__main__":
    for each in measure(say=print):
        print(f"{each.what:36} {1000 * each.ours:6.1f} ms of CPU, beside {1000 * each.theirs:6.1f} ms")
