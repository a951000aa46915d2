"""The log of a role, and its metrics as text."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import bandanna
from bandanna.deployment.http.metrics import FORBIDDEN_KEYS, OTHER, EventLog, RequestMetrics
from bandanna.deployment.http.routes import ProgramError, RequestRefused, RouteTarget

from .running import Samples, parse_metrics


def test_a_line_is_json_with_time_level_role_version_task_event_and_facts() -> None:
    stream = io.StringIO()
    log = EventLog("analyzer", stream, task="t-1")
    log.say("released", epoch=3, seconds=0.25, exact=True, previous=None, type="ApproxDP", rho=float("inf"), users=20)
    log.say("stopped", level="error")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    facts = {
        "epoch": 3,
        "seconds": 0.25,
        "exact": True,
        "previous": None,
        "type": "ApproxDP",
        "rho": "inf",
        "users": 20,
    }
    common = {"role": "analyzer", "version": bandanna.__version__, "task": "t-1"}
    assert first == common | {"level": "info", "event": "released", **facts}
    assert second == common | {"level": "error", "event": "stopped", "time": second["time"]}


@pytest.mark.parametrize("key", [*sorted(FORBIDDEN_KEYS), "client_ip", "user_id", "time", "role", "Upper", "a-b"])
def test_a_log_refuses_keys_and_texts_that_name_somebody(key: str) -> None:
    stream = io.StringIO()
    with pytest.raises((ProgramError, TypeError)):
        EventLog("x", stream).say("seen", **{key: 1})
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "value",
    ["127.0.0.1", "at 10.1.2.3:80", "::1", "2001:db8:0:1", "a\nb", "ü", '"', "x" * 121, b"bytes", [1], {"a": 1}],
)
def test_values_are_numbers_or_short_texts(value: object) -> None:
    with pytest.raises(ProgramError) as caught:
        EventLog("x", io.StringIO()).say("seen", fact=value)  # type: ignore[arg-type]
    assert "10.1.2.3" not in str(caught.value)


@given(st.text() | st.floats() | st.integers() | st.none())
def test_any_fact_is_logged_on_one_line(value: str | float | None) -> None:
    stream = io.StringIO()
    try:
        EventLog("x", stream).say("seen", fact=value)
    except ProgramError:
        assert isinstance(value, str)
        return
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["event"] == "seen"


def test_a_broken_stream_is_ignored() -> None:
    stream = io.StringIO()
    stream.close()
    EventLog("x", stream).say("seen")


async def _answer() -> None: ...


REPORTS = RouteTarget(method="POST", template="/tasks/{task}/reports", handle=_answer, raw=True)


def make_metrics() -> RequestMetrics:
    return RequestMetrics(role="example", metrics=CollectorRegistry(), log=EventLog("example", stream=io.StringIO()))


def read(metrics: RequestMetrics) -> Samples:
    types, samples = parse_metrics(metrics.text().decode())
    assert types == {
        "bandanna_requests": "counter",
        "bandanna_request_duration_seconds": "histogram",
        "bandanna_refusals": "counter",
        "bandanna_received_bytes": "counter",
        "bandanna_requests_in_flight": "gauge",
        "bandanna_build_info": "gauge",
    }
    return samples


def test_requests_are_counted_by_template_and_class_of_status() -> None:
    metrics = make_metrics()
    for status in (200, 201, 404, 0):
        metrics.request(REPORTS, status, 0.01)
    metrics.request(RequestRefused(404, "unknown-path"), 404, 0.01)
    samples = read(metrics)
    expected = {
        ("2xx", REPORTS.template): 2,
        ("4xx", REPORTS.template): 1,
        ("gone", REPORTS.template): 1,
        ("4xx", OTHER): 1,
    }
    counted = {
        (dict(labels)["status"], dict(labels)["route"]): n
        for (name, labels), n in samples.items()
        if name == "bandanna_requests_total"
    }
    assert counted == expected
    assert all(("role", "example") in labels for name, labels in samples if name == "bandanna_requests_total")


@given(st.lists(st.floats(0, 20), max_size=30))
def test_a_histogram_counts_every_duration_once(values: list[float]) -> None:
    metrics = make_metrics()
    for value in values:
        metrics.request(REPORTS, 200, value)
    samples = read(metrics)
    route = ("route", REPORTS.template)
    for end in ("0.001", "0.1", "10.0", "+Inf") if values else ():
        counted = samples["bandanna_request_duration_seconds_bucket", frozenset({route, ("le", end)})]
        assert counted == sum(value <= float(end) for value in values)
    assert samples.get(("bandanna_request_duration_seconds_sum", frozenset({route})), 0) == pytest.approx(
        math.fsum(values), abs=1e-9
    )


def test_refusals_and_bytes_are_counted_and_a_gauge_shows_the_present() -> None:
    metrics = make_metrics()
    for reason in ("busy", "busy", "host"):
        metrics.refused(reason)
    metrics.received += 7
    for flying in (3, 1):
        metrics.in_flight = flying
        samples = read(metrics)
        assert samples["bandanna_requests_in_flight", frozenset()] == flying
    assert samples["bandanna_refusals_total", frozenset({("reason", "busy")})] == 2
    assert samples["bandanna_refusals_total", frozenset({("reason", "host")})] == 1
    assert samples["bandanna_received_bytes_total", frozenset()] == 7
