"""Maps of features: columns, records of any kind, reference vectors."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandanna as bd
from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Project, Range, UnitBall
from bandanna.device.linear_report import InterceptReport
from bandanna.errors import BandannaError, FeatureWarning, InvalidArgument, InvalidBudget, InvalidStatistic, Unreadable

from ..drawn import examples
from ..hostile import FIXED, VALUES, answers_or_refuses

FULL = Map(
    Range(age=(18, 80)),
    OneHot(site=["north", "south", 3], unknown="other"),
    Hash("note", buckets=16),
    Project(6, seed=1),
    UnitBall(scale=1.25),
    Intercept(),
)
ROWS: list[dict[str, Any]] = [
    {"age": 18, "site": "north", "note": "Green tea, please", "more": 1},
    {"age": 80.0, "site": 3, "note": "green TEA please"},
    {"age": None, "site": None, "note": None},
    {"age": 1e9, "site": "west", "note": "\u00e9t\u00e9"},
]


def test_columns_share_the_unit_ball() -> None:
    """A range is not sent to [-1, 1], a category not to a single 1, or the columns do not share the ball alike."""
    plain = Map(Range(age=(10, 30)), OneHot(site=["a", "b"]))
    half = math.sqrt(0.5)
    assert plain({"age": 10, "site": "a"}).tolist() == pytest.approx([-half, half, 0.0])
    assert plain({"age": 20, "site": "b"}).tolist() == pytest.approx([0.0, 0.0, half])
    assert plain.features == ["age", "site=a", "site=b"]
    assert (plain.dim, FULL.dim, FULL.slopes, FULL.inputs) == (3, 7, 6, 1 + 4 + 16)
    assert FULL.features == [*(f"projection {i}" for i in range(6)), "constant"]


def test_unexpected_values_are_zero_other_or_refused_and_counted() -> None:
    seen = Map(Range(age=(0, 10)), OneHot(site=["a"], unknown="other", missing="zero"), Hash("note", buckets=4))
    odd = [{"age": -5, "site": "z", "note": "x"}, {"age": "5", "note": ""}, {"age": math.nan, "site": "a", "note": 7}]
    mapped = seen.mapped(odd)
    counts = mapped.report.to_dict()
    assert counts["columns"]["age"] == {"outside": 1, "unknown": 0, "missing": 2}
    assert counts["columns"]["site"] == {"outside": 0, "unknown": 1, "missing": 1}
    assert counts["columns"]["note"] == {"outside": 0, "unknown": 0, "missing": 0}
    third = 1 / math.sqrt(3)
    assert mapped.values[:, :3].tolist() == [[-third, 0.0, third], [0.0, 0.0, 0.0], [0.0, third, 0.0]]
    assert np.linalg.norm(mapped.values[:, 3:], axis=1).tolist() == pytest.approx([third, 0.0, third])
    assert "age: 1 out of range" in str(mapped.report)
    twice = mapped.report + mapped.report
    assert (twice.rows, twice.columns["age"].missing) == (6, 4)


@pytest.mark.parametrize(
    ("made", "record", "words"),
    [
        (Map(Range(age=(0, 1), outside="refuse")), {"age": 2}, r"records\[0\]\['age'\] .*numbers from 0 to 1"),
        (Map(Range(age=(0, 1), missing="refuse")), {"age": "x"}, r"records\[0\]\['age'\] .*no number"),
        (Map(OneHot(site=["a"], unknown="refuse")), {"site": "b"}, r"\['site'\] .*1 categories.*got unknown"),
        (Map(OneHot(site=["a"], missing="refuse")), {}, r"\['site'\] .*got missing"),
        (Map(Hash("note", buckets=2, missing="refuse")), {"note": []}, "lists of one length|no text"),
    ],
)
def test_unexpected_values_are_refused_without_showing_them(made: Map, record: dict[str, Any], words: str) -> None:
    if record.get("note") == []:
        record = {"note": object()}
    with pytest.raises(InvalidStatistic, match=words):
        made(record)


def test_the_same_records_in_any_form_have_the_same_features() -> None:
    rows = [{"age": 20 + i, "site": "north" if i % 2 else "south", "note": f"word {i}"} for i in range(20)]
    wanted = np.array([FULL(row) for row in rows])
    assert FULL.mapped(rows).report.clipped < 11
    frame = pd.DataFrame(rows)
    forms: dict[str, Any] = {
        "list": rows,
        "pandas": frame,
        "with categories": frame.astype({"site": "category", "age": "Int64"}),
        "of objects": frame.astype(object),
        "polars": pl.DataFrame(rows),
        "polars categories": pl.DataFrame(rows).with_columns(pl.col("site").cast(pl.Categorical)),
        "arrow": pa.table(frame),
        "records": frame.to_records(index=False),
        "columns": {name: frame[name].tolist() for name in frame},
        "series": {name: frame[name] for name in frame},
        "rows": [row for _, row in frame.iterrows()],
        "array": frame.to_numpy(),
    }
    for name, form in forms.items():
        assert np.array_equal(FULL(form), wanted), name
    assert np.array_equal(FULL(frame.iloc[3]), wanted[3])
    assert np.array_equal(FULL(forms["records"][3]), wanted[3])
    turned = frame[["note", "age", "site"]]
    assert np.array_equal(FULL(turned.to_numpy(), names=["note", "age", "site"]), wanted)


def test_numbers_are_numbers_whatever_their_type() -> None:
    made = Map(OneHot(arm=[0, 1]), Range(on=(0, 1)))
    wanted = made([{"arm": 1, "on": 1}, {"arm": 0, "on": 0}])
    for kind in (bool, "boolean", np.int8, float, "Float32", object):
        frame = pd.DataFrame({"arm": [1, 0], "on": [1, 0]}).astype(kind)  # type: ignore[arg-type]
        assert np.array_equal(made(frame), wanted), kind
    assert made({"arm": "1", "on": 0}).tolist()[:2] == [0.0, 0.0]
    large = Map(OneHot(arm=[2**53, "x"]))  # of which a float is the nearest to 2^53 + 1
    for other in (1, 1.0, "x", "y", None):  # whose text, or none, makes a list of an array of numbers
        for records in ([{"arm": 2**53 + 1}, {"arm": other}], pd.DataFrame({"arm": [2**53 + 1, other]})):
            assert large(records)[0].tolist() == [1.0, 0.0]


def test_missing_columns_are_named() -> None:
    with pytest.raises(InvalidStatistic, match=r"records\['age'\] .*Column 0 has a similar name"):
        FULL(pd.DataFrame({"Age": [1], "site": ["a"], "note": [""]}))
    twice = pd.DataFrame([[1, 2, "a", ""]], columns=["age", "age", "site", "note"])
    with pytest.raises(InvalidStatistic, match="got two or more"):
        FULL(twice)
    with pytest.raises(InvalidStatistic, match="a LazyFrame"):
        FULL(pl.DataFrame({"age": [1]}).lazy())
    with pytest.raises(InvalidStatistic, match=r"shape \(rows, 3\): age, site, note"):
        FULL(np.zeros((2, 4)))
    with pytest.raises(InvalidStatistic, match=r"records\['site'\] .*got none"):
        FULL({"age": [1, 2], "note": ["", ""]})
    with pytest.raises(InvalidStatistic, match="columns of one length"):
        FULL({"age": [1, 2], "site": ["a"], "note": ["", ""]})


def test_a_row_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(0)
    ages, sites = rng.uniform(0, 100, 20_000), rng.choice(["north", "south", "x"], 20_000)
    many = FULL.mapped({"age": ages, "site": sites, "note": [f"a{i % 7} b{i % 5}" for i in range(20_000)]}).values
    for i in (0, 8_191, 8_192, 19_999):
        assert np.array_equal(FULL({"age": ages[i], "site": sites[i], "note": f"a{i % 7} b{i % 5}"}), many[i])


def test_the_ball_stretches_and_clips() -> None:
    """Vectors become longer than 1, short ones are not stretched, or what was clipped is not counted."""
    made = Map(Range(a=(-1, 1), b=(-1, 1)), UnitBall(scale=2.0))
    mapped = made.mapped([{"a": 0.1, "b": 0.0}, {"a": 1.0, "b": 1.0}, {"a": -1.0, "b": 0.0}])
    assert mapped.values[0].tolist() == pytest.approx([0.2 * math.sqrt(0.5), 0.0])
    assert np.linalg.norm(mapped.values, axis=1).tolist() == pytest.approx([0.2 * math.sqrt(0.5), 1.0, 1.0])
    assert mapped.report.clipped == 2
    ends = Map(Range(**{f"x{i}": (0, 1) for i in range(7)}), UnitBall())  # of length 1, up to rounding
    assert ends.mapped([{f"x{i}": 1 for i in range(7)}]).report.clipped == 0


def test_an_intercept_appends_a_constant_feature() -> None:
    x = FULL(ROWS)
    assert np.all(x[:, -1] == math.sqrt(0.5))
    assert np.all(np.linalg.norm(x, axis=1) <= 1 + 1e-15)
    report = InterceptReport(features=FULL.dim)
    without = Map(*[_part(each) for each in FULL.columns], Project(6, seed=1), UnitBall(scale=1.25))(ROWS)
    np.testing.assert_allclose(report.clip_features(x)[:, :-1], without, atol=1e-15)
    assert int(report.statistic(x, np.zeros(4)).clipped) == 0


def _part(column: Any) -> Any:
    part = object.__new__(Range)
    object.__setattr__(part, "columns", (column,))
    return part


def test_a_projection_keeps_lengths_on_average() -> None:
    wide = Map(Hash("note", buckets=400))
    rows = [{"note": f"a{i} b{i} c{i} d{i} e{i} f{i}"} for i in range(300)]
    squares = []
    for seed in range(20):
        part = Map(Hash("note", buckets=400), Project(40, seed=seed), UnitBall(scale=0.1))
        squares.append(np.sum(part(rows) ** 2, axis=1) * 100)
    assert np.allclose(np.linalg.norm(wide(rows), axis=1), 1.0)
    # 20 independent means of 300 numbers of mean 1, variance at most 2/40: within 5 standard errors, were all 300 one
    assert abs(np.mean(squares) - 1.0) < 5 * math.sqrt(2 / 40 / 20)
    assert np.std(squares) > 0.05
    assert not np.array_equal(squares[0], squares[1])


def test_words_are_those_of_the_bytes() -> None:
    made, whole = Map(Hash("note", buckets=64)), Map(Hash("note", buckets=64, words=False))
    tea = made({"note": "green tea"})
    assert np.array_equal(made({"note": "Tea; GREEN!"}), tea)
    assert not np.array_equal(made({"note": "black tea"}), tea)
    assert not np.array_equal(whole({"note": "green tea"}), whole({"note": "GREEN tea"}))
    assert np.count_nonzero(whole({"note": "green tea"})) == 1
    assert np.array_equal(made({"note": "\ud800 a"}), made({"note": "\ufffd a"}))
    assert np.array_equal(made({"note": b"green tea"}), tea)
    other = Map(Hash("note", buckets=64, seed=9))
    assert not np.array_equal(other({"note": "green tea"}), tea)


def test_a_warning_about_most_rows_needs_enough_rows() -> None:
    made = Map(Range(age=(0, 1)), OneHot(site=["a"]))
    with pytest.warns(
        FeatureWarning, match=r"in 10 rows, 10 values of 'age' are out of range; 10 .*'site' are missing"
    ):
        made([{"age": 7}] * 10)
    made([{"age": 7}] * 9)
    made([{"age": 7, "site": "a"}] * 5 + [{"age": 0.5, "site": "a"}] * 5)
    with pytest.warns(FeatureWarning, match="11 vectors clipped to the unit ball"):
        Map(Range(age=(0, 1)), UnitBall(scale=3.0))([{"age": 1}] * 11)


def test_json_is_the_map_bit_for_bit() -> None:
    low = math.nextafter(0.1, 1)
    made = Map(Range({"a b": (low, 1 / 3)}, outside="refuse"), *[_part(each) for each in FULL.columns], Intercept())
    again = Map.from_json(made.to_json())
    assert again == made
    assert hash(again) == hash(made)
    assert json.loads(made.to_json()) == made.to_dict()
    assert again.columns[0].low == low  # type: ignore[attr-defined]
    assert Map.from_json(FULL.to_json()) == FULL
    assert np.array_equal(Map.from_dict(json.loads(json.dumps(FULL.to_dict())))(ROWS), FULL(ROWS))
    for text in ("", "[]", "{}", "1", '{"format": "bandanna features"}', FULL.to_json().replace("range", "rang")):
        with pytest.raises(Unreadable):
            Map.from_json(text)
    for broken in ({"ball": 1}, {"project": {"dim": -1}}, {"version": 2}, {"columns": [1]}, {"intercept": 1}):
        with pytest.raises((Unreadable, InvalidArgument)):
            Map.from_dict({**FULL.to_dict(), **broken})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Map(), "one or more different columns"),
        (lambda: Map(Range(a=(0, 1)), OneHot(a=["x"])), "different columns, got 'a'"),
        (lambda: Map(Range(a=(1, 0))), "the first below the second"),
        (lambda: Map(Range(a=(0, math.inf))), "two finite numbers"),
        (lambda: Map(Range(a=3)), r"Range\.a"),
        (lambda: Map(Range()), "at least one"),
        (lambda: Map(Range({"a": (0, 1)}, a=(0, 1))), "given once"),
        (lambda: Map(OneHot(a=["x", "x"])), "all different"),
        (lambda: Map(OneHot(a="xyz")), "a list of categories"),
        (lambda: Map(OneHot(a=[None])), "texts or finite numbers"),
        (lambda: Map(OneHot(a=["x"], unknown="drop")), "'zero', 'other', 'refuse'"),
        (lambda: Map(Hash("a", buckets=0)), "buckets .*got 0"),
        (lambda: Map(Range(a=(0, 1)), Project(3)), r"with UnitBall\(\)"),
        (lambda: Map(Range(a=(0, 1)), UnitBall(), UnitBall()), "at most once"),
        (lambda: Map("age"), "Range, OneHot, Hash"),  # type: ignore[arg-type]
    ],
)
def test_impossible_maps_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make()


def test_fitting_is_refused() -> None:
    with pytest.raises(InvalidBudget, match="fit_privately"):
        FULL.fit(ROWS)


def test_the_package_offers_it() -> None:
    assert bd.features.Map is Map


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
    st.sampled_from([np.float32(2.5), np.datetime64("NaT", "D"),
                     pd.Timestamp(0), (), object(), 1j, math.inf, "\ud800"]),
)  # fmt: skip
tables = st.lists(st.fixed_dictionaries({"age": cells, "site": cells, "note": cells}), max_size=6)


def fine(values: Any) -> None:
    assert np.all(np.isfinite(values))
    assert np.all(np.linalg.norm(values, axis=-1) <= 1 + 1e-12)


@examples(50, full=150)
@given(st.sampled_from(MAPS), tables)
def test_records_of_mixed_types_are_read(made: Map, rows: list[dict[str, Any]]) -> None:
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
def test_frames_of_every_library_give_the_same_features(made: Map, rows: list[dict[str, Any]], whole: bool) -> None:
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
def test_polars_frames_are_read(ages: list[Any], notes: list[Any]) -> None:
    count = min(len(ages), len(notes))
    frame = pl.DataFrame(
        {"age": pl.Series(ages[:count], strict=False), "site": notes[:count], "note": notes[:count]}, strict=False
    )
    values = MAPS[0].mapped(frame).values
    fine(values)
    assert np.array_equal(values, MAPS[0].mapped(frame.to_dicts()).values)


@pytest.mark.parametrize("place", range(len(FIXED)))
def test_odd_records_are_taken_or_refused(place: int) -> None:
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
def test_odd_parts_of_a_map_are_taken_or_refused(place: int) -> None:
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
def test_drawn_values_are_taken_or_refused(value: Any) -> None:
    answers_or_refuses(lambda: MAPS[1].mapped(value.value))
    answers_or_refuses(lambda: MAPS[1].mapped([{"age": value.value, "site": value.value, "note": value.value}]))


FILE = Path(__file__).with_name("vectors.json")
SITES = ["north", "south", 3, 2.5]
VECTORS_MAPS = {
    "ranges": Map(Range(age=(18, 80), weight=(0.1, 1 / 3))),
    "categories": Map(OneHot(site=SITES), OneHot(kind=["a", "b"], unknown="other", missing="other")),
    "texts": Map(Hash("note", buckets=8), Hash("site", buckets=5, words=False, seed=4_294_967_295)),
    "projected": Map(Hash("note", buckets=300), Range(age=(18, 80)), Project(7, seed=3), UnitBall(scale=1.5)),
    "all": Map(Range(age=(18, 80)), OneHot(site=SITES), Hash("note", buckets=16), Project(4), UnitBall(), Intercept()),
}
RECORDS: list[dict[str, Any]] = [
    {"age": 18, "weight": 0.1, "site": "north", "kind": "a", "note": "Green tea, please: 2 cups"},
    {"age": 80, "weight": 0.2, "site": 3, "kind": "b", "note": "green green GREEN"},
    {"age": 41.7, "weight": 0.3, "site": 2.5, "kind": "c", "note": "caf\u00e9 \u6771\u4eac \U0001f642 x"},
    {"age": -5, "weight": 7, "site": "South", "kind": None, "note": ""},
    {"age": None, "weight": True, "site": False, "note": 7.25},
    {"age": "30", "weight": 1e300, "site": "3", "kind": "b ", "note": None},
    {"age": 55, "weight": 0.25, "site": "south", "kind": "a", "note": "a-b_c.d\u00a0e\tf"},
]


def written() -> dict[str, Any]:
    cases = [
        {"name": name, "map": made.to_dict(), "vectors": made.mapped(RECORDS).values.tolist()}
        for name, made in VECTORS_MAPS.items()
    ]
    return {"records": RECORDS, "cases": cases}


@pytest.mark.parametrize("name", VECTORS_MAPS)
def test_vectors_stay_what_they_are(name: str) -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    case = next(case for case in stored["cases"] if case["name"] == name)
    made = Map.from_dict(case["map"])
    assert made == VECTORS_MAPS[name]
    assert np.array_equal(made.mapped(stored["records"]).values, np.array(case["vectors"]))


if __name__ == "__main__":  # python tests/features/test_map.py writes the file anew
    FILE.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
