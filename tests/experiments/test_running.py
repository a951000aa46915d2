"""`bd.experiments.run`: grids, files, tables; the same as `bandanna run`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

import bandanna as bd
from bandanna.data import tables
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments import runner
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.runner import Results
from bandanna.simulation.engine import simulate

from ..sketches import sketch

GRID: dict[str, Any] = {
    "title": "grid",
    "horizon": [40, 80],
    "seeds": 3,
    "checkpoints": 4,
    "environment": {"name": "LinearContextual", "dim": [2, 3], "n_arms": 4, "reward": "Bernoulli"},
    "algorithm": [
        {"name": "LinTS"},
        {"name": "LinTS-LDP", "label": "local", "epsilon": [1.0, 4.0], "delta": 1e-5, "batch": 20},
    ],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The grid, run once."""
    with pytest.MonkeyPatch.context() as patched:
        sketch(patched)
        return bd.experiments.run(GRID, out=tmp_path_factory.mktemp("grid") / "out", jobs=1)


def test_lists_span_a_grid_of_simulated_points(done: Results) -> None:
    labels = [
        f"{series}, horizon = {horizon}, dim = {dim}"
        for horizon in (40, 80)
        for dim in (2, 3)
        for series in ("LinTS", "local, epsilon = 1", "local, epsilon = 4")
    ]
    assert list(done) == labels
    curve = done.experiment.curves[-1]
    assert (curve.varied, curve.point.horizon) == ({"epsilon": 4.0, "horizon": 80, "dim": 3}, 80)
    alone = simulate(curve.policy(dim=3, horizon=80), curve.point.world(), n_seeds=3, checkpoints=4)
    assert replace(done[labels[-1]], name="", seconds=0.0) == replace(alone, seconds=0.0)


def test_the_table_is_tidy_and_true(done: Results) -> None:
    table = done.to_frame()
    assert len(table) == 12 * 3
    for label, rows in table.groupby("label"):
        result = done[str(label)]
        assert rows["seed"].tolist() == list(result.seeds)
        assert rows["regret"].tolist() == result.final_regret.tolist()
        assert set(rows["epsilon"]) == {result.guarantee.epsilon}
        assert rows["delta"].isna().all() or set(rows["delta"]) == {result.guarantee.delta}
    private = table[table["series"] == "local"]
    assert set(private["algorithm.epsilon"]) == {1.0, 4.0}
    assert (private["epsilon"] <= private["algorithm.epsilon"]).all()
    assert (private["delta"] <= private["algorithm.delta"]).all()
    assert set(table[table["series"] == "LinTS"]["epsilon"]) == {math.inf}
    assert table.groupby(["environment.dim", "horizon"]).size().to_dict() == dict.fromkeys(
        [(2, 40), (2, 80), (3, 40), (3, 80)], 9
    )
    assert len(done.to_frame(rounds="all")) == 12 * 3 * 4


def test_files_hold_the_same_table(done: Results) -> None:
    assert done.directory is not None
    assert done.notes == []
    table = done.to_frame()
    pandas.testing.assert_frame_equal(pandas.read_parquet(done.directory / "table.parquet"), table)
    pandas.testing.assert_frame_equal(pandas.read_csv(done.directory / "table.csv"), table, check_dtype=False)


def test_a_grid_is_resumed_and_read_back(done: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "save_both", lambda *_: [])  # the figures would be the same
    told: list[tuple[int, int, str]] = []
    again = bd.experiments.run(
        done.experiment, out=done.directory, resume=True, progress=lambda *step: told.append(step)
    )
    assert told == [(12, 12, "12 found")]
    assert dict(again) == dict(done)
    assert Experiment.from_dict(done.experiment.to_dict()) == done.experiment


def test_results_have_frames_of_three_libraries(done: Results) -> None:
    result = done["LinTS, horizon = 40, dim = 2"]
    table = result.to_frame()
    assert table.columns.tolist() == [
        "label", "policy", "trust", "epsilon", "delta", "dim", "n_arms", "horizon", "seed", "round", "regret",
    ]  # fmt: skip
    assert table["regret"].tolist() == result.regret.ravel().tolist()
    assert table.groupby("round")["regret"].mean().tolist() == pytest.approx(result.mean().tolist())
    pandas.testing.assert_frame_equal(result.to_frame(kind="arrow").to_pandas(), table)
    assert result.to_frame(kind="polars").to_dicts()[0]["label"] == result.label
    wide = replace(result, seeds=(2**64, 2**64 + 1, 2**64 + 2)).to_frame(kind="polars", rounds="last")
    assert wide["seed"].to_list()[0] == str(2**64)
    with pytest.raises(InvalidArgument, match=r"kind must be one of 'pandas', 'polars', 'arrow', got 'excel'"):
        result.to_frame(kind="excel")
    with pytest.raises(InvalidArgument, match=r"rounds must be .*got 'some'"):
        result.to_frame(rounds="some")


def test_missing_libraries_are_named(done: Results, monkeypatch: pytest.MonkeyPatch) -> None:

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(tables.importlib, "import_module", absent)
    result = done["LinTS, horizon = 40, dim = 2"]
    for kind in ("pandas", "arrow"):
        with pytest.raises(MissingExtra, match=r"bandanna\[results\]"):
            result.to_frame(kind=kind)
    with pytest.raises(BandannaError, match="pip install polars"):
        result.to_frame(kind="polars")


def test_results_of_a_file_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = {**GRID, "horizon": 10, "seeds": 1, "environment": {"name": "FiniteArms", "means": [0.2, 0.8]}}
    small["algorithm"] = [{"name": "UCB1"}]
    world, table = '[environment]\nname = "FiniteArms"\nmeans = [0.2, 0.8]\n', '[[algorithm]]\nname = "UCB1"\n'
    Path("mine.toml").write_text(f"horizon = 10\nseeds = 1\n{world}{table}", encoding="utf-8")
    from_file = bd.experiments.run("mine.toml", jobs=1)
    assert from_file.directory == Path("mine-results")
    assert Path("mine-results/summary.json").is_file()
    before = set(tmp_path.iterdir())
    kept = bd.experiments.run(small, jobs=1)
    assert kept.directory is None
    assert set(tmp_path.iterdir()) == before
    assert kept["UCB1"].final_regret.tolist() == from_file["UCB1"].final_regret.tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"horizon": []}, r"horizon = \[\] .* one or more"),
        ({"horizon": [10, "long"]}, "horizon = 'long' .* whole number"),
        ({"path": ["law", "laws"]}, "path must be .* got 'laws'"),
        ({"environment": {**GRID["environment"], "dim": [2, 2.5]}}, "environment.dim = 2.5 .* whole number"),
        ({"environment": {**GRID["environment"], "dim": []}}, r"environment.dim = \[\] .* one or more"),
        ({"environment": {"name": "FiniteArms", "means": {"each": 3}}}, "environment.means.each must be .* got 3"),
    ],
)
def test_mistakes_in_a_grid_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        bd.experiments.run({**GRID, **change})


def test_arrays_are_single_values_unless_each_says_otherwise() -> None:
    table = {**GRID, "horizon": 10, "algorithm": [{"name": "UCB1"}]}
    one = Experiment.from_dict({**table, "environment": {"name": "FiniteArms", "means": [0.2, 0.8]}})
    assert [point.varied for point in one.points] == [{}]
    worlds = {"name": "FiniteArms", "means": {"each": [[0.2, 0.8], [0.4, 0.5, 0.6]]}}
    two = Experiment.from_dict({**table, "environment": worlds})
    assert [point.world().n_arms for point in two.points] == [2, 3]


def test_what_is_no_experiment_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"experiment must be .* got 3"):
        bd.experiments.run(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"resume must be False unless `out` .* got True"):
        bd.experiments.run(GRID, resume=True)
