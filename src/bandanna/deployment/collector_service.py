"""The routes of a collector's HTTP service, its thread, and the group commit of reports."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.collector import ClosedRound, Collector, Plan
from bandanna.deployment.http.limits import Limits
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import (
    RequestRefused,
    Route,
    Upload,
    check_task,
    json_response,
    locate_error,
    run_in_thread,
)
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.report import HEADER, ReportVerdict, encode_verdicts

# The worker


_STEP_SECONDS = 0.02  # between two steps
_MOST_SECONDS = 2.0  # between two steps after failures


class CollectorThread:
    """A thread that gives a collector its plans, closes its batches and forwards its shares.

    Parameters
    ----------
    forward
        Sends the share of a closed round and returns the receipt, or None to try again.
    plan
        Returns the newest public plan, or None if the last one is the newest.
    """

    def __init__(
        self,
        collector: Collector,
        *,
        forward: Callable[[ClosedRound], bytes | None],
        plan: Callable[[], Plan | None],
        log: EventLog,
    ) -> None:
        self._collector, self._forward, self._plan, self._log = collector, forward, plan, log
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="pump", daemon=True)
        self._planned: Plan | None = None  # not entered yet, after a failure
        self.failing = ""  # the type of what went wrong in the last step

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the step that is running."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause, logged = _STEP_SECONDS, ""
        while not self._stop.wait(pause):
            try:
                self.step()
                pause, self.failing, logged = _STEP_SECONDS, "", ""
            except Exception as error:
                self.failing, pause = type(error).__name__, min(_MOST_SECONDS, 2 * pause)
                starting = isinstance(error, RoleUnreachable) and pause < _MOST_SECONDS
                if self.failing != logged and not starting:  # another role may start a little later than this one
                    self._log.say("step failed", level="error", type=self.failing, place=locate_error(error))
                    logged = self.failing

    def step(self) -> None:
        """Forward closed rounds, enter a new plan, and close the running round if it is due."""
        self._send()
        self._planned = self._plan() or self._planned
        if self._planned is not None:
            self._collector.plan(*self._planned)
            self._planned = None
        if self._collector.close_due():
            self._log.say("closed", epoch=self._collector.running[0], round=self._collector.running[1])
            self._send()

    def _send(self) -> None:
        for closed in self._collector.waiting():
            self._collector.check_claim()
            receipt = self._forward(closed)
            if receipt is not None:
                self._collector.receipted(closed.epoch, closed.round, receipt)


# Group commit


_MOST_DISTANCE = 0.005  # seconds between the beginnings of two transactions
_DISTANCE_PER_ITEM = 2e-4  # so a single item waits for the disk only

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Commits the items of many requests in one transaction.

    Parameters
    ----------
    commit
        Writes items in one transaction and returns the result of each.
    most
        Most items in one transaction.
    waiting
        Most items that wait; more are refused with status 503.
    """

    def __init__(
        self, commit: Callable[[Sequence[Item]], Sequence[Result]], *, most: int = 512, waiting: int = 4096
    ) -> None:
        self._commit, self._most, self._room = commit, most, waiting
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._busy = False

    async def submit(self, item: Item) -> Result:
        if len(self._waiting) >= self._room:
            raise RequestRefused(503, "busy", retry_after=1.0)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if not self._busy:
            self._busy = True
            asyncio.ensure_future(self._run())  # noqa: RUF006 - it ends with the last item
        return await result

    async def _run(self) -> None:
        """Write until no item waits; under load, a pause makes transactions fewer and larger."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                next_at = loop.time() + min(_MOST_DISTANCE, _DISTANCE_PER_ITEM * len(group))
                await self._write(group)
                if len(self._waiting) < self._most and next_at > loop.time():
                    await asyncio.sleep(next_at - loop.time())
        finally:
            self._busy = False

    async def _write(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await run_in_thread(self._commit, [item for item, _ in group])
        except BaseException as error:
            for _, waiting in group:
                if not waiting.done():
                    waiting.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, waiting), result in zip(group, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)


# Routes


_GAUGES = {
    "bandanna_batch_number": "Number of the running batch.",
    "bandanna_batch_open_slots": "Slots of the running batch that are open.",
    "bandanna_batch_required_slots": "Slots that the running batch needs; 0 when none is awaited.",
}


def compute_limits(batches: Sequence[Batch], *, shares: bool = False) -> Limits:
    """Return limits for reports of a few users, or for a whole batch's share."""
    longest = max((sum(each.size + HEADER + 4 for each in batch.rounds) for batch in batches), default=0)
    body = max(1 << 26 if shares else 1 << 20, 4 * longest)
    return Limits(body=body, memory=max(Limits().memory, 2 * body))


class CollectorRoutes:
    """The routes of a collector: POST /tasks/{task}/reports and GET /tasks/{task}/open, for devices and web pages.

    `ready` returns whether stored reports will be used.
    """

    public = ("POST /tasks/{task}/reports", "GET /tasks/{task}/open")

    def __init__(
        self,
        collector: Collector,
        task_id: str,
        metrics: CollectorRegistry,
        *,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._collector, self._task, self._ready = collector, task_id, ready
        self._commits: GroupCommit[bytes, list[ReportVerdict]] = GroupCommit(collector.accept)
        self._reports = Counter(
            "bandanna_reports_total", "Reports by what became of them.", ["result"], registry=metrics
        )
        self._stored = self._reports.labels(result="kept")
        for index, (name, meaning) in enumerate(_GAUGES.items()):
            Gauge(name, meaning, registry=metrics).set_function(partial(lambda i: float(collector.glance()[i]), index))
        self._running, self._began = -1.0, time.monotonic()
        age = "Seconds since this process first stated the number of the running batch."
        Gauge("bandanna_batch_age_seconds", age, registry=metrics).set_function(self._measure_batch_age)
        self.uploads: dict[str, Upload] = {"/tasks/{task}/reports": self.reports}
        self.routes: list[Route] = [("GET", "/tasks/{task}/open", self.open)]

    def _measure_batch_age(self) -> float:
        now, running = time.monotonic(), float(self._collector.glance()[0])
        if running != self._running:
            self._running, self._began = running, now
        return now - self._began

    async def reports(self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]) -> Any:
        """Store reports durably and answer."""
        check_task(params["task"], self._task)
        if not self._ready():
            raise RequestRefused(503, "not-ready", retry_after=2.0)
        verdicts = await self._commits.submit(body)
        status, content = encode_verdicts(verdicts)
        if status == 201:
            self._stored.inc(len(verdicts))
        else:
            for verdict in verdicts:
                self._reports.labels(result=verdict.reason or "kept").inc()
        return status, content, None

    async def open(self, request: Any) -> Any:
        """Return the number of the batch that takes new slots, and how far the running one is."""
        check_task(request.path_params.get("task", self._task), self._task)
        return json_response(await run_in_thread(self._collector.progress))
