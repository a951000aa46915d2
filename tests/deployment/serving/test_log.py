"""What a role may say."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandanna
from bandanna.deployment.http.metrics import FORBIDDEN_KEYS, EventLog
from bandanna.deployment.http.requests import ProgramError


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
def test_whatever_is_said_is_one_line(value: str | float | None) -> None:
    stream = io.StringIO()
    try:
        EventLog("x", stream).say("seen", fact=value)
    except ProgramError:
        assert isinstance(value, str)
        return
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["event"] == "seen"


def test_a_broken_stream_stops_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    EventLog("x", stream).say("seen")
