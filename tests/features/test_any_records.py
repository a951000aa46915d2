"""Whatever records are: finite features in the unit ball, the same for a row alone, or an error of ours."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Project, Range, UnitBall
from bandanna.errors import BandannaError

from ..drawn import examples
from ..hostile import FIXED, VALUES, answers_or_refuses

COLUMNS = Range(age=(18, 80)), OneHot(site=["north", 1, 2.5], unknown="other"), Hash("note", buckets=5)
MAPS = [
    Map(*COLUMNS),
    Map(*COLUMNS, UnitBall(scale=3.0), Intercept()),
    Map(*COLUMNS, Project(3), UnitBall()),
    Map(Range(age=(0, 1), missing="refuse"), OneHot(site=["north"], missing="other"), Hash("note", buckets=1)),
]
cells = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.sampled_from(["north", 1, 2.5, 1.0, True, pd.NA, pd.NaT, Decimal("2.5"), Decimal("sNaN"), 10**400, -(10**400)]),
    st.sampled_from([np.float32(2.5), np.datetime64("NaT"), pd.Timestamp(0), (), object(), 1j, math.inf, "\ud800"]),
)  # fmt: skip
tables = st.lists(st.fixed_dictionaries({"age": cells, "site": cells, "note": cells}), max_size=6)


def fine(values: Any) -> None:
    """Finite, and in the ball."""
    assert np.all(np.isfinite(values))
    assert np.all(np.linalg.norm(values, axis=-1) <= 1 + 1e-12)


@examples(50, full=150)
@given(st.sampled_from(MAPS), tables)
def test_mixed_records(made: Map, rows: list[dict[str, Any]]) -> None:
    """Mixed types, missing values or duplicates raise something else, leave the ball, or depend on the other rows."""
    try:
        values = made.mapped(rows).values
    except BandannaError:
        return
    fine(values)
    assert values.shape == (len(rows), made.dim)
    for row, alone in zip(rows, values, strict=True):
        assert np.array_equal(made.mapped([row]).values[0], alone)
    again = Map.from_json(made.to_json())
    assert np.array_equal(again.mapped([*rows, *rows]).values, np.concatenate([values, values]))


@examples(50, full=150)
@given(st.sampled_from(MAPS[:3]), tables, st.booleans())
def test_frames(made: Map, rows: list[dict[str, Any]], whole: bool) -> None:
    """A frame with any cells, or a duplicated index, raises something else, or says another thing than its rows."""
    try:
        frame = pd.DataFrame(rows, columns=["age", "site", "note"], dtype=object if whole else None)
    except (OverflowError, UnicodeEncodeError):  # nobody has such a frame
        return
    frame = pd.concat([frame, frame])
    values = made.mapped(frame).values
    fine(values)
    assert np.array_equal(values[: len(rows)], values[len(rows) :])
    if whole:
        assert np.array_equal(values[: len(rows)], made.mapped(rows).values)


plain = st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats())


@examples(30, full=60)
@given(st.lists(plain, max_size=5), st.lists(st.none() | st.text(max_size=4), max_size=5))
def test_polars(ages: list[Any], notes: list[Any]) -> None:
    """A polars frame says another thing than its rows."""
    count = min(len(ages), len(notes))
    frame = pl.DataFrame(
        {"age": pl.Series(ages[:count], strict=False), "site": notes[:count], "note": notes[:count]}, strict=False
    )
    values = MAPS[0].mapped(frame).values
    fine(values)
    assert np.array_equal(values, MAPS[0].mapped(frame.to_dicts()).values)


@pytest.mark.parametrize("place", range(len(FIXED)))
def test_odd_records(place: int) -> None:
    """Something that is no table, or one with an odd value, raises something else than ours."""
    odd = FIXED[place]
    answers_or_refuses(lambda: MAPS[1].mapped(odd))
    answers_or_refuses(lambda: MAPS[1].mapped([odd]))
    answers_or_refuses(lambda: MAPS[1].mapped({"age": odd, "site": odd, "note": odd}))
    answers_or_refuses(lambda: MAPS[1].mapped([{"age": odd, "site": odd, "note": odd}]))
    answers_or_refuses(lambda: MAPS[1].mapped(np.zeros((2, 3)), names=odd))
    answers_or_refuses(lambda: Map.from_dict(odd))
    answers_or_refuses(lambda: Map.from_json(odd))
    answers_or_refuses(lambda: Map.from_table({"columns": odd}))
    answers_or_refuses(lambda: Map.from_table({"columns": {"a": odd}, "project": odd, "ball": odd, "intercept": odd}))


@pytest.mark.parametrize("place", range(len(FIXED)))
def test_odd_parts(place: int) -> None:
    """A part of a map that is made of something odd raises something else than ours."""
    odd = FIXED[place]
    answers_or_refuses(lambda: Map(Range(a=odd)))
    answers_or_refuses(lambda: Map(Range(a=(odd, 1), outside=odd)))
    answers_or_refuses(lambda: Map(Range(odd)))
    answers_or_refuses(lambda: Map(OneHot(a=odd)))
    answers_or_refuses(lambda: Map(OneHot(a=[odd], unknown=odd, missing=odd)))
    answers_or_refuses(lambda: Map(Hash(odd, buckets=3)))
    answers_or_refuses(lambda: Map(Hash("a", buckets=odd, seed=odd, words=odd)))
    answers_or_refuses(lambda: Map(Range(a=(0, 1)), Project(odd, seed=odd), UnitBall(odd)))
    answers_or_refuses(lambda: Map(odd))


@examples(40, full=100)
@given(VALUES)
def test_drawn_values(value: Any) -> None:
    """A drawn value as a cell or as records raises something else than ours."""
    answers_or_refuses(lambda: MAPS[1].mapped(value.value))
    answers_or_refuses(lambda: MAPS[1].mapped([{"age": value.value, "site": value.value, "note": value.value}]))
