"""Whatever a task's file says: a task, or a BandannaError."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.task.creation import create_task, parse_duration
from bandanna.errors import BandannaError

from ..drawn import examples
from .files import DP, LINEAR

WHOLE: dict[str, dict[str, Any]] = {
    "policy": {**LINEAR, **DP, "intercept": False, "batch": 20, "protocol": "gaussian", "calibration": "tight"},
    "arms": {"features": {"a": [1.0, 0.0], "b": [0.0, 1.0]}},
    "schema": {"age": [18, 80], "size": [0.5, 2.0]},
    "rules": {"participations": 1, "grace": "10 min", "max_age": 1, "mixers": 0, "noise": "device"},
    "roles": {"analyzer": "http://127.0.0.1:8701", "registrar": "http://127.0.0.1:8700"},
    "test": {"seed": 7, "close": "answered"},
}
NUMBERS = [0, -1, 1, 2, 2**63, 10**400, 0.0, -0.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan")]
OTHERS = [True, False, "", "x", "0", "auto", "1 s", "9" * 50, "http://[", "http://a:b", "\u0663 s", "none:none"]
DATES = [datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1), datetime.time(1)]
odd = st.recursive(
    st.sampled_from([*NUMBERS, *OTHERS, *DATES]) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
places = st.sampled_from([(table, key) for table, keys in WHOLE.items() for key in [*keys, "other", None]])


def attempt(document: dict[str, Any]) -> None:
    """A task, or a refusal of one line."""
    said = "a task"
    try:
        create_task(document, expect=False)
    except BandannaError as error:
        said = str(error)
    assert 0 < len(said) < 2_000
    assert "\n" not in said


def test_the_whole_file_is_a_task() -> None:
    create_task({"title": "x", "algorithm": "LinTS-LDP", **WHOLE}, expect=False)


FEATURES: dict[str, Any] = {
    "columns": {"age": [18, 80], "size": {"range": [0, 1], "outside": "clip", "missing": "zero"}},
    "project": {"dim": 2, "seed": 0},
    "ball": {"scale": 1.0},
    "intercept": False,
}
spots = st.sampled_from([(), *((name,) for name in [*FEATURES, "other"])]) | st.sampled_from(
    [(name, key) for name in ("columns", "project", "ball") for key in [*FEATURES[name], "other"]]
)


@examples(60, full=200)
@given(spots, odd)
def test_one_odd_value_in_a_map(spot: tuple[str, ...], value: Any) -> None:
    """A value of a wrong type or size in a map of features ends in another error than ours."""
    table: Any = value
    for depth in range(len(spot), 0, -1):
        above = FEATURES if depth == 1 else FEATURES[spot[0]]
        table = {**above, spot[depth - 1]: table}
    whole = {name: part for name, part in WHOLE.items() if name not in ("schema", "arms")}
    attempt({"title": "x", "algorithm": "LinTS-LDP", **whole, "features": table})


@examples(100, full=400)
@given(places, odd)
def test_one_odd_value(place: tuple[str, str | None], value: Any) -> None:
    """A value of a wrong type or size in some place of a file ends in another error than ours."""
    table, key = place
    spoilt = {**WHOLE, table: value if key is None else {**WHOLE[table], key: value}}
    attempt({"title": "x", "algorithm": "LinTS-LDP", **spoilt})


@examples(50, full=150)
@given(st.sampled_from(["title", "algorithm", "policy", "arms", "other"]), odd)
def test_odd_values_at_the_top(key: str, value: Any) -> None:
    """The same of keys outside of tables."""
    attempt({"title": "x", "algorithm": "LinTS-LDP", **WHOLE, key: value})


@examples(40, full=100)
@given(st.dictionaries(st.sampled_from(["title", "algorithm", *WHOLE]) | st.text(max_size=5), odd, max_size=6))
def test_any_document(document: dict[str, Any]) -> None:
    """The same of documents that are nothing like a task."""
    attempt(document)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0, 0.0), (2.5, 2.5), ("30 s", 30.0), ("1.5 min", 90.0), ("2 hours", 7200.0), ("1day", 86_400.0)],
)
def test_durations(given: Any, expected: float) -> None:
    """A duration is read as another one."""
    assert parse_duration(given) == expected
    assert type(parse_duration(given)) is float
