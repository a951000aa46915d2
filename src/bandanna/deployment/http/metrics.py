"""Metrics of requests, and log lines without people."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Generic, TextIO, TypeVar

from bandanna.deployment.http.requests import (
    ProgramError,
    RequestRefused,
    RouteTarget,
    is_storage,
    locate_error,
    make_busy_refusal,
    to_refusal,
)

# One JSON line per event, in which no person can be named.


LogValue = bool | int | float | str | None

FORBIDDEN_KEYS = frozenset({"address", "client", "ip", "slot", "user", "body", "record", "ticket"})
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TEXT = re.compile(r"[A-Za-z0-9_.,:/{}<>+= -]{0,120}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|::|[0-9A-Fa-f]+:[0-9A-Fa-f]+:")


class EventLog:
    """What a role says of itself: events and numbers, never of whom it heard.

    Keys that name a person or what one sent are refused, alone or as a part (`client_ip`); plurals are counts
    (`users=200`). Texts are short, of a closed alphabet, and no address of a machine.
    """

    def __init__(self, role: str, stream: TextIO | None = None) -> None:
        self.role = _check_log_text("role", role)
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def say(self, event: str, **facts: LogValue) -> None:
        """Write one line; a stream that fails stops nobody."""
        said: dict[str, LogValue] = {"time": _now(), "role": self.role, "event": _check_log_text("event", event)}
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


# Counters, gauges and histograms of one process, as Prometheus reads them (text format 0.0.4); no globals.


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = 256  # label sets of one metric; what comes later is counted under OTHER
OTHER = "other"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class SingleValue:
    """One number."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.value: float = 0

    def add(self, n: float = 1) -> None:
        """Count `n` more."""
        with self._lock:
            self.value += n

    def set(self, x: float) -> None:
        """Forget what was, and hold `x`."""
        self.value = x


class BinCounts:
    """How often values fell between given ones, and their sum."""

    def __init__(self, lock: threading.Lock, buckets: Sequence[float]) -> None:
        self._lock = lock
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.total = 0.0

    def observe(self, x: float) -> None:
        """Count `x` in the first bucket whose upper end is not below it."""
        with self._lock:
            self.counts[bisect_left(self.buckets, x)] += 1
            self.total += x


SeriesT = TypeVar("SeriesT", SingleValue, BinCounts)


class Metric(Generic[SeriesT]):
    """A name, what it means, and one series for each set of label values."""

    kind = "untyped"

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], make: Callable[[threading.Lock], SeriesT]
    ) -> None:
        for word in (name, *labels):
            if not _NAME.fullmatch(word):
                raise ProgramError("name", word, "lower-case letters, digits and underscores, a letter first")
        self.name, self.meaning, self.labels = name, meaning, tuple(labels)
        self._lock = threading.Lock()
        self._make: Callable[[threading.Lock], SeriesT] = make
        self._series: dict[tuple[str, ...], SeriesT] = {}
        if not self.labels:
            self.series()

    def series(self, **labels: str) -> SeriesT:
        """The one with these label values; hold it where every microsecond counts."""
        if labels.keys() != set(self.labels):
            raise ProgramError("labels", sorted(labels), f"exactly {', '.join(self.labels) or 'none'}")
        values = tuple(str(labels[name]) for name in self.labels)
        with self._lock:
            if values not in self._series and len(self._series) >= SERIES:
                values = (OTHER,) * len(values)
            return self._series.setdefault(values, self._make(self._lock))

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        yield f"# HELP {self.name} {_escape_label(self.meaning)}"
        yield f"# TYPE {self.name} {self.kind}"
        with self._lock:
            known = sorted(self._series.items())
        for values, series in known:
            yield from self._samples(list(zip(self.labels, values, strict=True)), series)

    def _samples(self, labels: list[tuple[str, str]], series: SeriesT) -> Iterator[str]:
        assert isinstance(series, SingleValue)
        yield _format_sample(self.name, labels, series.value)


class Counter(Metric[SingleValue]):
    """What only grows."""

    kind = "counter"

    def add(self, n: float = 1, **labels: str) -> None:
        """Count `n` more."""
        if not n >= 0:
            raise ProgramError("n", n, "a number >= 0: counters never fall")
        self.series(**labels).add(n)


class Gauge(Metric[SingleValue]):
    """What rises and falls."""

    kind = "gauge"
    _read: Callable[[], float] | None = None

    def set(self, x: float, **labels: str) -> None:
        """The number now."""
        self.series(**labels).set(x)

    def follow(self, read: Callable[[], float]) -> None:
        """Be what `read` says whenever somebody looks; without labels."""
        self._read, self._followed = read, self.series()

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        if self._read is not None:
            self._followed.set(self._read())
        yield from super().lines()


class Histogram(Metric[BinCounts]):
    """How values are spread."""

    kind = "histogram"

    def observe(self, x: float, **labels: str) -> None:
        """Count one value."""
        self.series(**labels).observe(x)

    def _samples(self, labels: list[tuple[str, str]], series: BinCounts) -> Iterator[str]:
        with self._lock:
            counts, total = list(series.counts), series.total
        so_far = 0
        for end, count in zip((*series.buckets, math.inf), counts, strict=True):
            so_far += count
            yield _format_sample(f"{self.name}_bucket", [*labels, ("le", _format_number(end))], so_far)
        yield _format_sample(f"{self.name}_sum", labels, total)
        yield _format_sample(f"{self.name}_count", labels, so_far)


class Metrics:
    """A registry: asking again for a name gives the same metric."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """What only grows; its name ends in `_total` by custom."""
        return self._known(name, Counter(name, help, labels, SingleValue))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
        """What rises and falls."""
        return self._known(name, Gauge(name, help, labels, SingleValue))

    def histogram(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        """How values are spread; `buckets` are upper ends, ascending, and infinity is added."""
        ends = tuple(float(end) for end in buckets)
        if not ends or list(ends) != sorted(set(ends)) or not all(map(math.isfinite, ends)):
            raise ProgramError("buckets", buckets, "finite numbers, ascending, at least one")
        return self._known(name, Histogram(name, help, labels, lambda lock: BinCounts(lock, ends)))

    def text(self) -> str:
        """Everything, in Prometheus' text format."""
        metrics = list(self._metrics.values())
        return "".join(f"{line}\n" for metric in metrics for line in metric.lines())

    def _known(self, name: str, new: MetricT) -> MetricT:
        known = self._metrics.setdefault(name, new)
        if not isinstance(known, type(new)) or known.labels != new.labels:
            raise ProgramError("name", name, f"a new one, or a {known.kind} with labels {list(known.labels)} as before")
        return known


MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)


def _format_sample(name: str, labels: list[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{key}="{_escape_label(text, quote=True)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_format_number(value)}" if inside else f"{name} {_format_number(value)}"


def _escape_label(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", " ")
    return text.replace('"', '\\"') if quote else text


def _format_number(value: float) -> str:
    if math.isfinite(value):
        return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


# What an application counts about itself, and what it says of its failures.


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUIET = 1.0  # seconds between two lines about the same failure
_KNOWN = 100  # failures told apart


class RequestMetrics:
    """Requests by route template and class of status, their seconds, refusals by reason; no label is a client's."""

    def __init__(self, *, role: str, metrics: Metrics, log: EventLog) -> None:
        self.flying = 0
        self.log = log
        self._role = role
        self._requests = metrics.counter("requests_total", "Requests answered.", ("role", "route", "status"))
        self._seconds = metrics.histogram("request_seconds", "Seconds from head to answer.", BUCKETS, ("route",))
        self._refusals = metrics.counter("refusals_total", "Requests refused, by reason.", ("reason",))
        self._flying = metrics.gauge("in_flight", "Requests being answered.")
        self.received = metrics.counter("received_bytes_total", "Bytes of requests' bodies.").series()
        self._metrics = metrics
        self._cells: dict[tuple[str, int], tuple[SingleValue, BinCounts]] = {}
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def request(self, target: RouteTarget | RequestRefused, status: int, seconds: float) -> None:
        """One is over; status 0 is a client that left."""
        route = target.template if isinstance(target, RouteTarget) else OTHER
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

    def refusal(self, error: BaseException) -> RequestRefused:
        """What to answer to an error: counted, and logged if the fault is ours - by its type and place alone."""
        refused = make_busy_refusal("stopping") if isinstance(error, asyncio.CancelledError) else to_refusal(error)
        self.refused(refused.reason)
        if not isinstance(error, RequestRefused) and (refused.status == 500 or is_storage(error)):
            self.failed(refused.reason, error)
        return refused

    def failed(self, event: str, error: BaseException) -> None:
        """Say so, at most once a second for the same place; `more` are those since the last line."""
        key = type(error).__name__, locate_error(error)
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
