"""The analyzer as a process."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bandanna.accounting.stores.tables import LEDGER_MIGRATION
from bandanna.errors import BandannaError
from bandanna.roles.analyzer import publication
from bandanna.roles.analyzer.learner import RUNNING, Conflict, Learner
from bandanna.roles.analyzer.tables import INDEX, MIGRATION
from bandanna.roles.analyzer.witnesses import Witnesses
from bandanna.roles.calls import Calls
from bandanna.roles.collector import tables as collecting
from bandanna.roles.collector.collector import Closed, Collector, Plan
from bandanna.roles.collector.pump import Pump
from bandanna.roles.collector.routes import CollectorRoutes, limits_of
from bandanna.roles.serving import Log, Metrics, Refused, Route, Upload, application, in_thread, json_response
from bandanna.storage.database import Database, open_database
from bandanna.tasks.document import Secrets, Task
from bandanna.wire.canonical import dumps, loads, unpacked
from bandanna.wire.keys import Opener, sign, verify

_LONGEST = 25.0  # seconds that a request may wait for a newer publication
_TICK = 0.02
_LINES = 1000  # of history, in one answer


class AnalyzerRoutes:
    """Publications, ledger and task for everybody; shares from mixers."""

    def __init__(self, learner: Learner, database: Database, log: Log) -> None:
        self._learner, self._database, self._log = learner, database, log
        self._task = learner.task
        self._ending = False

    @property
    def routes(self) -> list[Route]:
        """What everybody may see."""
        return [
            ("GET", "/task", self.task),
            ("GET", "/tasks/{task}", self.task),
            ("GET", "/tasks/{task}/snapshot", self.snapshot),
            ("GET", "/tasks/{task}/snapshot/{number}", self.earlier),
            ("GET", "/tasks/{task}/history", self.history),
            ("GET", "/tasks/{task}/ledger", self.ledger),
            ("GET", "/tasks/{task}/ledger/summary", self.summary),
            ("GET", "/tasks/{task}/batches/{batch}/shares/{mixer}/{digest}", self.receipt),
        ]

    @property
    def public(self) -> list[str]:
        """What pages of any origin may read: all but receipts, which are for mixers."""
        return [f"{method} {path}" for method, path, handle in self.routes if handle != self.receipt]

    @property
    def uploads(self) -> dict[str, Upload]:
        """What mixers send."""
        return {"PUT /tasks/{task}/batches/{batch}/shares/{mixer}": self.share}

    def _check(self, params: Any) -> None:
        if params.get("task", self._task.id) != self._task.id:
            raise Refused(404, "task")

    async def task(self, request: Request) -> Response:
        """The document that everything is about."""
        self._check(request.path_params)
        return Response(self._task.document, media_type="application/json", headers={"etag": f'"{self._task.id}"'})

    async def snapshot(self, request: Request) -> Response:
        """The publication in force; with ?after=n, one that is newer than n, waited for as long as ?wait= says."""
        self._check(request.path_params)
        after, wait = _number(request, "after", -1.0), min(_number(request, "wait", 0.0), _LONGEST)
        deadline = asyncio.get_running_loop().time() + wait
        while self._learner.published.number <= after:
            if asyncio.get_running_loop().time() >= deadline or self._ending:
                return Response(status_code=204)
            await asyncio.sleep(_TICK)
        return _served(self._learner.published)

    def end(self) -> None:
        """Nobody waits for a publication of a process that is to end."""
        self._ending = True

    async def earlier(self, request: Request) -> Response:
        """A publication of before."""
        self._check(request.path_params)
        text = request.path_params["number"]
        if not text.isdecimal() or len(text) > 15:
            raise Refused(404, "number")
        try:
            return _served(await in_thread(self._read, int(text)))
        except LookupError:
            raise Refused(404, "number") from None

    def _read(self, number: int) -> publication.Published:
        with self._database.reading() as rows:
            return publication.newest(rows, number)

    async def history(self, request: Request) -> Response:
        """One line for each publication after ?after=n, at most ?most= of them: who watches need not read them all."""
        self._check(request.path_params)
        after, most = _number(request, "after", -1.0), _number(request, "most", float(_LINES))
        if not (-1 <= after < 2**53 and most >= 1):
            raise Refused(400, "after" if most >= 1 else "most")
        lines = await in_thread(self._lines, int(after), int(min(most, _LINES)))
        return json_response({"task": self._task.id, "newest": self._learner.published.number, "lines": lines})

    def _lines(self, after: int, most: int) -> list[dict[str, Any]]:
        with self._database.reading() as rows:
            return publication.history(rows, after, most)

    async def summary(self, request: Request) -> Response:
        """What was spent, and how often each price was paid."""
        self._check(request.path_params)
        return json_response({"task": self._task.id, "ledger": await in_thread(self._learner.ledger_summary)})

    async def ledger(self, request: Request) -> Response:
        """What was spent, and for what."""
        self._check(request.path_params)
        view = await in_thread(self._learner.ledger_view)
        return json_response({"task": self._task.id, "ledger": view})

    async def receipt(self, request: Request) -> Response:
        """Whether a mixer's share, by its digest, is the one that a round was released from."""
        self._check(request.path_params)
        (epoch, round_), mixer = _batch(request.path_params["batch"]), request.path_params["mixer"]
        try:
            found = await in_thread(self._learner.known, request.path_params["digest"], mixer, epoch, round_)
        except Conflict as conflict:
            raise Refused(409 if conflict.reason == "over" else 404, conflict.reason) from None
        return json_response({"receipt": loads(found)})

    async def share(self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]) -> Any:
        """A mixer's totals of a batch."""
        self._check(params)
        mixer, (epoch, round_) = params["mixer"], _batch(params["batch"])
        if self._task.mixers == 0 or mixer not in self._learner.mixers:
            raise Refused(404, "mixer")
        if not verify(self._task.key(mixer), body, headers.get(b"signature", b"").decode("latin-1")):
            raise Refused(401, "signature")
        try:
            taken = await in_thread(self._learner.take, body, mixer, epoch, round_)
        except Conflict as conflict:
            raise Refused(409, conflict.reason.replace(" ", "-"), error=str(conflict)) from conflict
        self._log.say("share", epoch=epoch, round=round_, status=taken.status)
        receipt = None if taken.receipt is None else loads(taken.receipt)
        return taken.status, dumps({"receipt": receipt} if receipt else {"stored": True}), None


def _number(request: Request, name: str, default: float) -> float:
    try:
        number = float(request.query_params.get(name, default))
    except ValueError:
        raise Refused(400, name) from None
    if math.isnan(number):  # nothing is later than that: a request would wait for ever
        raise Refused(400, name)
    return number


def _batch(text: str) -> tuple[int, int]:
    epoch, _, round_ = text.partition(".")
    if not (epoch.isdecimal() and round_.isdecimal() and len(text) < 20):
        raise Refused(404, "batch")
    return int(epoch), int(round_)


def _served(published: publication.Published) -> Response:
    headers = {"signature": published.signature, "etag": f'"{published.chain}"', "cache-control": "no-cache"}
    return Response(published.document, media_type="application/json", headers=headers)


class OwnCollector:
    """Of an analyzer that may see single reports: what its collector closes goes straight to the learner."""

    def __init__(self, learner: Learner, rows: Database, secrets: Secrets, witnesses: Witnesses) -> None:
        self._learner, self._witnesses, self._told = learner, witnesses, -1
        task = learner.task
        self.collector = Collector(
            rows,
            task_id=task.id,
            task=task.digest,
            key=unpacked(secrets.ticket, 32),
            grace=float(task.content["grace"]),
            answered=task.content["close"] == "answered",
            name="analyzer",
        )

    def ready(self) -> bool:
        """Not if its database was rolled back: what it would keep there is gone when the right one is restored."""
        return not self._learner.rolled_back

    def plan(self) -> Plan | None:
        """What was published since."""
        number = self._learner.published.number
        if number == self._told:
            return None
        self._told = number
        return self._learner.now.batches, self._learner.running

    def forward(self, closed: Closed) -> bytes | None:
        """Released and learned from; its receipt. None before the registrar was asked what it has seen."""
        if not self._witnesses.seen:
            return None
        taken = self._learner.take(closed.share, "analyzer", closed.epoch, closed.round)
        if taken.receipt is None:
            raise BandannaError("a share that is not all of its batch")
        return taken.receipt


def build(task: Task, secrets: Secrets, *, database: str, log: Log, verify_tls: Any = True) -> Any:
    """The application of a task's analyzer."""
    rows = open_database(
        database, role="analyzer", migrations=(MIGRATION, LEDGER_MIGRATION, collecting.MIGRATION, INDEX)
    )
    rows.claim()
    opener = Opener(secrets.seal) if secrets.seal else None
    learner = Learner(rows, task, sign=partial(sign, secrets.sign), opener=opener)
    metrics, routes = Metrics(), AnalyzerRoutes(learner, rows, log)
    registrar = Calls(task.url("registrar"), verify_tls=verify_tls)
    witnesses = Witnesses(learner, registrar, sign=partial(sign, secrets.sign), log=log)
    own = OwnCollector(learner, rows, secrets, witnesses) if task.mixers == 0 else None
    pump = None if own is None else Pump(own.collector, forward=own.forward, plan=own.plan, log=log)
    reports = None if own is None else CollectorRoutes(own.collector, task.id, metrics, ready=own.ready)
    metrics.gauge("publication", "Number of the publication in force.").follow(lambda: learner.published.number)
    metrics.gauge("task_running", "1 while batches are awaited.").follow(
        lambda: float(learner.progress.status == RUNNING)
    )
    metrics.gauge("rolled_back", "1 if somebody has seen more than the database knows.").follow(
        lambda: float(learner.rolled_back)
    )

    async def start() -> None:
        witnesses.start()
        if pump is not None:
            pump.start()

    async def stop() -> None:
        if pump is not None:
            await in_thread(pump.stop)
        await in_thread(witnesses.stop)
        rows.close()

    def health() -> dict[str, Any]:
        fine = (pump is None or not pump.failing) and not learner.rolled_back
        return {"ok": fine, "task": learner.progress.status, "rolled_back": learner.rolled_back}

    def status() -> dict[str, Any]:
        public = {"publication": learner.published.number, "status": learner.progress.status}
        return public | ({} if own is None else {"collector": own.collector.progress()})

    return application(
        role="analyzer",
        routes=[*routes.routes, *(reports.routes if reports is not None else ())],
        uploads={**routes.uploads, **(reports.uploads if reports is not None else {})},
        public=[*routes.public, *(reports.public if reports is not None else ())],
        start=start,
        stop=stop,
        ending=routes.end,
        health=health,
        status=status,
        metrics=metrics,
        log=log,
        token=secrets.token,
        limits=limits_of(learner.now.batches, shares=task.mixers > 0),
    )
