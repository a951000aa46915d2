"""The collector's part of a role's application: uploads, and how far the running batch is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bandanna.roles.collector.collector import Collector
from bandanna.roles.collector.commits import GroupCommit
from bandanna.roles.collector.verdict import Verdict, answer
from bandanna.roles.serving import Limits, Metrics, Refused, Route, Upload, in_thread, json_response
from bandanna.wire.plan import Batch
from bandanna.wire.record import HEADER

_GAUGES = {
    "batch": "Number of the running batch.",
    "batch_slots": "Slots of the running batch that are open.",
    "batch_slots_wanted": "Slots that the running batch needs; 0 when none is awaited.",
}


def limits_of(batches: Sequence[Batch], *, shares: bool = False) -> Limits:
    """Bodies of requests: a few users' reports for all rounds of a batch, or a whole batch's share."""
    longest = max((sum(each.size + HEADER + 4 for each in batch.rounds) for batch in batches), default=0)
    body = max(1 << 26 if shares else 1 << 20, 4 * longest)
    return Limits(body=body, held=max(Limits().held, 2 * body))


class CollectorRoutes:
    """POST /tasks/{task}/reports, GET /tasks/{task}/open; `ready`: whether what is kept now will be used."""

    def __init__(
        self, collector: Collector, task_id: str, metrics: Metrics, *, ready: Callable[[], bool] = lambda: True
    ) -> None:
        self._collector, self._task, self._ready = collector, task_id, ready
        self._commits: GroupCommit[bytes, list[Verdict]] = GroupCommit(collector.accept)
        self._records = metrics.counter("records_total", "Records by what became of them.", ("result",))
        self._kept = self._records.series(result="kept")
        for place, (name, meaning) in enumerate(_GAUGES.items()):
            metrics.gauge(name, meaning).follow(partial(self._glance, place))

    def _glance(self, place: int) -> float:
        return float(self._collector.glance()[place])

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
        """Records, acknowledged when they are durable."""
        if params["task"] != self._task:
            raise Refused(404, "task")
        if not self._ready():
            raise Refused(503, "not-ready", retry_after=2.0)
        verdicts = await self._commits.submit(body)
        status, content = answer(verdicts)
        if status == 201:
            self._kept.add(len(verdicts))
        else:
            for verdict in verdicts:
                self._records.add(1, result=verdict.reason or "kept")
        return status, content, None

    async def open(self, request: Any) -> Any:
        """Which batch takes new slots, and how far the running one is: public numbers."""
        if request.path_params.get("task", self._task) != self._task:
            raise Refused(404, "task")
        return json_response(await in_thread(self._collector.progress))  # who closes a batch may hold its lock for long
