"""A whole deployment in one process, whose roles are killed at named points and whose calls are lost.

Killed: a role's objects are thrown away in the middle of what they do, and built anew from its database. The points are
before and after every commit, and between any two calls: what a `kill -9` can leave behind, without its time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bandanna.deployment import collector, registrar
from bandanna.deployment.analyzer import processor
from bandanna.deployment.analyzer.processor import BatchProcessor, ShareRejected
from bandanna.deployment.analyzer.service import LocalCollector, WitnessCall, WitnessThread
from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.collector import Collector
from bandanna.deployment.collector_service import CollectorThread
from bandanna.deployment.helper import SCHEMA as HELPING
from bandanna.deployment.helper import Helper, JobRefused, Keyring
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    Opener,
    decode_base64url,
    dumps,
    loads,
    sign,
    verify,
)
from bandanna.deployment.messages.report import encode_verdicts
from bandanna.deployment.registrar import Notary, Registrar
from bandanna.deployment.registrar_service import make_notary
from bandanna.deployment.shuffler import Shuffler
from bandanna.deployment.task.document import Secrets, Task, check_announced
from bandanna.privacy.stores.database import LEDGER_SCHEMA
from bandanna.storage.database.base import Database, StorageError, Transaction, open_database

from ..inside import headers_of, shown

COMMITS = ("before commit", "after commit")
ENDS = ("request lost", "response lost", "killed after the answer")
GRACE = 5.0

_SCRIPTS = {
    "analyzer": processor.SCHEMA + LEDGER_SCHEMA + collector.SCHEMA,
    "shuffler": collector.SCHEMA,
    "helper": HELPING,
    "registrar": registrar.SCHEMA,
}


class Killed(BaseException):
    """Ends a role."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(role)


class Fragile:
    """The database of a role, with points of faults before and after its commits."""

    def __init__(self, database: Database, role: str, town: Town) -> None:
        self._database, self._role, self._town = database, role, town
        self.name, self.reading, self.scrub, self.close, self.check_claim = (
            database.name, database.reading, database.scrub, database.close, database.check_claim,
        )  # fmt: skip

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._database.transaction() as rows:
            yield rows
            self._town.pass_by(self._role, "before commit")
            if self._town.fires(self._role, "disk full"):
                raise StorageError("no room")
        self._town.pass_by(self._role, "after commit")
        if self._town.fires(self._role, "in doubt"):
            raise StorageError("whether it was committed is not known")


class Wire(RoleConnection):
    """Calls from one role to another, without sockets."""

    def __init__(self, town: Town, caller: str, callee: str) -> None:
        self._town, self._ends = town, (caller, callee)

    def request(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        route = partial(self._town.route, self._ends[1], method, path, content, headers or {})
        result: tuple[int, bytes, dict[str, str]] = self._town.call(*self._ends, route)
        return result


class Town:
    """All roles of a task. `armed` says at which points, and after how many passes, a fault happens."""

    def __init__(self, task: Task, secrets: dict[str, Secrets], folder: Path, urls: dict[str, str] | None = None):
        self.task, self._secrets, self._folder, self._urls = task, secrets, folder, urls or {}
        self.roles: tuple[str, ...] = ("registrar", "analyzer", "shuffler", "helper")[: 2 + task.mixers]
        self.armed: dict[tuple[str, str], int] = {}
        self.alive: dict[str, dict[str, Any]] = {}
        self.deaths = 0
        self.now = 1000.0
        self.taken: dict[tuple[int, int, str], bytes] = {}  # shares that the analyzer has seen
        self.documents: dict[int, bytes] = {}  # publications that anybody has seen
        for role in self.roles:
            self.start(role)

    # What goes wrong

    def fires(self, role: str, point: str) -> bool:
        left = self.armed.get((role, point))
        if left is None:
            return False
        if left > 0:
            self.armed[role, point] = left - 1
            return False
        del self.armed[role, point]
        return True

    def pass_by(self, role: str, point: str) -> None:
        if self.fires(role, point):
            raise Killed(role)

    def kill(self, role: str) -> None:
        parts = self.alive.pop(role, None)
        if parts is not None:
            self.deaths += 1
            parts["rows"].close()

    def start(self, role: str) -> None:
        if role in self.alive:
            return
        url = self._urls.get(role, str(self._folder / f"{role}.db"))
        rows = open_database(url, role=role, schema=_SCRIPTS[role])
        rows.claim()
        parts: dict[str, Any] = {"rows": rows}
        self.alive[role] = parts
        try:
            getattr(self, f"_start_{role}")(parts, Fragile(rows, role, self), self._secrets[role])
        except Killed:
            self.kill(role)
        except StorageError:
            self.kill(role)

    def call(self, caller: str, callee: str, route: Any) -> Any:
        """Call a role; raise RoleUnreachable if the request or the answer is lost."""
        link = f"{caller} to {callee}"
        if self.fires(link, "request lost") or callee not in self.alive:
            raise RoleUnreachable(link)
        try:
            answered = route()
        except Killed as killed:
            if killed.role != callee:
                raise
            self.kill(callee)
            raise RoleUnreachable(link) from None
        except StorageError:
            raise RoleUnreachable(f"{link}: 503") from None
        if self.fires(link, "response lost"):
            raise RoleUnreachable(link)
        self.pass_by(caller, "killed after the answer")
        return answered

    # The roles

    def _start_registrar(self, parts: dict[str, Any], rows: Any, own: Secrets) -> None:
        parts["registrar"] = Registrar(
            rows,
            task=self.task.digest,
            ticket_keys={
                each: own.ticket_key(self.task, each) for each in (COLLECTOR, HELPER)[: max(1, self.task.mixers)]
            },
            secret=decode_base64url(own.person),
            participations=self.task.policy.privacy.participations,
        )
        parts["notary"] = Notary(rows, **make_notary(self.task, own))

    def _start_analyzer(self, parts: dict[str, Any], rows: Any, own: Secrets) -> None:
        opener = Opener(own.seal) if own.seal else None
        signing = partial(sign, own.sign, self.task.id)
        told = WitnessCall(Wire(self, "analyzer", "registrar"), self.task.id)
        processor = parts["processor"] = BatchProcessor(rows, self.task, sign=signing, opener=opener, witness=told)
        parts["witnesses"] = WitnessThread(processor, log=_log("analyzer"))
        if self.task.mixers == 0:
            collector = LocalCollector(processor, rows, own)
            collector.collector._clock = lambda: self.now
            parts["collector"], parts["ready"] = collector.collector, collector.ready

            def forward(closed: Any) -> bytes | None:
                self._see_share(closed.share, "analyzer", closed.epoch, closed.round)
                return collector.forward(closed)

            parts["pump"] = CollectorThread(
                collector.collector, forward=forward, plan=collector.plan, log=_log("analyzer")
            )

    def _start_shuffler(self, parts: dict[str, Any], rows: Any, own: Secrets) -> None:
        collector = parts["collector"] = Collector(
            rows,
            task_id=self.task.id,
            task=self.task.digest,
            key=own.ticket_key(self.task, COLLECTOR),
            grace=GRACE,
            answered=self.task.content["close"] == "answered",
            clock=lambda: self.now,
        )
        shuffler = Shuffler(
            collector,
            task_id=self.task.id,
            analyzer=Wire(self, "shuffler", "analyzer"),
            helper=Wire(self, "shuffler", "helper") if self.task.mixers == 2 else None,
            sign=partial(sign, own.sign, self.task.id),
            analyzer_key=self.task.key("analyzer"),
            registrar_key=self.task.key("registrar"),
            check=partial(check_announced, self.task),
        )
        parts["pump"] = CollectorThread(collector, forward=shuffler.forward, plan=shuffler.plan, log=_log("shuffler"))

    def _start_helper(self, parts: dict[str, Any], rows: Any, own: Secrets) -> None:
        parts["helper"] = Helper(
            rows,
            task_id=self.task.id,
            task=self.task.digest,
            ticket_key=own.ticket_key(self.task, HELPER),
            analyzer_key=self.task.key("analyzer"),
            leader_key=self.task.key("shuffler"),
            keyring=Keyring(rows, first=(own.seal, self.task.key("seal helper"))),
            sign=partial(sign, own.sign, self.task.id),
        )

    def step(self, role: str) -> None:
        parts = self.alive.get(role)
        if parts is None:
            return
        try:
            if role == "analyzer":
                parts["witnesses"].step()
            if role == "helper":
                self._sweep()
            if "pump" in parts:
                parts["pump"].step()
        except (RoleUnreachable, StorageError):
            return  # tried again
        except ShareRejected:
            assert role == "analyzer"  # it says that it was rolled back, and does nothing more
            assert parts["processor"].rolled_back or parts["processor"].pending
        except Killed:
            self.kill(role)

    # Routes, as the applications have them

    def route(self, role: str, method: str, path: str, content: bytes, headers: dict[str, str]) -> Any:
        parts = self.alive[role]
        last = path.partition("?")[0].split("/")[-1]
        if role == "registrar":
            return self._witness(parts["notary"], content)
        if last == "snapshot":
            return self._snapshot(parts["processor"], path)
        epoch, round_ = map(int, path.split("/")[4].split("."))
        if role == "helper":
            return self._job(parts["helper"], content, headers, epoch, round_)
        if method == "GET":
            try:
                receipt = parts["processor"].known(last, path.split("/")[6], epoch, round_)
            except ShareRejected as conflict:
                _unless_waiting(conflict)
                return self._conflict(parts["processor"], conflict, epoch, round_)
            return 200, dumps({"receipt": loads(receipt)}), {}
        return self._share(parts["processor"], content, headers, last, epoch, round_)

    def _witness(self, notary: Notary, content: bytes) -> Any:
        status, answer = notary.witness(loads(content))
        return status, dumps(answer), {}

    def _snapshot(self, processor: BatchProcessor, path: str) -> Any:
        published = processor.published
        if published is None or processor.rolled_back:
            raise RoleUnreachable("503")
        after = path.partition("after=")[2].partition("&")[0]
        if after and published.number <= int(after):
            return 204, b"", {}
        seen = self.documents.setdefault(published.number, published.document)
        assert seen == published.document, "two documents of one number"
        return 200, published.document, headers_of(shown(published))

    def _job(self, helper: Helper, content: bytes, headers: dict[str, str], epoch: int, round_: int) -> Any:
        try:
            status, _ = helper.job(content, headers["Signature"], epoch=epoch, round_=round_)
        except JobRefused as refused:
            if refused.status == 503:
                raise RoleUnreachable("helper") from None
            return refused.status, dumps({"reason": refused.reason}), {}
        self._sweep()
        return status, b"{}", {}

    def _sweep(self) -> None:
        helper: Helper = self.alive["helper"]["helper"]
        analyzer = Wire(self, "helper", "analyzer")
        for stored in helper.waiting():
            path = f"/tasks/{self.task.id}/batches/{stored.epoch}.{stored.round}/shares/helper"
            try:
                status, content, _ = analyzer.request("PUT", path, stored.share, {"Signature": stored.signature})
            except RoleUnreachable:
                return
            receipt = loads(content).get("receipt")
            if receipt is not None:
                helper.receipted(stored.epoch, stored.round, receipt, other=status == 409)

    def _share(
        self, processor: BatchProcessor, content: bytes, headers: dict[str, str], mixer: str, epoch: int, round_: int
    ) -> Any:
        assert verify(self.task.key(mixer), self.task.id, "share", content, headers["Signature"])
        self._see_share(content, mixer, epoch, round_)
        try:
            taken = processor.take(content, mixer, epoch, round_)
        except ShareRejected as conflict:
            _unless_waiting(conflict)
            return 409, *self._conflict(processor, conflict, epoch, round_)[1:]
        receipt = None if taken.receipt is None else loads(taken.receipt)
        return taken.status, dumps({"receipt": receipt} if receipt else {"stored": True}), {}

    def _conflict(self, processor: BatchProcessor, conflict: ShareRejected, epoch: int, round_: int) -> Any:
        if conflict.reason != "over":
            return 404, dumps({"reason": conflict.reason.replace(" ", "-")}), {}
        return 409, dumps({"reason": "over", "receipt": loads(processor.receipt(epoch, round_))}), {}

    def _see_share(self, content: bytes, mixer: str, epoch: int, round_: int) -> None:
        seen = self.taken.setdefault((epoch, round_, mixer), content)
        assert seen == content, "two totals of one batch were shown to the analyzer"

    # What people ask for

    @property
    def collector(self) -> str:
        return self.task.collector

    def tickets(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.call(
            "people", "registrar", lambda: self.alive["registrar"]["registrar"].tickets(asked)
        )
        return result

    def upload(self, request: bytes) -> tuple[int, bytes]:
        result: tuple[int, bytes] = self.call("people", self.collector, lambda: self._upload(request))
        return result

    def _upload(self, request: bytes) -> tuple[int, bytes]:
        parts = self.alive[self.collector]
        if "ready" in parts and not parts["ready"]():
            raise RoleUnreachable("503")
        (verdicts,) = parts["collector"].accept([request])
        return encode_verdicts(verdicts)

    def publication(self) -> Any:
        content = Wire(self, "people", "analyzer").publication(self.task.id)
        assert content is not None
        return loads(content.document)


def _unless_waiting(conflict: ShareRejected) -> None:
    if conflict.reason in ("unwitnessed", "rolled back"):
        raise RoleUnreachable(conflict.reason)


def _log(role: str) -> EventLog:
    return EventLog(role, io.StringIO())
