"""Counters, gauges and histograms of one process, as Prometheus reads them (text format 0.0.4); no globals."""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from bandanna.roles.serving.refusals import Mistake

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = 256  # label sets of one metric; what comes later is counted under OTHER
OTHER = "other"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Cell:
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


class Bins:
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


SeriesT = TypeVar("SeriesT", Cell, Bins)


class Metric(Generic[SeriesT]):
    """A name, what it means, and one series for each set of label values."""

    kind = "untyped"

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], make: Callable[[threading.Lock], SeriesT]
    ) -> None:
        for word in (name, *labels):
            if not _NAME.fullmatch(word):
                raise Mistake("name", word, "lower-case letters, digits and underscores, a letter first")
        self.name, self.meaning, self.labels = name, meaning, tuple(labels)
        self._lock = threading.Lock()
        self._make: Callable[[threading.Lock], SeriesT] = make
        self._series: dict[tuple[str, ...], SeriesT] = {}
        if not self.labels:
            self.series()

    def series(self, **labels: str) -> SeriesT:
        """The one with these label values; hold it where every microsecond counts."""
        if labels.keys() != set(self.labels):
            raise Mistake("labels", sorted(labels), f"exactly {', '.join(self.labels) or 'none'}")
        values = tuple(str(labels[name]) for name in self.labels)
        with self._lock:
            if values not in self._series and len(self._series) >= SERIES:
                values = (OTHER,) * len(values)
            return self._series.setdefault(values, self._make(self._lock))

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        yield f"# HELP {self.name} {_escaped(self.meaning)}"
        yield f"# TYPE {self.name} {self.kind}"
        with self._lock:
            known = sorted(self._series.items())
        for values, series in known:
            yield from self._samples(list(zip(self.labels, values, strict=True)), series)

    def _samples(self, labels: list[tuple[str, str]], series: SeriesT) -> Iterator[str]:
        assert isinstance(series, Cell)
        yield _sample(self.name, labels, series.value)


class Counter(Metric[Cell]):
    """What only grows."""

    kind = "counter"

    def add(self, n: float = 1, **labels: str) -> None:
        """Count `n` more."""
        if not n >= 0:
            raise Mistake("n", n, "a number >= 0: counters never fall")
        self.series(**labels).add(n)


class Gauge(Metric[Cell]):
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


class Histogram(Metric[Bins]):
    """How values are spread."""

    kind = "histogram"

    def observe(self, x: float, **labels: str) -> None:
        """Count one value."""
        self.series(**labels).observe(x)

    def _samples(self, labels: list[tuple[str, str]], series: Bins) -> Iterator[str]:
        with self._lock:
            counts, total = list(series.counts), series.total
        so_far = 0
        for end, count in zip((*series.buckets, math.inf), counts, strict=True):
            so_far += count
            yield _sample(f"{self.name}_bucket", [*labels, ("le", _number(end))], so_far)
        yield _sample(f"{self.name}_sum", labels, total)
        yield _sample(f"{self.name}_count", labels, so_far)


class Metrics:
    """A registry: asking again for a name gives the same metric."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """What only grows; its name ends in `_total` by custom."""
        return self._known(name, Counter(name, help, labels, Cell))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
        """What rises and falls."""
        return self._known(name, Gauge(name, help, labels, Cell))

    def histogram(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        """How values are spread; `buckets` are upper ends, ascending, and infinity is added."""
        ends = tuple(float(end) for end in buckets)
        if not ends or list(ends) != sorted(set(ends)) or not all(map(math.isfinite, ends)):
            raise Mistake("buckets", buckets, "finite numbers, ascending, at least one")
        return self._known(name, Histogram(name, help, labels, lambda lock: Bins(lock, ends)))

    def text(self) -> str:
        """Everything, in Prometheus' text format."""
        metrics = list(self._metrics.values())
        return "".join(f"{line}\n" for metric in metrics for line in metric.lines())

    def _known(self, name: str, new: MetricT) -> MetricT:
        known = self._metrics.setdefault(name, new)
        if not isinstance(known, type(new)) or known.labels != new.labels:
            raise Mistake("name", name, f"a new one, or a {known.kind} with labels {list(known.labels)} as before")
        return known


MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)


def _sample(name: str, labels: list[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text, quote=True)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", " ")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
