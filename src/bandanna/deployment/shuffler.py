"""The shuffler: takes plans from the analyzer, forwards shares to it and jobs to the helper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.collector import SCHEMA, ClosedRound, Collector, Plan
from bandanna.deployment.collector_service import CollectorRoutes, CollectorThread, compute_limits
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import host_from_url
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import run_in_thread
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import COLLECTOR, Signer, digest, dumps, loads, sign
from bandanna.deployment.messages.publication import read_publication
from bandanna.deployment.messages.share import JobEntry, check_receipt, write_job
from bandanna.deployment.task.document import Secrets, Task, check_announced
from bandanna.deployment.task.query_plan import first_batches
from bandanna.device.noise import SecureNoise
from bandanna.errors import BandannaError, Unreadable
from bandanna.storage.database.base import open_database


@dataclass
class Shuffler:
    """The mixer's side of a batch: fetches its plan from the analyzer and sends its share.

    `check` refuses batches with fewer users or less noise than those of the policy in a state.
    """

    collector: Collector
    _: KW_ONLY
    task_id: str
    analyzer: RoleConnection
    helper: RoleConnection | None
    sign: Signer
    analyzer_key: str
    registrar_key: str
    check: Callable[[str, Sequence[Batch]], None]
    status: str = field(default="starting", init=False)
    _number: int | None = field(default=None, init=False)  # of the newest publication

    def plan(self) -> Plan | None:
        """Return the batches of a newer publication; None if there is none."""
        progress = self.collector.progress()
        filling = bool(progress["of"]) and progress["slots"] < progress["of"]
        if self._number is not None and (self.collector.closes_at is not None or filling):
            return None  # nothing can be newer before this round is forwarded
        found = self.analyzer.publication(self.task_id, self._number)
        if found is None:
            return None
        content, _ = read_publication(
            found, task_id=self.task_id, key=self.analyzer_key, registrar_key=self.registrar_key
        )
        last = self.collector.last_receipt()
        if last is not None and int(content["number"]) < int(last["number"]):  # it would release batches again
            raise BandannaError(f"the analyzer has gone back to publication {content['number']}, from {last['number']}")
        batches = tuple(map(Batch.from_dict, content["batches"]))
        self.check(content["state"], batches)
        self._number, self.status = int(content["number"]), str(content["status"])
        return batches, (int(content["epoch"]), int(content["round"]))

    def forward(self, closed: ClosedRound) -> bytes | None:
        """Send a share and return the receipt; None if the analyzer waits for another share."""
        path = f"/tasks/{self.task_id}/batches/{closed.epoch}.{closed.round}"
        receipt = self._fetch_receipt(closed, path)
        if receipt is not None:
            return receipt
        if self.helper is not None:
            self._send_job(self.helper, closed, path)
        headers = {"Signature": self.sign("share", closed.share)}
        status, answer, _ = self.analyzer.request("PUT", f"{path}/shares/shuffler", closed.share, headers)
        if status == 202:
            return None
        if status not in (200, 201, 422):
            raise RoleUnreachable(f"the analyzer refuses batch {closed.epoch}: {status}")
        return self._read_receipt(answer, closed)

    def _fetch_receipt(self, closed: ClosedRound, path: str) -> bytes | None:
        """Return the receipt of a round that the analyzer has already released; None if it awaits its share.

        The share is not sent before: if this database was rolled back, its totals are other ones, and the analyzer
        would have two sums of nearly the same users. The digest decides whether it has these.
        """
        status, answer, _ = self.analyzer.request("GET", f"{path}/shares/shuffler/{digest(closed.share)}")
        if status == 200:
            return self._read_receipt(answer, closed)
        if status == 409:  # it has other totals: its receipt lets the reports be deleted
            self._read_receipt(answer, closed)
            return dumps({"epoch": closed.epoch, "round": closed.round, "number": -1, "outcome": "over"})
        if status != 404:
            raise RoleUnreachable(f"the analyzer does not say whether it has batch {closed.epoch}: {status}")
        return None

    def _read_receipt(self, answer: bytes, closed: ClosedRound) -> bytes:
        """Return the analyzer's receipt of this round; a newer plan exists then."""
        try:
            document = loads(answer)
            receipt = document.get("receipt") if isinstance(document, dict) else None
            check_receipt(receipt, task_id=self.task_id, epoch=closed.epoch, round_=closed.round, key=self.analyzer_key)
        except Unreadable as error:
            raise RoleUnreachable(str(error)) from error
        self._number = None
        return dumps(receipt)

    def _send_job(self, helper: RoleConnection, closed: ClosedRound, path: str) -> None:
        """Send the helper the sealed seeds of a batch, each with its ticket's key, which is not visible here."""
        found = self.collector.entries(closed.epoch, closed.round)
        if found is None:  # only the receipt is missing: the helper has had its job
            return
        plan, rows = found
        entries = [JobEntry(slot, key_id, plan.rounds[closed.round].sealed(body)) for slot, key_id, body in rows]
        content = write_job(task_id=self.task_id, batch=plan, round_=closed.round, entries=entries)
        status, _, _ = helper.request("PUT", f"{path}/job", content, {"Signature": self.sign("job", content)})
        if status not in (200, 201):
            raise RoleUnreachable(f"the helper refuses batch {closed.epoch}: {status}")


# The service


def build_shuffler(task: Task, secrets: Secrets, *, database: str, log: EventLog, verify_tls: Any = True) -> Any:
    """Return the application of a task's shuffler."""
    assert task.policy is not None  # loading the policy registers the parts of mixers
    rows = open_database(database, role="shuffler", schema=SCHEMA)
    rows.claim()
    metrics, source = CollectorRegistry(), SecureNoise()
    collector = Collector(
        rows,
        task_id=task.id,
        task=task.digest,
        key=secrets.ticket_key(task, COLLECTOR),
        grace=float(task.content["grace"]),
        answered=task.content["close"] == "answered",
        finish=lambda mixer, state: mixer.drawn(state, source),
    )
    helper = RoleConnection(task.url("helper"), verify_tls=verify_tls) if task.mixers == 2 else None
    shuffler = Shuffler(
        collector,
        task_id=task.id,
        analyzer=RoleConnection(task.url("analyzer"), verify_tls=verify_tls),
        helper=helper,
        sign=partial(sign, secrets.sign, task.id),
        analyzer_key=task.key("analyzer"),
        registrar_key=task.key("registrar"),
        check=partial(check_announced, task),
    )
    thread = CollectorThread(collector, forward=shuffler.forward, plan=shuffler.plan, log=log)
    routes = CollectorRoutes(collector, task.id, metrics)

    async def start() -> None:
        thread.start()

    async def stop() -> None:
        await run_in_thread(thread.stop)
        rows.close()

    return build_application(
        role="shuffler",
        routes=routes.routes,
        uploads=routes.uploads,
        public=routes.public,
        names=[host_from_url(task.url("shuffler"))],
        start=start,
        stop=stop,
        health=lambda: {"ok": not thread.failing, "failing": thread.failing or None, "task": shuffler.status},
        status=collector.progress,
        metrics=metrics,
        log=log,
        token=secrets.token,
        database=lambda: rows,
        limits=compute_limits(first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None)),
    )
