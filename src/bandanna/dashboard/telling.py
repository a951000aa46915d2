"""What roles tell, read with suspicion: of the types and sizes that it has to have, or not at all."""

from __future__ import annotations

import math
import re
from typing import Any

from bandanna.dashboard.asking import Answer, Silent
from bandanna.dashboard.known import Count, Filling

_SAMPLE = re.compile(r'^(\w{1,60})(?:\{\w+="([^"\\]{0,60})"\})? ([0-9.e+-]{1,30})$', re.MULTILINE)
_WATCHED = {  # metrics that are about refusals and answers, and what their label is
    "refusals_total",
    "records_total",
    "tickets_total",
    "tickets_refused_total",
    "jobs_total",
    "bad_seeds_total",
    "shares_waiting",
    "in_flight",
    "received_bytes_total",
}
_COUNTS = 100  # of a role
_LONGEST = 2000  # letters of a status


def filling_of(answer: Answer) -> Filling:
    """Of `GET /tasks/{task}/open`."""
    told = answer.document()
    if not isinstance(told, dict):
        raise Silent("it does not tell how far its batch is")
    at = told.get("closes_at")
    opened = told.get("open")
    return Filling(
        epoch=_whole(told.get("epoch")),
        round=_whole(told.get("round")),
        slots=_whole(told.get("slots")),
        wanted=_whole(told.get("of")),
        open=None if opened is None else _whole(opened),
        closes_at=float(at) if isinstance(at, int | float) and 0 <= at < 1e11 else None,
    )


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise Silent("it does not tell how far its batch is")
    return value


def health_of(answer: Answer) -> str:
    """Of `GET /healthz`: 503 is a role that is not well, anything else but 200 a door that is closed to us."""
    if answer.status not in (200, 503):
        return "untold"
    try:
        told = Answer(status=200, content=answer.content, headers={}).document()
    except Silent:
        return "untold"
    if not isinstance(told, dict) or type(told.get("ok")) is not bool:
        return "untold"
    return "well" if told["ok"] and answer.status == 200 else "unwell"


def counts_of(role: str, answer: Answer) -> list[Count]:
    """Of `GET /metrics`, those that somebody who watches wants to see."""
    if answer.status != 200:
        return []
    text = answer.content.decode("utf-8", errors="replace")
    found: list[Count] = []
    for metric, label, number in _SAMPLE.findall(text):
        if metric in _WATCHED and len(found) < _COUNTS:
            value = _number(number)
            if value is not None:
                found.append(Count(role=role, metric=metric, label=label, value=value))
    return found


def status_of(answer: Answer) -> str:
    """Of `GET /status`, as one line."""
    if answer.status != 200:
        return f"it answers {answer.status}"
    return answer.content.decode("utf-8", errors="replace")[:_LONGEST]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
