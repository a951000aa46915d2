"""What a role counts, as text."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.http.metrics import OTHER, SERIES, Metrics
from bandanna.deployment.http.requests import ProgramError

from .prometheus import parse


@given(st.text(), st.text(), st.floats())
def test_any_text_and_number_is_read_back(meaning: str, label: str, value: float) -> None:
    """A help text or a label's value breaks the format, or a number changes."""
    metrics = Metrics()
    metrics.gauge("heat", meaning, ("where",)).set(value, where=label)
    types, samples = parse(metrics.text())
    ((name, labels), read), *others = samples.items()
    assert (types, name, others) == ({"heat": "gauge"}, "heat", [])
    assert labels == {("where", label.replace("\r", " "))}
    assert read == value or (math.isnan(read) and math.isnan(value))


@given(st.lists(st.floats(-10, 10), max_size=30))
def test_a_histogram_counts_every_value_once(values: list[float]) -> None:
    """A value is lost, or counted in a bucket whose upper end is below it."""
    metrics = Metrics()
    histogram = metrics.histogram("wait", "Seconds.", (-1, 0, 2.5))
    for value in values:
        histogram.observe(value)
    _, samples = parse(metrics.text())
    for end in ("-1", "0", "2.5", "+Inf"):
        assert samples["wait_bucket", frozenset({("le", end)})] == sum(value <= float(end) for value in values)
    assert samples["wait_sum", frozenset()] == pytest.approx(sum(values), abs=1e-9)


def test_threads_lose_no_count() -> None:
    """Two threads that count at once count less than both."""
    counter = Metrics().counter("seen_total", "Seen.")
    threads = [threading.Thread(target=lambda: [counter.add() for _ in range(20_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.series().value == 80_000


def test_a_name_is_one_metric() -> None:
    """Asking again for a metric loses what was counted, or one name has two meanings."""
    metrics = Metrics()
    metrics.counter("seen_total", "Seen.", ("reason",)).add(2, reason="a")
    metrics.counter("seen_total", "Seen.", ("reason",)).add(3, reason="a")
    assert 'seen_total{reason="a"} 5\n' in metrics.text()
    with pytest.raises(ProgramError, match="seen_total"):
        metrics.gauge("seen_total", "Seen.", ("reason",))
    with pytest.raises(ProgramError, match="seen_total"):
        metrics.counter("seen_total", "Seen.")


def test_labels_do_not_grow_without_bound() -> None:
    """A label with ever new values takes ever more memory."""
    counter = Metrics().counter("seen_total", "Seen.", ("reason",))
    for number in range(10 * SERIES):
        counter.add(reason=str(number))
    assert len(list(counter.lines())) == 2 + SERIES + 1
    assert counter.series(reason=OTHER).value == 9 * SERIES


def test_mistakes_are_named() -> None:
    """A counter falls, or a metric is made that no reader understands."""
    metrics = Metrics()
    with pytest.raises(ProgramError, match="counters never fall"):
        metrics.counter("seen_total", "Seen.").add(-1)
    with pytest.raises(ProgramError, match="labels"):
        metrics.counter("seen_total", "Seen.").add(reason="a")
    with pytest.raises(ProgramError, match="name"):
        metrics.counter("seen total", "Seen.")
    for buckets in ((), (1.0, 1.0), (2.0, 1.0), (math.inf,)):
        with pytest.raises(ProgramError, match="buckets"):
            metrics.histogram("wait", "Seconds.", buckets)


def test_a_gauge_that_follows_is_read_when_somebody_looks() -> None:
    """A gauge shows what was, not what is: nobody had asked for something else before."""
    metrics, now = Metrics(), [1.0]
    metrics.gauge("level", "Now.").follow(lambda: now[0])
    assert "level 1\n" in metrics.text()
    now[0] = 2.5
    assert "level 2.5\n" in metrics.text()
