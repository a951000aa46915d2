"""What a simulation returns: statistics over seeds, a summary, a text."""

from __future__ import annotations

import csv
import importlib
import json
import math
import statistics
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.result import Result, checkpoints_for

from ..drawn import examples

PROMISE = Guarantee(
    trust="shuffle",
    epsilon=1.0,
    delta=1e-5,
    protects="a user's report",
    observers=(("server", "sums. Nothing else"),),
    shuffler=ApproxDP(epsilon=8.0, delta=1e-5),
)


def result(**changes: Any) -> Result:
    """Three seeds, four checkpoints."""
    fields: dict[str, Any] = {
        "checkpoints": np.array([5, 10, 15, 20]),
        "regret": np.array([[1.0, 2.0, 3.0, 4.5], [0.5, 2.5, 2.5, 7.0], [2.0, 2.0, 2.0, 2.0]]),
        "rewards": np.array([11.0, 9.0, 12.5]),
        "releases": 2,
        "clipped": np.array([0, 3, 1]),
        "repairs": np.array([1, 0, 0]),
        "bits_per_user": 7,
        "guarantee": PROMISE,
        "seconds": 0.25,
        "seeds": (4, 5, 6),
        "name": "LinUCB",
        "users": 18,
        "numbers_per_user": 9,
        "counts": {"switches": np.array([2, 3, 7])},
    }
    return Result(**{**fields, **changes})


def one_seed() -> Result:
    """The first run alone."""
    arrays = {name: getattr(result(), name)[:1] for name in ("regret", "rewards", "clipped", "repairs", "seeds")}
    return replace(result(), **arrays, counts={"switches": np.array([2])})


def test_statistics_are_those_of_the_standard_library() -> None:
    measured = result()
    columns = measured.regret.T.tolist()
    assert measured.mean() == pytest.approx([statistics.fmean(column) for column in columns], rel=1e-14)
    expected = [statistics.stdev(column) / math.sqrt(3) for column in columns]
    assert measured.stderr() == pytest.approx(expected, rel=1e-14)
    assert measured.final_regret.tolist() == [4.5, 7.0, 2.0]


def test_the_summary_of_a_known_result_is_the_one_counted_by_hand() -> None:
    spread = math.sqrt(((4.5 - 4.5) ** 2 + 2.5**2 + 2.5**2) / 2 / 3)
    assert result().to_dict() == {
        "name": "LinUCB",
        "mean": 4.5,
        "stderr": pytest.approx(spread, rel=1e-14),
        "median": 4.5,
        "n_seeds": 3,
        "horizon": 20,
        "releases": 2,
        "clipped": 4,
        "repairs": 1,
        "counts": {"switches": 4.0},
        "communication": {"users": 18, "bits_per_user": 7, "bits": 126, "numbers": 162},
        "seconds": 0.25,
        "guarantee": PROMISE.to_dict(),
    }


def test_the_summary_of_a_run_agrees_with_its_arrays() -> None:
    policy = LinUCB(dim=3, horizon=120, privacy=shuffle(epsilon=1.0, delta=1e-5), batch=50)
    measured = simulate(policy, LinearContextual(dim=3, n_arms=4), n_seeds=5)
    summary = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    finals = sorted(measured.regret[:, -1].tolist())
    assert summary["median"] == finals[2]
    assert summary["mean"] == pytest.approx(sum(finals) / 5, rel=1e-14)
    assert summary["communication"]["bits"] == summary["communication"]["users"] * policy._channel.bits_per_user
    assert (summary["horizon"], summary["n_seeds"], summary["releases"]) == (120, 5, 2)
    assert summary["guarantee"]["epsilon"] == policy.guarantee.epsilon


def test_what_is_unknown_is_none() -> None:
    summary = replace(one_seed(), users=None, numbers_per_user=None).to_dict()
    assert summary["stderr"] is None
    assert summary["communication"] == {"users": 20, "bits_per_user": 7, "bits": 140, "numbers": None}
    assert np.all(np.isnan(one_seed().stderr()))


def test_the_text_of_a_result_is_one_line_with_its_guarantee() -> None:
    line, promise = str(result()).split("\n")
    assert line == (
        "LinUCB: regret 4.5 ± 1.44 (mean ± standard error of 3 seeds) after 20 rounds; 2 releases, 7 bits per user, "
        "4 clipped, 0.25 s."
    )
    assert promise.startswith("Shuffle differential privacy with epsilon = 1, delta = 1e-05 for a user's report")
    assert promise.endswith("may choose later data accordingly.")
    assert str(result().guarantee).startswith(promise)
    assert repr(result()) == f"<Result of {line.removesuffix('.')}>"


def test_text_of_one_seed_without_a_name() -> None:
    assert str(replace(one_seed(), name="")).startswith("shuffle: regret 4.5 (one seed) after 20 rounds")


@pytest.mark.parametrize(
    "change",
    [
        {"regret": result().regret + 1e-9},
        {"rewards": np.zeros(3)},
        {"clipped": np.zeros(3, dtype=int)},
        {"seeds": (4, 5, 7)},
        {"name": "other"},
        {"users": None},
        {"guarantee": replace(PROMISE, rho=1.0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_equality_sees_every_field(change: dict[str, Any]) -> None:
    assert result() == result()
    assert result() != result(**change)
    assert result() != "LinUCB"


def test_nan_is_equal_to_itself() -> None:
    assert result(regret=np.full((3, 4), np.nan)) == result(regret=np.full((3, 4), np.nan))


@pytest.mark.parametrize("field", ["regret", "rewards", "clipped", "repairs"])
def test_arrays_of_wrong_shape_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidArgument, match=f"shape of {field}"):
        result(**{field: getattr(result(), field)[:2]})


def test_an_empty_result_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="seeds"):
        result(seeds=())
    with pytest.raises(InvalidArgument, match="checkpoints"):
        result(checkpoints=np.array([], dtype=int))


@pytest.mark.parametrize(("horizon", "wanted"), [(1, 200), (7, 3), (200, 200), (1000, 17)])
def test_checkpoints_end_at_the_horizon(horizon: int, wanted: int) -> None:
    marks = checkpoints_for(horizon, wanted)
    assert marks[-1] == horizon
    assert marks[0] >= 1
    assert np.all(np.diff(marks) > 0)
    assert len(marks) == min(wanted, horizon)


# Results as files: everything comes back, and nothing else is accepted


KINDS = {"csv": Result.to_csv, "parquet": Result.to_parquet}
kinds = pytest.mark.parametrize("kind", KINDS)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
PRIVACY = {"none": none(), "central": central(**BUDGET), "local": local(**BUDGET), "shuffle": shuffle(**BUDGET)}

positive = st.floats(min_value=1e-300, allow_nan=False, allow_infinity=True)
delta = st.floats(min_value=0.0, max_value=0.5)
guarantees = st.builds(
    Guarantee,
    trust=st.sampled_from(["none", "central", "local", "shuffle"]),
    epsilon=positive,
    delta=st.one_of(delta, st.just(math.inf)),
    rho=positive,
    protects=st.text(max_size=10),
    unit=st.sampled_from(["event", "user"]),
    participations=st.integers(1, 10**20),
    batches=st.booleans(),
    observers=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3).map(tuple),
    shuffler=st.one_of(st.none(), st.builds(ApproxDP, epsilon=positive, delta=delta)),
    exposed=st.floats(0, 1),
)


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Any result, with infinities, NaN, huge seeds and texts with quotes and line breaks."""
    n_seeds, n_marks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    row = st.lists(st.floats(), min_size=n_marks, max_size=n_marks)
    counts = st.lists(st.integers(0, 2**62), min_size=n_seeds, max_size=n_seeds)
    return Result(
        checkpoints=np.cumsum(draw(st.lists(st.integers(1, 10**12), min_size=n_marks, max_size=n_marks))),
        regret=np.array(draw(st.lists(row, min_size=n_seeds, max_size=n_seeds))),
        rewards=np.array(draw(st.lists(st.floats(), min_size=n_seeds, max_size=n_seeds))),
        releases=draw(st.integers(0, 10**12)),
        clipped=np.array(draw(counts)),
        repairs=np.array(draw(counts)),
        bits_per_user=draw(st.integers(0, 10**30)),
        guarantee=draw(guarantees),
        seconds=draw(st.floats(0, allow_nan=False)),
        seeds=tuple(draw(st.lists(st.integers(0, 2**128), min_size=n_seeds, max_size=n_seeds))),
        name=draw(st.text(max_size=12)),
        users=draw(st.one_of(st.none(), st.integers(0, 10**12))),
        numbers_per_user=draw(st.one_of(st.none(), st.integers(0, 1000))),
        plays=draw(st.one_of(st.none(), st.just(np.arange(2 * n_seeds).reshape(n_seeds, 2)))),
    )


def simulated(model: str = "shuffle") -> Result:
    """A small real run."""
    policy = LinUCB(dim=2, horizon=60, privacy=PRIVACY[model], batch=20)
    return simulate(policy, LinearContextual(dim=2, n_arms=3), n_seeds=3, seed=7, checkpoints=6)


@kinds
@examples(20, full=60)
@given(original=results())
def test_every_field_survives_a_file(kind: str, original: Result) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"result.{kind}"
        KINDS[kind](original, path)
        loaded = Result.load(path)
        assert [entry.name for entry in Path(folder).iterdir()] == [path.name]
    assert loaded == original
    for each in fields(Result):
        assert repr(getattr(loaded, each.name)) == repr(getattr(original, each.name))
    numbers = ~np.isnan(original.rewards)  # of NaN the sign means nothing
    np.testing.assert_array_equal(np.signbit(loaded.rewards[numbers]), np.signbit(original.rewards[numbers]))


@kinds
@pytest.mark.parametrize("model", PRIVACY)
def test_a_run_of_every_privacy_model_survives_a_file(kind: str, model: str, tmp_path: Path) -> None:
    original = simulated(model)
    KINDS[kind](original, tmp_path / "run")
    assert Result.load(str(tmp_path / "run")) == original


def test_csv_is_readable_by_others(tmp_path: Path) -> None:
    original = simulated()
    original.to_csv(tmp_path / "r.csv")
    first, *rest = (tmp_path / "r.csv").read_text().splitlines()
    assert json.loads(first.removeprefix("# "))["guarantee"]["trust"] == "shuffle"
    rows = list(csv.DictReader(rest))
    assert [int(row["seed"]) for row in rows] == [7] * 6 + [8] * 6 + [9] * 6
    assert [int(row["round"]) for row in rows] == original.checkpoints.tolist() * 3
    assert [float(row["regret"]) for row in rows] == original.regret.ravel().tolist()


def test_parquet_is_readable_by_others(tmp_path: Path) -> None:
    original = simulated()
    original.to_parquet(tmp_path / "r.parquet")
    table = importlib.import_module("pyarrow.parquet").read_table(tmp_path / "r.parquet")
    assert {name: str(table.schema.field(name).type) for name in table.column_names} == {
        "seed": "int64",
        "round": "int64",
        "regret": "double",
    }
    assert table.column("regret").to_pylist() == original.regret.ravel().tolist()


def loaded_or_refused(path: Path) -> Result | BandannaError:
    """What `load` gives: a result or its refusal."""
    try:
        return Result.load(path)
    except BandannaError as error:
        return error


def test_a_file_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    original, path = simulated(), tmp_path / "whole.csv"
    original.to_csv(path)
    content = path.read_bytes()
    rng = np.random.default_rng(5)
    for place in rng.choice(len(content), 300, replace=False).tolist():
        cut, turned = content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        for damaged in (cut, turned):
            path.write_bytes(damaged)
            outcome = loaded_or_refused(path)
            assert outcome == original or (isinstance(outcome, BandannaError) and str(path) in str(outcome))


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    simulated().to_parquet(path)
    content = path.read_bytes()
    for length in (4, 40, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(BandannaError, match=r"r\.parquet"):
            Result.load(path)
    parquet = importlib.import_module("pyarrow.parquet")
    path.write_bytes(content)
    table = parquet.read_table(path)
    for changed in (table.slice(1), table.take([1, 0, *range(2, 18)]), table.select(["seed", "round"])):
        parquet.write_table(changed, path)
        with pytest.raises(BandannaError, match=r"r\.parquet"):
            Result.load(path)
    parquet.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(BandannaError, match="no metadata"):
        Result.load(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "first line"),
        (b"\x89PNG\r\n\x1a\n\xff", "utf-8"),
        (b"seed,round,regret\n1,1,1.0\n", "first line"),
        (b"# {}\nseed,round,regret\n", "version None"),
        (b"# {}\na,b\n", "second line"),
        (b"# {}\nseed,round,regret\n1,2\n", "line 3 has 2 of 3 values"),
        (b"# {\nseed,round,regret\n", "double quotes"),
        (b'# {"format": "bandanna result", "version": 99}\nseed,round,regret\n', "version 99; known is 1"),
    ],
)
def test_a_wrong_file_is_refused_by_name(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_bytes(content)
    with pytest.raises(BandannaError, match=reason) as caught:
        Result.load(path)
    assert str(path) in str(caught.value)


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    for place in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(BandannaError, match="cannot be read") as caught:
            Result.load(place)
        assert str(place) in str(caught.value)
    with pytest.raises(BandannaError, match=r"no\Wsuch\Wr\.csv cannot be written"):
        simulated().to_csv(tmp_path / "no" / "such" / "r.csv")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, path = simulated(), tmp_path / "r.csv"
    original.to_csv(path)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BandannaError, match="No space left"):
        simulated("local").to_csv(path)
    assert Result.load(path) == original
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.csv"]


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, path = simulated(), tmp_path / "r.parquet"
    original.to_parquet(path)
    genuine = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return genuine(name, package)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(MissingExtra, match=r"bandanna\[results\]"):
        original.to_parquet(path)
    with pytest.raises(MissingExtra, match=r"bandanna\[results\]"):
        Result.load(path)
    original.to_csv(tmp_path / "r.csv")
    assert Result.load(tmp_path / "r.csv") == original
