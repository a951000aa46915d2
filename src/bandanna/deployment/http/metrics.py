"""A log that cannot name a user, and the metrics of a role's requests."""

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
from importlib.metadata import version
from itertools import accumulate
from typing import Literal, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from bandanna.deployment.http.routes import (
    ProgramError,
    RequestRefused,
    RouteTarget,
    is_storage,
    locate_error,
    make_busy_refusal,
    to_refusal,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # no times are published


VERSION = version("bandanna")  # the package itself imports everything

# The log


LogValue = bool | int | float | str | None

FORBIDDEN_KEYS = frozenset({"address", "client", "ip", "slot", "user", "body", "report", "ticket"})
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TEXT = re.compile(r"[A-Za-z0-9_.,:/{}<>+= -]{0,120}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|::|[0-9A-Fa-f]+:[0-9A-Fa-f]+:")


class EventLog:
    """A log of a role's events and numbers, without data of users or clients.

    Keys such as `user` or `client_ip` are refused; plurals such as `users` are counts. Texts are short and contain only
    letters, digits and some signs, and no address of a machine. By default, lines are written to standard error.
    """

    def __init__(self, role: str, stream: TextIO | None = None, *, task: str | None = None) -> None:
        self.role = _check_log_text("role", role)
        self._task = None if task is None else _check_log_text("task", task)
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def say(self, event: str, *, level: Literal["info", "warning", "error"] = "info", **facts: LogValue) -> None:
        """Write one line; ignore a failing stream."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry: dict[str, LogValue] = {"time": now, "level": level, "role": self.role, "version": VERSION}
        entry |= {"task": self._task, "event": _check_log_text("event", event)}
        for key, value in facts.items():
            if key in entry or not _KEY.fullmatch(key) or not FORBIDDEN_KEYS.isdisjoint(key.split("_")):
                allowed = f"a short lower-case name of a fact without {', '.join(sorted(FORBIDDEN_KEYS))}"
                raise ProgramError("key", key, allowed)
            if isinstance(value, float):
                value = float(value) if math.isfinite(value) else str(float(value))
            plain = value is None or isinstance(value, bool | int | float)
            entry[key] = value if plain else _check_log_text(key, value)
        line = json.dumps(entry, separators=(",", ":"), allow_nan=False) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # a pipe without a reader, a closed file
                pass


def _check_log_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value) or _ADDRESS.search(value):
        allowed = "a number, None, or a short text of letters, digits and _.,:/{}<>+=-"
        raise ProgramError(key, type(value).__name__, allowed)
    return value


# Metrics


OTHER = "other"  # the route of requests for an unknown path
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUIET_SECONDS = 1.0  # between two lines about the same failure
_MOST_FAILURES = 100  # places of failures that are remembered


class _Durations:
    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class RequestMetrics(Collector):
    """Requests by route template and class of status, their seconds, and refusals by reason.

    No label is taken from a request. `in_flight` requests are being answered, and `received` bytes of bodies were read.
    """

    def __init__(self, *, role: str, metrics: CollectorRegistry, log: EventLog) -> None:
        self.in_flight = self.received = 0
        self.log = log
        self._role = role
        self._metrics = metrics
        self._refusals = Counter(
            "bandanna_refusals_total", "Requests refused, by reason.", ["reason"], registry=metrics
        )
        self._requests: dict[tuple[str, int], _Durations] = {}
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        about = "Always 1; the labels name the role and the version."
        build = Gauge("bandanna_build_info", about, ["role", "version"], registry=metrics)
        build.labels(role=role, version=VERSION).set(1)
        metrics.register(self)

    def request(self, target: RouteTarget | RequestRefused, status: int, seconds: float) -> None:
        """Count a finished request; status 0 means that the client left."""
        key = target.template if type(target) is RouteTarget else OTHER, status // 100
        durations = self._requests.get(key)
        if durations is None:
            durations = self._requests[key] = _Durations()
        durations.counts[bisect_left(BUCKETS, seconds)] += 1
        durations.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "bandanna_requests_total", "Requests answered.", labels=("role", "route", "status")
        )
        routes: dict[str, _Durations] = {}
        for (route, status), durations in list(self._requests.items()):
            requests.add_metric((self._role, route, f"{status}xx" if status else "gone"), sum(durations.counts))
            total = routes.setdefault(route, _Durations())
            total.counts = [a + b for a, b in zip(total.counts, durations.counts, strict=True)]
            total.seconds += durations.seconds
        seconds = HistogramMetricFamily(
            "bandanna_request_duration_seconds", "Seconds from head to answer.", labels=("route",)
        )
        for route, durations in routes.items():
            ends = map(floatToGoString, (*BUCKETS, math.inf))
            seconds.add_metric((route,), list(zip(ends, accumulate(durations.counts), strict=True)), durations.seconds)
        yield requests
        yield seconds
        yield CounterMetricFamily("bandanna_received_bytes_total", "Bytes of requests' bodies.", self.received)
        yield GaugeMetricFamily("bandanna_requests_in_flight", "Requests being answered.", self.in_flight)

    def refused(self, reason: str) -> None:
        self._refusals.labels(reason=reason).inc()

    def refusal(self, error: BaseException) -> RequestRefused:
        """Return the refusal for an error and count it; log the type and place of a fault."""
        refused = make_busy_refusal("stopping") if isinstance(error, asyncio.CancelledError) else to_refusal(error)
        self.refused(refused.reason)
        if not isinstance(error, RequestRefused) and (refused.status == 500 or is_storage(error)):
            refused.details["request"] = secrets.token_hex(8)
            self.failed(refused.reason, error, refused.details["request"])
        return refused

    def failed(self, event: str, error: BaseException, request: str | None = None) -> None:
        """Log a failure, at most once a second for the same place; `more` counts those between.

        `request` is the random id in the answer.
        """
        key = type(error).__name__, locate_error(error)
        now = time.monotonic()
        last, more = self._logged.get(key, (-_QUIET_SECONDS, 0))
        if now - last < _QUIET_SECONDS:
            self._logged[key] = last, more + 1
            return
        if len(self._logged) >= _MOST_FAILURES:
            self._logged.clear()
        self._logged[key] = now, 0
        self.log.say(event, level="error", request=request, type=key[0][:60], place=key[1], more=more)

    def text(self) -> bytes:
        """Return all metrics of the process in Prometheus' text format."""
        return generate_latest(self._metrics)
