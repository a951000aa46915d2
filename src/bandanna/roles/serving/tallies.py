"""What an application counts about itself, and what it says of its failures."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left

from bandanna.roles.serving.log import Log
from bandanna.roles.serving.metrics import OTHER, Bins, Cell, Metrics
from bandanna.roles.serving.refusals import Refused, busy, is_storage, place, refusal_of
from bandanna.roles.serving.routing import Target

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUIET = 1.0  # seconds between two lines about the same failure
_KNOWN = 100  # failures told apart


class Tallies:
    """Requests by route template and class of status, their seconds, refusals by reason; no label is a client's."""

    def __init__(self, *, role: str, metrics: Metrics, log: Log) -> None:
        self.flying = 0
        self.log = log
        self._role = role
        self._requests = metrics.counter("requests_total", "Requests answered.", ("role", "route", "status"))
        self._seconds = metrics.histogram("request_seconds", "Seconds from head to answer.", BUCKETS, ("route",))
        self._refusals = metrics.counter("refusals_total", "Requests refused, by reason.", ("reason",))
        self._flying = metrics.gauge("in_flight", "Requests being answered.")
        self.received = metrics.counter("received_bytes_total", "Bytes of requests' bodies.").series()
        self._metrics = metrics
        self._cells: dict[tuple[str, int], tuple[Cell, Bins]] = {}
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def request(self, target: Target | Refused, status: int, seconds: float) -> None:
        """One is over; status 0 is a client that left."""
        route = target.template if isinstance(target, Target) else OTHER
        key = route, status // 100
        found = self._cells.get(key)
        if found is None:
            counted = self._requests.series(role=self._role, route=route, status=f"{key[1]}xx" if status else "gone")
            found = self._cells[key] = counted, self._seconds.series(route=route)
        counted, spread = found
        counted.value += 1  # the loop's thread alone writes these
        spread.counts[bisect_left(BUCKETS, seconds)] += 1
        spread.total += seconds

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refusals.add(reason=reason)

    def refusal(self, error: BaseException) -> Refused:
        """What to answer to an error: counted, and logged if the fault is ours - by its type and place alone."""
        refused = busy("stopping") if isinstance(error, asyncio.CancelledError) else refusal_of(error)
        self.refused(refused.reason)
        if not isinstance(error, Refused) and (refused.status == 500 or is_storage(error)):
            self.failed(refused.reason, error)
        return refused

    def failed(self, event: str, error: BaseException) -> None:
        """Say so, at most once a second for the same place; `more` are those since the last line."""
        key = type(error).__name__, place(error)
        now = time.monotonic()
        last, more = self._said.get(key, (-_QUIET, 0))
        if now - last < _QUIET:
            self._said[key] = last, more + 1
            return
        if len(self._said) >= _KNOWN:
            self._said.clear()
        self._said[key] = now, 0
        self.log.say(event, type=key[0][:60], place=key[1], more=more)

    def text(self) -> str:
        """All metrics of the process."""
        self._flying.set(self.flying)
        return self._metrics.text()
