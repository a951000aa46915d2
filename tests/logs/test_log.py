"""Logs: the same from every kind of table, frozen, and what is wrong is named by column and row."""

from __future__ import annotations

import csv
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandanna as bd
from bandanna.data.tables import ColumnTable
from bandanna.errors import BandannaError, ClippingWarning, InvalidArgument

from ..drawn import examples

ROWS = {
    "age": [0.1, 0.5, 0.3, 0.9],
    "weight": [1, 2, 3, 4],
    "arm": ["tea", "coffee", "tea", "water"],
    "won": [1.0, 0.0, 1.0, 0.5],
    "p": [0.5, 0.25, 0.5, 0.25],
}
COLUMNS: dict[str, Any] = {"context": ["age", "weight"], "arm": "arm", "reward": "won", "propensity": "p"}


def records() -> Any:
    kinds = [("age", "f4"), ("weight", "i4"), ("arm", "U10"), ("won", "f8"), ("p", "f8")]
    return np.array(list(zip(*ROWS.values(), strict=True)), dtype=kinds)


TABLES = {
    "dict": ROWS,
    "arrays": {name: np.array(column) for name, column in ROWS.items()},
    "pandas": pd.DataFrame(ROWS, index=[9, 7, 7, 5]),
    "categories": pd.DataFrame(ROWS).astype({"arm": "category", "weight": "Int64"}),
    "polars": pl.DataFrame(ROWS),
    "arrow": pa.table(ROWS),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_all_kinds_are_one_log(name: str) -> None:
    log = bd.Log.from_frame(TABLES[name], **COLUMNS)
    np.testing.assert_array_equal(log.contexts, np.column_stack([ROWS["age"], ROWS["weight"]]))
    assert (log.names, log.arms.tolist()) == (("coffee", "tea", "water"), [1, 0, 1, 2])
    assert (log.rewards.tolist(), log.propensities.tolist()) == (ROWS["won"], ROWS["p"])
    assert all(type(arm) is str for arm in log.names)
    assert log == bd.Log.from_frame(ROWS, **COLUMNS)
    assert (len(log), log.n_arms, log.dim, log.of_users, log.floor) == (4, 3, 2, True, None)


def test_names_are_plain_values() -> None:
    arms = np.empty(3, dtype=object)
    arms[:] = [np.int64(2), 1, np.float64(2.0)]
    log = bd.Log.from_frame({"arm": arms, "won": [0, 1, 1]}, arm="arm", reward="won", propensity=0.5)
    assert (log.names, {type(name) for name in log.names}) == ((1, 2), {int})


def test_record_arrays_are_tables() -> None:
    log = bd.Log.from_frame(records(), **COLUMNS)
    assert log.names == ("coffee", "tea", "water")
    np.testing.assert_allclose(log.contexts[:, 0], ROWS["age"], rtol=1e-6)


def test_a_log_is_frozen() -> None:
    held = {name: np.array(column) for name, column in ROWS.items()}
    log = bd.Log.from_frame(held, **COLUMNS)
    held["won"][0] = 0.25
    assert log.rewards[0] == 1.0
    for array in (log.contexts, log.arms, log.rewards, log.propensities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_propensities_by_design_are_public() -> None:
    assert bd.Log.from_frame(ROWS, **COLUMNS | {"propensity": 0.25}).floor == 0.25
    by_arm = bd.Log.from_frame(ROWS, **COLUMNS | {"propensity": {"tea": 0.5, "coffee": 0.3, "water": 0.2}})
    assert (by_arm.floor, by_arm.propensities.tolist()) == (0.2, [0.5, 0.3, 0.5, 0.2])
    assert bd.Log.from_frame(ROWS, **COLUMNS, floor=0.2).floor == 0.2


@pytest.mark.parametrize(
    ("chance", "arms"), [(1.0, 4), (0.5, 4), (1 / 3, 4), (0.33, 3), (0.17, 6), (0.25, 4), (0.0099, 100)]
)
def test_one_propensity_for_all_arms_is_one_over_their_number(chance: float, arms: int) -> None:
    frame = {"arm": [0, 1, 2], "reward": [0, 1, 1]}
    log = bd.Log.from_frame(frame, arm="arm", reward="reward", propensity=chance, arms=range(arms))
    assert log.propensities.tolist() == [chance] * 3


@pytest.mark.parametrize(
    ("chance", "arms"), [(0.9, 4), (0.9, 2), (0.6, 4), (0.3, 4), (0.2, 4), (1e-300, 4), (0.75, None)]
)
def test_one_propensity_that_is_no_such_fraction_is_refused(chance: float, arms: int | None) -> None:
    frame = {"arm": [0, 1, 1], "reward": [0, 1, 1]}
    names = None if arms is None else range(arms)
    with pytest.raises(InvalidArgument, match=r"must be 1/m.*give a column, or one for each arm") as caught:
        bd.Log.from_frame(frame, arm="arm", reward="reward", propensity=chance, arms=names)
    assert (f"m from 1 to {arms}," in str(caught.value)) == (arms is not None)


def test_one_propensity_and_one_for_each_arm_have_the_same_rules() -> None:
    for wrong in (0.6, {"tea": 0.6, "coffee": 0.6}):
        with pytest.raises(InvalidArgument, match=r"propensity.*column"):
            bd.Log.from_frame({"arm": ["tea", "coffee"], "won": [0, 1]}, arm="arm", reward="won", propensity=wrong)
    for fine in (0.5, {"tea": 0.5, "coffee": 0.5}):
        log = bd.Log.from_frame({"arm": ["tea", "coffee"], "won": [0, 1]}, arm="arm", reward="won", propensity=fine)
        assert log.floor == 0.5


def test_features_of_arms_are_columns_or_functions() -> None:
    frame = ROWS | {
        f"{arm} {i}": np.arange(4) + 10 * k + i for k, arm in enumerate(("tea", "coffee", "water")) for i in (0, 1)
    }
    by_arm = {arm: [f"{arm} 0", f"{arm} 1"] for arm in ("water", "tea", "coffee")}
    log = bd.Log.from_frame(frame, **COLUMNS | {"context": by_arm})
    assert log.contexts.shape == (4, 3, 2)
    assert log.contexts[1].tolist() == [[11, 12], [1, 2], [21, 22]]  # coffee, tea, water
    made = bd.Log.from_frame(ROWS, **COLUMNS | {"context": lambda table: np.array(table["age"])[:, None] * 2})
    assert made.contexts.tolist() == [[0.2], [1.0], [0.6], [1.8]]
    assert bd.Log.from_frame(ROWS, **COLUMNS | {"context": ()}).contexts.shape == (4, 0)


def test_eligible_arms_are_lists_or_columns_of_flags() -> None:
    listed = ROWS | {"could": [["tea", "water"], ["coffee"], ["tea", "coffee"], ["water", "tea"]]}
    flags = ROWS | {"t": [True, False, True, True], "c": ["no", "yes", "yes", "no"], "w": [1, 0, 0, 1]}
    one = bd.Log.from_frame(listed, **COLUMNS, eligible="could")
    two = bd.Log.from_frame(flags, **COLUMNS, eligible={"tea": "t", "coffee": "c", "water": "w"})
    assert one == two
    assert one.eligible is not None
    assert one.eligible.tolist() == [
        [False, True, True],
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]


def test_rewards_have_a_public_range() -> None:
    frame = ROWS | {"won": [3.0, -1.0, 12.0, 5.0]}
    with pytest.raises(InvalidArgument, match=r"column 'won', row 0 must be a reward in \[0, 1\], got a float.*_range"):
        bd.Log.from_frame(frame, **COLUMNS)
    log = bd.Log.from_frame(frame, **COLUMNS, reward_range=(0, 10))
    assert (log.rewards.tolist(), log.clipped) == ([3.0, 0.0, 10.0, 5.0], 2)
    assert log.scaled_rewards().tolist() == [0.3, 0.0, 1.0, 0.5]
    with pytest.warns(ClippingWarning, match="4 of 4 rewards"):
        bd.Log.from_frame(frame, **COLUMNS, reward_range=(6, 7))


def bad(**changed: Any) -> dict[str, Any]:
    return {**ROWS, **changed}


@pytest.mark.parametrize(
    ("frame", "change", "words"),
    [
        (ROWS, {"arm": "arn"}, "columns of the table, got 'arn'. Column 2 has a similar name."),
        (ROWS, {"context": ["age", "wieght"]}, "columns of the table, got 'wieght'. Column 1 has a similar name."),
        (ROWS, {"reward": "won", "propensity": "prop"}, "propensity must be one of the 5 columns of the table, got"),
        (ROWS, {"propensity": None}, "propensity must be a column, a number or a mapping"),
        (ROWS, {"propensity": 1.5}, "a probability in (0, 1]"),
        (
            ROWS,
            {"propensity": {"tea": 0.5}},
            "column 'arm', row 1 must be one of the arms tea, got a str. propensity= has",
        ),
        (ROWS, {"floor": 0.3}, "column 'p', row 1 must be a probability in [0.3, 1], where 0.3 is the floor"),
        (ROWS, {"arms": ["tea", "coffee"]}, "column 'arm', row 3 must be one of the arms tea, coffee, got a str"),
        (ROWS, {"arms": ["tea", "tea"]}, "none of them twice"),
        (ROWS, {"eligible": "age"}, "column 'age', row 0"),
        (ROWS, {"reward_range": (1, 0)}, "the first below the second"),
        (ROWS, {"context": lambda table: 1 / 0}, "a function that raised ZeroDivisionError"),
        (ROWS, {"context": lambda table: np.ones((3, 2))}, "context(table) must be (4, d) or (4, 3, d), got (3, 2)"),
        (ROWS, {"context": {"tea": ["age"]}}, "columns for each of the 3 arms that occur"),
        (ROWS, {"colour": 1}, "colour is not an argument of bd.Log.from_frame"),
        (bad(won=[1.0, math.nan, 0, 0]), {}, "column 'won', row 1 must be a finite number, got a float that is"),
        (bad(won=[1.0, None, 0, 0]), {}, "column 'won', row 1 must be a finite number, got None"),
        (bad(won=[1.0, "x", 0, 0]), {}, "column 'won', row 1 must be a finite number, got a str"),
        (bad(age=[0.1, math.inf, 0, 0]), {}, "column 'age', row 1 must be a finite number, got a float that is"),
        (bad(p=[0.5, 0.0, 0.5, 0.5]), {}, "column 'p', row 1 must be a probability in (0, 1], got a float"),
        (bad(p=[0.5, 0.5, 1.1, 0.5]), {}, "column 'p', row 2 must be a probability in (0, 1], got a float"),
        (bad(arm=["tea", None, "tea", "tea"]), {}, "column 'arm', row 1 must be a text or a whole number, got None"),
        (bad(p=[0.5, 0.5]), {}, "propensity 'p' must be a column of 4 rows, as other columns, got 2 rows"),
        ({}, {}, "a table without columns"),
        ({name: [] for name in ROWS}, {}, "a table without rows"),
        (3, {}, "a pandas or polars DataFrame"),
        (pd.DataFrame([[1, 2]], columns=["arm", "arm"]), {}, "several times"),
        (pl.DataFrame(bad(won=[1.0, None, 0.0, 0.0])), {}, "column 'won', row 1"),
        (pd.DataFrame(bad(won=pd.array([1, None, 0, 0], dtype="Int64"))), {}, "column 'won', row 1"),
    ],
)
def test_errors_name_the_column_and_the_row(frame: Any, change: dict[str, Any], words: str) -> None:
    with pytest.raises(BandannaError) as caught:
        bd.Log.from_frame(frame, **COLUMNS | change)
    assert words in str(caught.value)


NAMES = st.one_of(st.text(min_size=1, max_size=4), st.integers(-5, 5))
UNIT = st.floats(0, 1)


@examples(30, full=100)
@given(st.lists(st.tuples(NAMES, UNIT, st.floats(1e-6, 1), st.floats(-1e6, 1e6)), min_size=1, max_size=20), st.data())
def test_any_table_is_read_as_it_is(rows: list[tuple[Any, float, float, float]], data: st.DataObject) -> None:
    arm, reward, chance, feature = (list(column) for column in zip(*rows, strict=True))
    frame: Any = {"a": arm, "r": reward, "p": chance, "x": feature}
    kind = data.draw(st.sampled_from(["dict", "pandas", "polars", "objects"]))
    if kind == "pandas":
        frame = pd.DataFrame(frame)
    elif kind == "polars" and len({type(name) for name in arm}) == 1:
        frame = pl.DataFrame(frame)
    elif kind == "objects":
        frame = {name: np.array(column, dtype=object) for name, column in frame.items()}
    log = bd.Log.from_frame(frame, context=["x"], arm="a", reward="r", propensity="p")
    assert [log.names[k] for k in log.arms] == arm
    assert sorted(map(str, log.names)) == sorted({str(name) for name in arm}) or len(log.names) == len(set(arm))
    np.testing.assert_array_equal(log.rewards, reward)
    np.testing.assert_array_equal(log.propensities, chance)
    np.testing.assert_array_equal(log.contexts[:, 0], feature)
    again = bd.Log.from_frame(
        log.to_columns(), context=["context 0"], arm="arm", reward="reward", propensity="propensity", arms=log.names
    )
    assert again == log


@given(st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=3), st.booleans()), min_size=1, max_size=8))
def test_any_column_is_numbers_or_refused(entries: list[Any]) -> None:
    table = ColumnTable({"x": entries})
    fine = [isinstance(entry, float | bool) and math.isfinite(entry) for entry in entries]
    if all(fine):
        assert table.numbers("context", "x").tolist() == [float(entry) for entry in entries]
        return
    with pytest.raises(InvalidArgument, match=f"column 'x', row {fine.index(False)} must be a finite number"):
        table.numbers("context", "x")


def write_csv(path: Path, rows: dict[str, list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return path


def test_files_are_the_tables_they_hold(tmp_path: Path) -> None:
    whole = bd.Log.from_frame(ROWS, **COLUMNS)
    assert bd.Log.read(write_csv(tmp_path / "log.csv", ROWS), **COLUMNS) == whole
    pq.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    assert bd.Log.read(tmp_path / "log.parquet", **COLUMNS) == whole


def test_one_cell_changes_no_other_row(tmp_path: Path) -> None:
    features = bd.features.Map(bd.features.Range(age=(18, 95)), bd.features.OneHot(site=[1, 2, "north"]))
    ages, sites = [str(20 + k) for k in range(40)], [("1", "2", "north")[k % 3] for k in range(40)]
    rows = {"arm": ["a", "b"] * 20, "reward": ["1", "0"] * 20, "p": ["0.5"] * 40, "age": ages, "site": sites}
    columns = {"arm": "arm", "reward": "reward", "propensity": "p", "arms": ["a", "b"]}
    whole = bd.Log.read(write_csv(tmp_path / "whole.csv", rows), context=features, **columns)
    assert np.abs(whole.contexts).sum(axis=1).min() > 0
    for odd in ("NA", "90+", "unknown", "45,5"):
        for column in ("age", "site"):
            cells = [odd if k == 7 else cell for k, cell in enumerate(rows[column])]
            log = bd.Log.read(write_csv(tmp_path / "odd.csv", rows | {column: cells}), context=features, **columns)
            changed = np.flatnonzero(np.any(log.contexts != whole.contexts, axis=1))
            assert changed.tolist() == [7]
    for column in ("reward", "p"):
        cells = ["maybe" if k == 7 else cell for k, cell in enumerate(rows[column])]
        with pytest.raises(InvalidArgument, match="row 7 must be a finite number, got a str"):
            bd.Log.read(write_csv(tmp_path / "odd.csv", rows | {column: cells}), context=features, **columns)


@pytest.mark.parametrize("odd", ["1.0", "1e3", "9223372036854775808"])
def test_one_number_makes_no_other_names_of_large_ones(odd: str, tmp_path: Path) -> None:
    near = ["9007199254740992", "9007199254740993"]
    arms = [*map(int, near), 1, 1000, 2**63]
    columns = {"arm": "arm", "reward": "reward", "propensity": 0.2, "arms": arms}
    told = []
    for cell in ("1", odd):
        rows = {"arm": [*near * 5, cell], "reward": ["1"] * 11}
        told.append(bd.Log.read(write_csv(tmp_path / "log.csv", rows), **columns).arms[:-1].tolist())
        given = [*map(int, near * 5), float(cell) if "." in cell or "e" in cell else int(cell)]
        told.append(bd.Log.from_frame({**rows, "arm": given, "reward": [1.0] * 11}, **columns).arms[:-1].tolist())
    assert told == [[0, 1] * 5] * 4


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_spreadsheets_may_separate_values_by_semicolons_or_tabs(between: str, tmp_path: Path) -> None:
    lines = [["who", "drug", "won"], ["a", "tea", "1"], ["b; c, d" if between == "\t" else "b", "milk", "0"]]
    (tmp_path / "log.csv").write_text("\n".join(between.join(line) for line in lines))
    log = bd.Log.read(tmp_path / "log.csv", arm="drug", reward="won", propensity=0.5)
    assert (log.names, log.rewards.tolist()) == (("milk", "tea"), [1.0, 0.0])
    (tmp_path / "texts.csv").write_text("drug,won\n'a;b',1\n'a;c',0\n")  # what rows hold decides nothing
    assert bd.Log.read(tmp_path / "texts.csv", arm="drug", reward="won", propensity=0.5).n_arms == 2


def test_cells_of_a_csv_file_keep_leading_zeros_and_whole_numbers(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "a.csv", {"arm": ["007", "1"], "reward": ["1", "0.5"], "p": ["5e-1", ".25"]})
    log = bd.Log.read(file, arm="arm", reward="reward", propensity="p")
    assert (log.names, log.rewards.tolist(), log.propensities.tolist()) == (("007", 1), [1.0, 0.5], [0.5, 0.25])
    named = bd.Log.read(file, arm="arm", reward="reward", propensity="p", arms=["1", "007"])
    assert (named.names, named.arms.tolist()) == (("1", "007"), [1, 0])
    whole = write_csv(tmp_path / "b.csv", {"arm": ["2", "1"], "reward": ["1", "0"], "p": ["0.5", "0.5"]})
    assert bd.Log.read(whole, arm="arm", reward="reward", propensity="p").names == (1, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no rows"),
        ("arm,reward,p\n", "has no rows"),
        ("arm,arm\n1,2\n", "has the same name for the columns 1 and 2"),
        ("arm,reward,p\n1,1\n", "row 0, has 2 values"),
        ("arm,reward,p\n1,,0.5\n", "column 'reward', row 0 must be a finite number, got None"),
        ("arm,reward,p\n1,nan,0.5\n", "column 'reward', row 0 must be a finite number, got a float that is not finite"),
        ("PAR1 but no more", "not a whole Parquet file"),
    ],
)
def test_files_that_are_no_tables_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(BandannaError) as caught:
        bd.Log.read(tmp_path / "log.csv", arm="arm", reward="reward", propensity="p")
    assert words in str(caught.value)
    with pytest.raises(BandannaError, match="cannot be read"):
        bd.Log.read(tmp_path / "none.csv", arm="arm", reward="reward", propensity="p")


def test_a_log_can_be_cut_and_split() -> None:
    rng = np.random.default_rng(0)
    frame = {"x": np.arange(100.0), "arm": rng.integers(0, 3, 100), "reward": rng.random(100)}
    log = bd.Log.from_frame(frame, context=["x"], arm="arm", reward="reward", propensity=1 / 3)
    assert log.at([5, 2]).contexts[:, 0].tolist() == [5.0, 2.0]
    assert log.at(log.arms == 1).arms.tolist() == [1] * np.count_nonzero(log.arms == 1)
    one, two = log.split(0.3, seed=4)
    assert (len(one), len(two)) == (30, 70)
    assert sorted([*one.contexts[:, 0], *two.contexts[:, 0]]) == list(range(100))
    assert log.split(0.3, seed=4)[0] == one != log.split(0.3, seed=5)[0]
    for rows in ([], "a", [[1]], [200]):
        with pytest.raises(InvalidArgument):
            log.at(rows)
    for share in (0.0, 1.0, 0.001):
        with pytest.raises(InvalidArgument):
            log.split(share)


def test_decisions_of_an_agent_are_a_log() -> None:
    policy = bd.LinTS(n_arms=2, features=1, horizon=50, privacy=bd.none())
    agent = bd.Agent(policy=policy, arms=["a", "b"], test=True, seed=3)
    contexts = np.random.default_rng(1).uniform(-1, 1, (40, 1))
    decisions = agent.act_many(contexts)
    rewards = [float(decision.arm == "a") for decision in decisions]
    log = bd.Log.from_decisions(decisions, rewards=rewards, contexts=contexts, arms=["a", "b"])
    assert [log.names[k] for k in log.arms] == [decision.arm for decision in decisions]
    np.testing.assert_array_equal(log.propensities, [decision.probability for decision in decisions])
    np.testing.assert_array_equal(log.contexts, contexts)
    with pytest.raises(InvalidArgument, match="one for each decision"):
        bd.Log.from_decisions(decisions, rewards=[*rewards[:-1], None])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match=r"agent\.act has returned"):
        bd.Log.from_decisions([1, 2], rewards=[0, 1])


@pytest.mark.parametrize(
    "change",
    [
        {"arms": [0, 3, 0, 1]},
        {"arms": [0.0, 1.0, 0.0, 1.0]},
        {"rewards": [0, 1, 2, 0]},
        {"rewards": [0, 1, 0]},
        {"propensities": [1, 1, 1]},
        {"propensities": [1, 1, 1, 0]},
        {"contexts": np.zeros((4, 3, 1))},
        {"names": ["a", "a"]},
        {"names": []},
        {"eligible": np.zeros((4, 2), dtype=bool)},
        {"eligible": np.ones((4, 2))},
        {"reward_range": (0, math.inf)},
        {"reward_range": 1},
        {"floor": 2.0},
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {
        "contexts": np.zeros((4, 2)), "arms": [0, 1, 0, 1], "rewards": [0, 1, 0, 1], "propensities": [0.5] * 4,
        "names": ("a", "b"),
    }  # fmt: skip
    assert len(bd.Log(**parts)) == 4
    with pytest.raises(BandannaError):
        bd.Log(**parts | change)


def test_reading_a_log_prints_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(bd.Log.from_frame(ROWS, **COLUMNS)) == "<Log of 4 events: 3 arms, 2 features of users>"


def test_words_may_be_rewards() -> None:
    columns = {name: ROWS[name] for name in ("arm", "p")}
    given = {"arm": "arm", "reward": "won", "propensity": "p"}
    for words in (["yes", "no", "Yes ", "no"], ["True", "false", "TRUE", "False"], [True, False, True, False]):
        assert bd.Log.from_frame({**columns, "won": words}, **given).rewards.tolist() == [1, 0, 1, 0]
    outcome = {**columns, "won": ["cured", "ill", "cured", "dead"]}
    assert bd.Log.from_frame(outcome, success="cured", **given).rewards.tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidArgument, match=r"'won', row 0 must be a finite number, got a str.*success="):
        bd.Log.from_frame(outcome, **given)
    with pytest.raises(InvalidArgument, match=r"success must be a value of column 'won', got 'curd'. No row has"):
        bd.Log.from_frame(outcome, success="curd", **given)
    with pytest.raises(InvalidArgument, match=r"'won', row 1 must be .*, got None"):
        bd.Log.from_frame({**columns, "won": ["cured", None, "ill", "ill"]}, success="cured", **given)


def test_an_error_names_the_feature_map_that_takes_texts() -> None:
    for ages in (["old", "young", "old", "old"], [0.1, None, 0.2, 0.3], [0.1, math.nan, 0.2, 0.3]):
        with pytest.raises(InvalidArgument, match=r"bd\.features\.Map"):
            bd.Log.from_frame({**ROWS, "age": ages}, **COLUMNS)
    with pytest.raises(InvalidArgument, match=r"bd\.Log\.from_frame takes frame, arm"):
        bd.Log.from_frame(ROWS, arm="arm", reward="won")  # type: ignore[call-arg]


def test_arms_may_be_renumbered_in_any_order() -> None:
    able = {"tea": [True] * 4, "coffee": [True, True, False, True], "water": [False, True, True, True]}
    frame = {**ROWS, **{f"can {name}": column for name, column in able.items()}}
    context = {"tea": ["age"], "coffee": ["weight"], "water": ["p"]}
    log = bd.Log.from_frame(frame, **{**COLUMNS, "context": context}, eligible={name: f"can {name}" for name in able})
    for order in (("water", "tea", "coffee"), ("coffee", "tea", "water")):
        other = log.ordered(order)
        assert other.names == order
        assert [order[k] for k in other.arms] == ROWS["arm"]
        for name in order:
            mine, theirs = log.names.index(name), order.index(name)
            np.testing.assert_array_equal(log.contexts[:, mine], other.contexts[:, theirs])
            assert log.eligible is not None
            assert other.eligible is not None
            np.testing.assert_array_equal(log.eligible[:, mine], other.eligible[:, theirs])
        assert other.ordered(log.names) == log
    with pytest.raises(InvalidArgument, match=r"in any order, got 'milk'"):
        log.ordered(("milk", "tea", "coffee"))


def test_a_propensity_by_arms_names_them_all() -> None:
    chances = {"b": 0.25, "a": 0.5, "c": 0.25}
    for occurring in (["a", "b"], ["a", "c"]):
        log = bd.Log.from_frame({"arm": occurring, "reward": [0, 1]}, arm="arm", reward="reward", propensity=chances)
        assert (log.names, log.floor) == (("a", "b", "c"), 0.25)
