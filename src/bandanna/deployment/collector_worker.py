"""The collector's thread, routes and group commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from bandanna.deployment.collector import ClosedRound, Collector, Plan
from bandanna.deployment.http.limits import Limits
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.requests import RequestRefused, Route, Upload, json_response, locate_error, run_in_thread
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.report import HEADER, ReportVerdict, encode_verdicts

# The worker


_TICK = 0.02  # seconds between two looks at the clock
_PATIENCE = 2.0  # at most so many seconds before what has failed is tried again


class CollectorThread:
    """One thread.

    forward  sends a closed round on; its receipt, or None if it has to be sent again later
    plan     the newest public plan, or None if there is no newer one than it has told
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
        self._planned: Plan | None = None  # what the collector could not take yet
        self.failing = ""  # the type of what went wrong in the last step

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step that is running."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause = _TICK
        while not self._stop.wait(pause):
            try:
                self.step()
                pause, self.failing = _TICK, ""
            except Exception as error:
                if self.failing != type(error).__name__:
                    self._log.say("step failed", level="error", type=type(error).__name__, place=locate_error(error))
                self.failing, pause = type(error).__name__, min(_PATIENCE, 2 * pause)

    def step(self) -> None:
        """Everything that can be done now; what waits for its receipt first, since a plan may go beyond it."""
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


_DISTANCE = 0.005  # seconds between the beginnings of two transactions, at most
_SHARE = 2e-4  # and for each item of the first: who comes alone waits for nothing but the disk

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """`commit` is called with many items at a time, by one thread; whoever submitted one waits for its own result.

    most     items in one transaction
    waiting  items that may wait: above it, whoever comes is sent away
    """

    def __init__(
        self, commit: Callable[[Sequence[Item]], Sequence[Result]], *, most: int = 512, waiting: int = 4096
    ) -> None:
        self._commit, self._most, self._room = commit, most, waiting
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._busy = False

    async def submit(self, item: Item) -> Result:
        """The result of one item, when it is durable."""
        if len(self._waiting) >= self._room:
            raise RequestRefused(503, "busy", retry_after=1.0)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if not self._busy:
            self._busy = True
            asyncio.ensure_future(self._run())  # noqa: RUF006 - it ends with the last item
        return await result

    async def _run(self) -> None:
        """Until nobody waits. Transactions keep a distance: when many come, fewer of them are written, for more."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                next_at = loop.time() + min(_DISTANCE, _SHARE * len(group))
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
    """Bodies of requests: a few users' reports for all rounds of a batch, or a whole batch's share."""
    longest = max((sum(each.size + HEADER + 4 for each in batch.rounds) for batch in batches), default=0)
    body = max(1 << 26 if shares else 1 << 20, 4 * longest)
    return Limits(body=body, held=max(Limits().held, 2 * body))


class CollectorRoutes:
    """POST /tasks/{task}/reports, GET /tasks/{task}/open; `ready`: whether what is kept now will be used."""

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
        self._kept = self._reports.labels(result="kept")
        for index, (name, meaning) in enumerate(_GAUGES.items()):
            Gauge(name, meaning, registry=metrics).set_function(partial(self._glance, index))
        self._running, self._began = -1.0, time.monotonic()
        age = "Seconds since this process first stated the number of the running batch."
        Gauge("bandanna_batch_age_seconds", age, registry=metrics).set_function(self._measure_batch_age)

    def _glance(self, index: int) -> float:
        return float(self._collector.glance()[index])

    def _measure_batch_age(self) -> float:
        now, running = time.monotonic(), self._glance(0)
        if running != self._running:
            self._running, self._began = running, now
        return now - self._began

    @property
    def uploads(self) -> dict[str, Upload]:
        """Raw routes."""
        return {"/tasks/{task}/reports": self.reports}

    @property
    def routes(self) -> list[Route]:
        """Others."""
        return [("GET", "/tasks/{task}/open", self.open)]

    @property
    def public(self) -> list[str]:
        """All of them: devices that are web pages report too."""
        return ["POST /tasks/{task}/reports", "GET /tasks/{task}/open"]

    async def reports(self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]) -> Any:
        """Reports, acknowledged when they are durable."""
        if params["task"] != self._task:
            raise RequestRefused(404, "task")
        if not self._ready():
            raise RequestRefused(503, "not-ready", retry_after=2.0)
        verdicts = await self._commits.submit(body)
        status, content = encode_verdicts(verdicts)
        if status == 201:
            self._kept.inc(len(verdicts))
        else:
            for verdict in verdicts:
                self._reports.labels(result=verdict.reason or "kept").inc()
        return status, content, None

    async def open(self, request: Any) -> Any:
        """Which batch takes new slots, and how far the running one is: public numbers."""
        if request.path_params.get("task", self._task) != self._task:
            raise RequestRefused(404, "task")
        return json_response(
            await run_in_thread(self._collector.progress)
        )  # who closes a batch may hold its lock for long
