"""What a role counts about its requests, and a log that cannot name a person."""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate
from typing import Literal, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from bandanna import __version__
from bandanna.deployment.http.requests import (
    ProgramError,
    RequestRefused,
    RouteTarget,
    is_storage,
    locate_error,
    make_busy_refusal,
    to_refusal,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # what is counted is published, not since when


# The log


LogValue = bool | int | float | str | None

FORBIDDEN_KEYS = frozenset({"address", "client", "ip", "slot", "user", "body", "report", "ticket"})
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TEXT = re.compile(r"[A-Za-z0-9_.,:/{}<>+= -]{0,120}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|::|[0-9A-Fa-f]+:[0-9A-Fa-f]+:")


class EventLog:
    """A log of events and numbers of a role, never of the people behind requests.

    Keys that name a person or what one sent are refused, alone or as a part (`client_ip`); plurals are counts
    (`users=200`). Texts are short, of a closed alphabet, and no address of a machine.
    """

    def __init__(self, role: str, stream: TextIO | None = None, *, task: str | None = None) -> None:
        self.role, self._task = _check_log_text("role", role), _check_log_value("task", task)
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def say(self, event: str, *, level: Literal["info", "warning", "error"] = "info", **facts: LogValue) -> None:
        """Write one line; a failing stream is ignored."""
        said: dict[str, LogValue] = {"time": _now(), "level": level, "role": self.role, "version": __version__}
        said |= {"task": self._task, "event": _check_log_text("event", event)}
        for key, value in facts.items():
            if key in said or not _KEY.fullmatch(key) or not FORBIDDEN_KEYS.isdisjoint(key.split("_")):
                raise ProgramError(
                    "key", key, f"a short lower-case name of a fact, none of {', '.join(sorted(FORBIDDEN_KEYS))}"
                )
            said[key] = _check_log_value(key, value)
        line = json.dumps(said, separators=(",", ":"), allow_nan=False) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # a pipe without a reader, a closed file
                pass


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_log_value(key: str, value: LogValue) -> LogValue:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return _check_log_text(key, value)


def _check_log_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value) or _ADDRESS.search(value):
        raise ProgramError(
            key, type(value).__name__, "a number, None, or a short text of letters, digits and _.,:/{}<>+=-"
        )
    return value


# Metrics


OTHER = "other"  # the route of requests for a path that is unknown
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUIET = 1.0  # seconds between two lines about the same failure
_KNOWN = 100  # failures told apart


class _Durations:
    """A histogram of the seconds of requests."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class RequestMetrics(Collector):
    """Requests by route template and class of status, their seconds, and refusals by reason.

    All label values are words of the program: none is taken from a request. `flying` requests are being answered,
    `received` bytes of bodies were read. The loop's thread alone writes the numbers of requests, without a lock.
    """

    def __init__(self, *, role: str, metrics: CollectorRegistry, log: EventLog) -> None:
        self.flying = self.received = 0
        self.log = log
        self._role = role
        self._metrics = metrics
        self._refusals = Counter(
            "bandanna_refusals_total", "Requests refused, by reason.", ["reason"], registry=metrics
        )
        self._requests: dict[tuple[str, int], _Durations] = {}
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        build = Gauge(
            "bandanna_build_info", "Always 1; the labels tell what runs.", ["role", "version"], registry=metrics
        )
        build.labels(role=role, version=__version__).set(1)
        metrics.register(self)

    def request(self, target: RouteTarget | RequestRefused, status: int, seconds: float) -> None:
        """Count a request that is over; status 0 stands for a client that left."""
        key = target.template if type(target) is RouteTarget else OTHER, status // 100
        durations = self._requests.get(key)
        if durations is None:
            durations = self._requests[key] = _Durations()
        durations.counts[bisect_left(BUCKETS, seconds)] += 1
        durations.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of requests, as Prometheus' client library wants them."""
        requests = CounterMetricFamily(
            "bandanna_requests_total", "Requests answered.", labels=("role", "route", "status")
        )
        routes: dict[str, _Durations] = {}
        for (route, status), durations in list(self._requests.items()):
            requests.add_metric((self._role, route, f"{status}xx" if status else "gone"), sum(durations.counts))
            of_route = routes.setdefault(route, _Durations())
            of_route.counts = [a + b for a, b in zip(of_route.counts, durations.counts, strict=True)]
            of_route.seconds += durations.seconds
        seconds = HistogramMetricFamily(
            "bandanna_request_duration_seconds", "Seconds from head to answer.", labels=("route",)
        )
        for route, durations in routes.items():
            ends = map(floatToGoString, (*BUCKETS, math.inf))
            seconds.add_metric((route,), list(zip(ends, accumulate(durations.counts), strict=True)), durations.seconds)
        yield requests
        yield seconds
        yield CounterMetricFamily("bandanna_received_bytes_total", "Bytes of requests' bodies.", self.received)
        yield GaugeMetricFamily("bandanna_requests_in_flight", "Requests being answered.", self.flying)

    def refused(self, reason: str) -> None:
        """Count a refusal."""
        self._refusals.labels(reason=reason).inc()

    def refusal(self, error: BaseException) -> RequestRefused:
        """Return the refusal for an error, counted; a fault of the role is logged by its type and place."""
        refused = make_busy_refusal("stopping") if isinstance(error, asyncio.CancelledError) else to_refusal(error)
        self.refused(refused.reason)
        if not isinstance(error, RequestRefused) and (refused.status == 500 or is_storage(error)):
            refused.details["request"] = secrets.token_hex(8)
            self.failed(refused.reason, error, refused.details["request"])
        return refused

    def failed(self, event: str, error: BaseException, request: str | None = None) -> None:
        """Log a failure, at most once a second for the same place; `more` are those since the last line.

        `request` is the id that the answer shows: it is drawn for the failure, so it says nothing of the client.
        """
        key = type(error).__name__, locate_error(error)
        now = time.monotonic()
        last, more = self._said.get(key, (-_QUIET, 0))
        if now - last < _QUIET:
            self._said[key] = last, more + 1
            return
        if len(self._said) >= _KNOWN:
            self._said.clear()
        self._said[key] = now, 0
        self.log.say(event, level="error", request=request, type=key[0][:60], place=key[1], more=more)

    def text(self) -> bytes:
        """Return all metrics of the process in Prometheus' text format."""
        return generate_latest(self._metrics)
