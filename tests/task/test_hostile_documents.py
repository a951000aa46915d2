"""Whatever a document says that somebody else has written: a page, or a BandannaError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.task.creation import create_task
from bandanna.deployment.task.description import task_facts
from bandanna.deployment.task.document import Task
from bandanna.errors import BandannaError

from ..drawn import examples
from .files import DP, LINEAR, file

ARMS = {"features": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}
ODD = [None, 0, -1, 2, 1.5, "", "x", "[]", "{}", "null", [], {}, [1], {"a": 1}, True, 1e308, 2**70, "[1,2,3]"]


@cache
def document() -> bytes:
    """Of a whole task."""
    policy = {**LINEAR, **DP, "batch": 20, "protocol": "gaussian"}
    return create_task(file(policy=policy, arms=ARMS))[0].document


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


def spoilt(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """The same with something odd at a place."""
    if not path:
        return odd
    if isinstance(value, dict):
        return {**value, path[0]: spoilt(value[path[0]], path[1:], odd)}
    return [spoilt(part, path[1:], odd) if place == path[0] else part for place, part in enumerate(value)]


@examples(60, full=500)
@given(st.data(), st.sampled_from(["", "policy", "calibrations", "arms"]), st.sampled_from(ODD))
def test_one_odd_value(data: st.DataObject, within: str, odd: Any) -> None:
    """A value of a wrong type in some place of a document ends in another error than ours."""
    content = json.loads(document())
    inner = json.loads(content[within]) if within else content
    changed = spoilt(inner, data.draw(st.sampled_from([*places(inner)])), odd)
    content = {**content, within: json.dumps(changed)} if within else changed
    said = "a page"
    try:
        task_facts(Task.from_bytes(json.dumps(content).encode()))
    except BandannaError as error:
        said = str(error)
    assert 0 < len(said) < 2_000
