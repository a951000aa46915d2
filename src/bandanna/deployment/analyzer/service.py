"""The analyzer's HTTP service."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from starlette.requests import Request
from starlette.responses import Response

from bandanna.deployment import collector
from bandanna.deployment.analyzer import publication
from bandanna.deployment.analyzer.processor import RUNNING, SCHEMA, BatchProcessor, ShareRejected
from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.collector import ClosedRound, Collector, Plan
from bandanna.deployment.collector_service import CollectorRoutes, CollectorThread, compute_limits
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import ChangeNotifier, host_from_url
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import RequestRefused, Route, Upload, json_response, run_in_thread
from bandanna.deployment.messages.canonical import COLLECTOR, Opener, dumps, loads, sign, verify
from bandanna.deployment.messages.publication import HASH, LINKS
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError
from bandanna.privacy.stores.database import LEDGER_SCHEMA
from bandanna.storage.database.base import Database, open_database

# Cosignatures


_TICK, _LONGEST_TICK = 0.02, 2.0
_LATE = 60.0  # seconds for which a registrar may be away before an operator should look


class WitnessCall:
    """Ask the registrar to cosign publications."""

    def __init__(self, registrar: RoleConnection, task: str) -> None:
        self._registrar, self._path = registrar, f"/tasks/{task}/witness"

    def __call__(self, content: bytes) -> tuple[int, Any]:
        status, answer, _ = self._registrar.request("PUT", self._path, content)
        try:
            return status, loads(answer)
        except BandannaError as error:
            raise RoleUnreachable("the registrar answers what is no document") from error


class WitnessThread:
    """A thread that gets pending publications cosigned."""

    def __init__(self, processor: BatchProcessor, *, log: EventLog) -> None:
        self._processor, self._log = processor, log
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="witness", daemon=True)
        self._since: float | None = None  # when something began to wait for the registrar

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; the next process continues."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause = _TICK
        while not self._processor.rolled_back:
            try:
                settled = self.step()
            except Exception as error:  # a full disk, a lost database: they may come back
                self._log.say("step failed", level="error", type=type(error).__name__)
                settled = False
            pause = _TICK if settled else min(2 * pause, _LONGEST_TICK)
            if self._stop.wait(pause):
                return

    def step(self) -> bool:
        settled, pending = self._processor.settle(), self._processor.pending
        if self._processor.rolled_back:
            self._log.say("rolled back", level="error")
        elif (self._since is None) != settled:
            number = None if pending is None else pending.number
            self._log.say("witnessed" if settled else "unwitnessed", number=number)
            self._since = None if settled else time.monotonic()
        return settled

    @property
    def late(self) -> bool:
        """Whether a publication has waited for the registrar for a minute."""
        since = self._since
        return since is not None and time.monotonic() - since > _LATE


_LONGEST = 25.0  # seconds that a request may wait for a newer publication
_LINES = 1000  # of history, in one answer
_PATIENCE = 5.0  # seconds in which the registrar has to answer


class AnalyzerRoutes:
    """The routes for publications, ledger, task and the mixers' shares."""

    def __init__(self, processor: BatchProcessor, database: Database, log: EventLog) -> None:
        self._processor, self._database, self._log = processor, database, log
        self._task = processor.task
        self._bell = ChangeNotifier()
        processor.heard = self._bell.notify
        self._links: dict[int, bytes] = {}  # by block: 32 bytes of each publication that was asked about

    @property
    def routes(self) -> list[Route]:
        return [
            ("GET", "/task", self.task),
            ("GET", "/tasks/{task}", self.task),
            ("GET", "/tasks/{task}/snapshot", self.snapshot),
            ("GET", "/tasks/{task}/snapshot/{number}", self.earlier),
            ("GET", "/tasks/{task}/links/{block}", self.links),
            ("GET", "/tasks/{task}/history", self.history),
            ("GET", "/tasks/{task}/ledger", self.ledger),
            ("GET", "/tasks/{task}/ledger/summary", self.summary),
            ("GET", "/tasks/{task}/batches/{batch}/shares/{mixer}/{digest}", self.receipt),
        ]

    @property
    def public(self) -> list[str]:
        return [f"{method} {path}" for method, path, handle in self.routes if handle != self.receipt]

    @property
    def uploads(self) -> dict[str, Upload]:
        return {"PUT /tasks/{task}/batches/{batch}/shares/{mixer}": self.share}

    @property
    def peers(self) -> list[str]:
        receipts = [f"{method} {path}" for method, path, handle in self.routes if handle == self.receipt]
        return [*receipts, *self.uploads]

    def _check(self, params: Any) -> None:
        if params.get("task", self._task.id) != self._task.id:
            raise RequestRefused(404, "task")

    def _served(self) -> publication.ServedPublication:
        served = self._processor.published
        if self._processor.rolled_back:
            raise RequestRefused(503, "rolled-back", retry_after=60)
        if served is None:
            raise RequestRefused(503, "unwitnessed", retry_after=1)
        return served

    async def task(self, request: Request) -> Response:
        self._check(request.path_params)
        return Response(self._task.document, media_type="application/json", headers={"etag": f'"{self._task.id}"'})

    async def snapshot(self, request: Request) -> Response:
        """Serve the publication in force; with ?after=n, wait up to ?wait= seconds for a newer one."""
        self._check(request.path_params)
        after, wait = (
            _integer_parameter(request, "after", -1.0),
            min(_integer_parameter(request, "wait", 0.0), _LONGEST),
        )
        await self._bell.wait(request, lambda: self._processor.rolled_back or self._processor.number > after, wait)
        served = self._served()
        return _publication_response(served) if served.number > after else Response(status_code=204)

    def end(self) -> None:
        self._bell.end()

    async def earlier(self, request: Request) -> Response:
        self._check(request.path_params)
        text = request.path_params["number"]
        if not text.isdecimal() or len(text) > 15:
            raise RequestRefused(404, "number")
        if int(text) > self._served().number:
            raise RequestRefused(404, "number")
        try:
            return _publication_response(await run_in_thread(self._read, int(text)))
        except LookupError:
            raise RequestRefused(404, "number") from None

    def _read(self, number: int) -> publication.ServedPublication:
        with self._database.reading() as rows:
            return publication.read_publication_row(rows, number)

    async def links(self, request: Request) -> Response:
        """Serve the hashes of 256 documents, 32 bytes each, by which clients check the chain over a gap."""
        self._check(request.path_params)
        text, newest = request.path_params["block"], self._served().number
        if not text.isdecimal() or len(text) > 15 or int(text) > newest // LINKS:
            raise RequestRefused(404, "block")
        found = await run_in_thread(self._block, int(text), newest)
        whole = len(found) == LINKS * HASH
        headers = {"cache-control": "public, max-age=31536000, immutable" if whole else "no-cache"}
        return Response(found, media_type="application/octet-stream", headers=headers)

    def _block(self, block: int, newest: int) -> bytes:
        known = self._links.get(block, b"")
        if len(known) < LINKS * HASH:
            with self._database.reading() as rows:
                known = self._links[block] = publication.read_document_hashes(rows, block, newest, known)
        return known

    async def history(self, request: Request) -> Response:
        """Serve a line for each of ?most= publications after ?after=."""
        self._check(request.path_params)
        after, most = _integer_parameter(request, "after", -1.0), _integer_parameter(request, "most", float(_LINES))
        if not (-1 <= after < 2**53 and most >= 1):
            raise RequestRefused(400, "after" if most >= 1 else "most")
        newest = self._served().number
        lines = await run_in_thread(self._lines, int(after), int(min(most, _LINES)), newest)
        return json_response({"task": self._task.id, "newest": newest, "lines": lines})

    def _lines(self, after: int, most: int, newest: int) -> list[dict[str, Any]]:
        with self._database.reading() as rows:
            return publication.read_history(rows, after, most, newest)

    async def summary(self, request: Request) -> Response:
        self._check(request.path_params)
        self._served()
        return json_response({"task": self._task.id, "ledger": await run_in_thread(self._processor.ledger_summary)})

    async def ledger(self, request: Request) -> Response:
        self._check(request.path_params)
        self._served()
        view = await run_in_thread(self._processor.ledger_view)
        return json_response({"task": self._task.id, "ledger": view})

    async def receipt(self, request: Request) -> Response:
        self._check(request.path_params)
        (epoch, round_), mixer = _parse_batch(request.path_params["batch"]), request.path_params["mixer"]
        try:
            found = await run_in_thread(self._processor.known, request.path_params["digest"], mixer, epoch, round_)
        except ShareRejected as conflict:
            if conflict.reason != "over":
                raise _refusal_of_share(conflict, 404) from None
            raise RequestRefused(409, "over", **await run_in_thread(self._receipt_of, epoch, round_)) from None
        return json_response({"receipt": loads(found)})

    def _receipt_of(self, epoch: int, round_: int) -> dict[str, Any]:
        """Return the receipt of a round that ended with other totals: mixers believe nothing without one."""
        with suppress(ValueError):  # of a number that was skipped there is none
            return {"receipt": loads(self._processor.receipt(epoch, round_))}
        return {}

    async def share(self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]) -> Any:
        self._check(params)
        mixer, (epoch, round_) = params["mixer"], _parse_batch(params["batch"])
        if self._task.mixers == 0 or mixer not in self._processor.mixers:
            raise RequestRefused(404, "mixer")
        if not verify(
            self._task.key(mixer), self._task.id, "share", body, headers.get(b"signature", b"").decode("latin-1")
        ):
            raise RequestRefused(401, "signature")
        try:
            taken = await run_in_thread(self._processor.take, body, mixer, epoch, round_)
        except ShareRejected as conflict:
            if conflict.reason != "over":
                raise _refusal_of_share(conflict, 409) from conflict
            said = await run_in_thread(self._receipt_of, epoch, round_)
            raise RequestRefused(409, "over", error=str(conflict), **said) from conflict
        self._log.say("share", epoch=epoch, round=round_, status=taken.status)
        receipt = None if taken.receipt is None else loads(taken.receipt)
        return taken.status, dumps({"receipt": receipt} if receipt else {"stored": True}), None


def _integer_parameter(request: Request, name: str, default: float) -> float:
    try:
        number = float(request.query_params.get(name, default))
    except ValueError:
        raise RequestRefused(400, name) from None
    if math.isnan(number):  # nothing is later than that: a request would wait for ever
        raise RequestRefused(400, name)
    return number


def _parse_batch(text: str) -> tuple[int, int]:
    epoch, _, round_ = text.partition(".")
    if not (epoch.isdecimal() and round_.isdecimal() and len(text) < 20):
        raise RequestRefused(404, "batch")
    return int(epoch), int(round_)


def _refusal_of_share(conflict: ShareRejected, status: int) -> RequestRefused:
    """Return 503 if the registrar must answer first."""
    waits = conflict.reason in ("unwitnessed", "rolled back")
    again = 1 if waits else None
    return RequestRefused(
        503 if waits else status, conflict.reason.replace(" ", "-"), retry_after=again, error=str(conflict)
    )


def _publication_response(published: publication.ServedPublication) -> Response:
    headers = {
        "signature": published.signature,
        "witness": published.cosignature or "",
        "etag": f'"{published.chain}"',
        "cache-control": "no-cache",
    }
    return Response(published.document, media_type="application/json", headers=headers)


class LocalCollector:
    """The collector inside an analyzer that may see single reports: closed rounds go to the processor directly."""

    def __init__(self, processor: BatchProcessor, rows: Database, secrets: Secrets) -> None:
        self._processor, self._last_number = processor, -1
        task = processor.task
        self.collector = Collector(
            rows,
            task_id=task.id,
            task=task.digest,
            key=secrets.ticket_key(task, COLLECTOR),
            grace=float(task.content["grace"]),
            answered=task.content["close"] == "answered",
            name="analyzer",
        )

    def ready(self) -> bool:
        """Whether the registrar has confirmed that the database is the newest; an older one would lose reports."""
        return self._processor.published is not None and not self._processor.rolled_back

    def plan(self) -> Plan | None:
        """Tell the collector about new publications."""
        number = self._processor.number
        if number == self._last_number or self._processor.pending is not None:
            return None
        self._last_number = number
        return self._processor.now.batches, self._processor.running

    def forward(self, closed: ClosedRound) -> bytes | None:
        """Release a closed round and return its receipt; None until its publication is cosigned."""
        if self._processor.pending is not None:
            return None
        return self._processor.take(closed.share, "analyzer", closed.epoch, closed.round).receipt


def build_analyzer(task: Task, secrets: Secrets, *, database: str, log: EventLog, verify_tls: Any = True) -> Any:
    """Build the application of a task's analyzer."""
    rows = open_database(database, role="analyzer", schema=SCHEMA + LEDGER_SCHEMA + collector.SCHEMA)
    rows.claim()
    opener = Opener(secrets.seal) if secrets.seal else None
    registrar = RoleConnection(task.url("registrar"), seconds=_PATIENCE, verify_tls=verify_tls)
    told = WitnessCall(registrar, task.id)
    processor = BatchProcessor(rows, task, sign=partial(sign, secrets.sign, task.id), opener=opener, witness=told)
    metrics, routes = CollectorRegistry(), AnalyzerRoutes(processor, rows, log)
    witnesses = WitnessThread(processor, log=log)
    own = LocalCollector(processor, rows, secrets) if task.mixers == 0 else None
    pump = None if own is None else CollectorThread(own.collector, forward=own.forward, plan=own.plan, log=log)
    reports = None if own is None else CollectorRoutes(own.collector, task.id, metrics, ready=own.ready)
    Gauge("bandanna_publication_number", "Number of the publication in force.", registry=metrics).set_function(
        lambda: processor.number
    )
    Gauge(
        "bandanna_unwitnessed_publications", "Publications that wait for the registrar's cosignature.", registry=metrics
    ).set_function(lambda: float(processor.pending is not None))
    Gauge("bandanna_task_running", "1 while batches are awaited.", registry=metrics).set_function(
        lambda: float(processor.status == RUNNING)
    )
    Gauge(
        "bandanna_rolled_back", "1 if the registrar has cosigned more than the database knows.", registry=metrics
    ).set_function(lambda: float(processor.rolled_back))

    Gauge(
        "bandanna_epsilon_spent",
        "Epsilon of the user who paid most, as published; NaN without a number.",
        registry=metrics,
    ).set_function(lambda: _to_metric(None if processor.published is None else processor.published.read_field("spent")))
    Gauge("bandanna_epsilon_budget", "Epsilon of the budget; NaN if it has none.", registry=metrics).set(
        _to_metric(getattr(task.policy.privacy.budget, "epsilon", None))
    )

    async def start() -> None:
        witnesses.start()
        if pump is not None:
            pump.start()

    async def stop() -> None:
        if pump is not None:
            await run_in_thread(pump.stop)
        await run_in_thread(witnesses.stop)
        rows.close()

    def health() -> dict[str, Any]:
        fine = (pump is None or not pump.failing) and not processor.rolled_back and not witnesses.late
        return {"ok": fine, "task": processor.status, "rolled_back": processor.rolled_back}

    def status() -> dict[str, Any]:
        public = {"publication": processor.number, "status": processor.status}
        return public | ({} if own is None else {"collector": own.collector.progress()})

    return build_application(
        role="analyzer",
        routes=[*routes.routes, *(reports.routes if reports is not None else ())],
        uploads={**routes.uploads, **(reports.uploads if reports is not None else {})},
        public=[*routes.public, *(reports.public if reports is not None else ())],
        peers=routes.peers,
        names=[host_from_url(task.url("analyzer"))],
        start=start,
        stop=stop,
        ending=routes.end,
        health=health,
        status=status,
        metrics=metrics,
        log=log,
        token=secrets.token,
        database=lambda: rows,
        limits=compute_limits(processor.now.batches, shares=task.mixers > 0),
    )


def _to_metric(value: float | None) -> float:
    return math.nan if value is None else float(value)
