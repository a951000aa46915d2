"""The metrics of a role, as text."""

from __future__ import annotations

import math
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bandanna.deployment.http.metrics import OTHER, EventLog, RequestMetrics
from bandanna.deployment.http.requests import RequestRefused, RouteTarget

from .prometheus import Samples, parse


async def _answer() -> None: ...


REPORTS = RouteTarget(method="POST", template="/tasks/{task}/reports", handle=_answer, raw=True)


def make_metrics() -> RequestMetrics:
    """Metrics of a role in a registry of their own."""
    return RequestMetrics(role="example", metrics=CollectorRegistry(), log=EventLog("example", stream=StringIO()))


def read(metrics: RequestMetrics) -> Samples:
    types, samples = parse(metrics.text().decode())
    assert types == {
        "bandanna_requests_total": "counter",
        "bandanna_request_duration_seconds": "histogram",
        "bandanna_refusals_total": "counter",
        "bandanna_received_bytes_total": "counter",
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
