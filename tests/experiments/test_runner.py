"""`bd.experiments.run`: grids, files, tables; the same as `bandanna run`."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
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
from bandanna.simulation import result
from bandanna.simulation.engine import simulate
from bandanna.simulation.figures import plot_panels
from bandanna.simulation.result import Result

from ..sketches import sketch

GRID: dict[str, Any] = {
    "title": "grid",
    "horizon": [40, 80],
    "n_seeds": 3,
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
    small = {**GRID, "horizon": 10, "n_seeds": 1, "environment": {"name": "FiniteArms", "means": [0.2, 0.8]}}
    small["algorithm"] = [{"name": "UCB1"}]
    world, table = '[environment]\nname = "FiniteArms"\nmeans = [0.2, 0.8]\n', '[[algorithm]]\nname = "UCB1"\n'
    Path("mine.toml").write_text(f"horizon = 10\nn_seeds = 1\n{world}{table}", encoding="utf-8")
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
        ({"horizon": []}, r"horizon must be .* one or more, got"),
        ({"horizon": [10, "long"]}, "horizon must be a whole number .*, got 'long'"),
        ({"path": ["law", "laws"]}, "path must be .* got 'laws'"),
        ({"environment": {**GRID["environment"], "dim": [2, 2.5]}}, "environment.dim must be a whole number, got 2.5"),
        ({"environment": {**GRID["environment"], "dim": []}}, r"environment.dim must be .* one or more, got"),
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


# Running experiments: the same numbers on any number of processes; no finished block is repeated


GOOD: dict[str, Any] = {
    "title": "small",
    "horizon": 300,
    "n_seeds": 20,
    "seed": 3,
    "checkpoints": 20,
    "environment": {"name": "LinearContextual", "dim": 3, "n_arms": 4},
    "algorithm": [
        {"name": "LinUCB"},
        {"name": "LinUCB-LDP", "epsilon": [1.0, 5.0], "delta": 1e-5, "batch": 20},
        {"name": "LinUCB-SDP-Vec", "epsilon": 1.0, "delta": 1e-5},
    ],
}
TOML = """
horizon = [50, 2900]
n_seeds = 1
[environment]
name = "LinearContextual"
dim = 3
n_arms = 4
fixed = true
[[algorithm]]
name = "LinUCB"
width = [0.0, 1.0]
"""
SHELL = [sys.executable, "-c", "from bandanna.cli.main import main; main()", "run"]


def timeless(results: dict[str, Result]) -> dict[str, Result]:
    """Results without the only thing that differs between runs."""
    return {label: replace(result, seconds=0.0) for label, result in results.items()}


def identity(directory: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every block file: a file written again would have others."""
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in directory.glob("blocks/*.csv")}


def started(file: Path, out: Path) -> subprocess.Popen[str]:
    """A run in a process group of its own, as a shell starts it, whose first block, a short one, has just ended."""
    file.write_text(TOML, encoding="utf-8")
    command = [*SHELL, str(file), "--jobs", "2", "--out", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not identity(out) and process.poll() is None:
        time.sleep(0.01)
    return process


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    experiment, threads = Experiment.from_dict(GOOD), os.environ.get("OPENBLAS_NUM_THREADS")
    told: list[tuple[int, int, str]] = []
    one = runner.run_sweep(experiment, tmp_path / "one", jobs=1, progress=lambda *step: told.append(step))
    two = runner.run_sweep(experiment, tmp_path / "two", jobs=2)
    assert timeless(one) == timeless(two)
    assert list(one) == [curve.label for curve in experiment.curves]
    assert all(result.seeds == tuple(range(3, 23)) for result in one.values())
    by_hand = simulate(
        experiment.curves[1].policy(dim=3, horizon=300), experiment.world(), n_seeds=20, seed=3, checkpoints=20
    )
    assert one["LinUCB-LDP, epsilon = 1"].final_regret == pytest.approx(by_hand.final_regret, rel=1e-9)
    total = len(runner.list_blocks(experiment))
    assert total == 2 * len(one)  # several blocks make up a curve
    assert [done for done, _, _ in told] == list(range(total + 1))
    assert {of for _, of, _ in told} == {total}
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads


@pytest.mark.parametrize(("seeds", "curves"), [(1, 1), (5, 1), (50, 1), (50, 30), (1000, 3), (17, 5)])
def test_blocks_cover_every_seed_once(seeds: int, curves: int) -> None:
    tables = [{"name": "LinUCB", "label": f"curve {i}"} for i in range(curves)]
    tasks = runner.list_blocks(Experiment.from_dict({**GOOD, "n_seeds": seeds, "algorithm": tables}))
    for index in range(curves):
        covered = [b.seed + i for b in tasks if b.curve == index for i in range(b.n_seeds)]
        assert covered == list(range(3, 3 + seeds))
    assert len({block.file for block in tasks}) == len(tasks)
    assert max(block.n_seeds for block in tasks) <= 50
    assert len(tasks) >= min(8, curves * max(1, seeds // 10))


def test_a_directory_belongs_to_one_experiment(tmp_path: Path) -> None:
    small = {**GOOD, "algorithm": [{"name": "LinUCB"}], "n_seeds": 1}
    first = runner.run_sweep(Experiment.from_dict(small), tmp_path)
    before = identity(tmp_path)
    with pytest.raises(BandannaError, match=r"holds results already. Continue with --resume, or choose another --out"):
        runner.run_sweep(Experiment.from_dict(small), tmp_path)
    for change, words in (
        ({"horizon": 200}, r"horizon \(was 300, is 200\)"),
        ({"environment": {**GOOD["environment"], "dim": 4}}, r"environment.dim \(was 3, is 4\)"),
        ({"algorithm": [{"name": "LinUCB", "width": 0.5}]}, r"algorithm\[1\].width \(was 'nothing', is 0.5\)"),
        ({"algorithm": GOOD["algorithm"]}, r"algorithm \(was 1 entries, is 3\)"),
    ):
        with pytest.raises(BandannaError, match=words):
            runner.run_sweep(Experiment.from_dict({**small, **change}), tmp_path, resume=True)
    assert runner.run_sweep(Experiment.from_dict(small), tmp_path, resume=True) == first
    assert identity(tmp_path) == before
    (tmp_path / "experiment.json").unlink()
    with pytest.raises(BandannaError, match="without their experiment"):
        runner.run_sweep(Experiment.from_dict(small), tmp_path, resume=True)


def test_a_run_without_results_is_no_results(tmp_path: Path) -> None:
    small = Experiment.from_dict({**GOOD, "algorithm": [{"name": "LinUCB"}], "n_seeds": 1})
    first = runner.run_sweep(small, tmp_path)
    for file in tmp_path.glob("blocks/*.csv"):
        file.unlink()
    with pytest.raises(BandannaError, match=r"holds a run without results so far. Continue with --resume, or choose"):
        runner.run_sweep(small, tmp_path)
    assert timeless(runner.run_sweep(small, tmp_path, resume=True)) == timeless(first)


def test_a_damaged_block_is_computed_again(tmp_path: Path) -> None:
    table = {"name": "LinUCB", "width": [0.5, 1.0, 2.0]}
    experiment = Experiment.from_dict({**GOOD, "algorithm": [table], "n_seeds": 1})
    first = runner.run_sweep(experiment, tmp_path)
    before = identity(tmp_path)
    short, other, _ = sorted(tmp_path.glob("blocks/*.csv"))
    short.write_bytes(short.read_bytes()[:-40])
    other.write_text(other.read_text(encoding="utf-8").replace("0.", "1.", 1), encoding="utf-8")
    assert timeless(runner.run_sweep(experiment, tmp_path, resume=True)) == timeless(first)
    after = identity(tmp_path)
    assert [before[name] == after[name] for name in sorted(before)] == [False, False, True]


def test_bad_places_and_numbers_are_refused(tmp_path: Path) -> None:
    experiment = Experiment.from_dict(GOOD)
    with pytest.raises(InvalidArgument, match="jobs must be a whole number >= 1, got 0"):
        runner.run_sweep(experiment, tmp_path / "out", jobs=0)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BandannaError, match="cannot be created"):
        runner.run_sweep(experiment, tmp_path / "file")


def test_without_extras_the_rest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def missing_figure(*_: Any, **__: Any) -> None:
        raise MissingExtra("plot", "plotting")

    def missing_parquet(*_: Any, **__: Any) -> None:
        raise MissingExtra("results", "Result.to_parquet")

    monkeypatch.setattr(runner, "draw_over_time", missing_figure)
    monkeypatch.setattr(result, "write_parquet", missing_parquet)
    experiment = Experiment.from_dict(GOOD)
    policies = [curve.policy(dim=3, horizon=300) for curve in experiment.curves]
    results = {
        curve.label: simulate(policy, experiment.world(), n_seeds=2)
        for curve, policy in zip(experiment.curves, policies, strict=True)
    }
    notes = runner.write_outputs(experiment, results, tmp_path)
    assert [("bandanna[plot]" in note, "bandanna[results]" in note) for note in notes] == [(False, True), (True, False)]
    assert len(list(tmp_path.glob("results/*.csv"))) == 4
    assert not list(tmp_path.glob("figure.*"))
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["rows"][0]["label"] == "LinUCB"


def test_a_killed_run_resumes_without_repeating(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "killed"
    process = started(file, out)
    process.kill()
    process.communicate(timeout=300)  # ends when the workers, who share the pipe, have ended
    resumes_without_repeating(file, out)


def resumes_without_repeating(file: Path, out: Path) -> None:
    """What was finished is kept, the rest is done, and all of it is what a run that nobody disturbed finds."""
    kept = identity(out)
    experiment = Experiment.from_toml(file)
    assert 0 < len(kept) < len(runner.list_blocks(experiment))
    told: list[tuple[int, int, str]] = []
    results = runner.run_sweep(experiment, out, jobs=1, resume=True, progress=lambda *step: told.append(step))
    assert told[0] == (len(kept), len(runner.list_blocks(experiment)), f"{len(kept)} found")
    after = identity(out)
    assert {name: after[name] for name in kept} == kept
    assert timeless(results) == timeless(runner.run_sweep(experiment, out.parent / "whole", jobs=1))


@pytest.mark.parametrize("everyone", [True, pytest.param(False, marks=pytest.mark.full)], ids=["group", "parent"])
def test_an_interrupted_run_ends_at_once_and_says_how_to_continue(tmp_path: Path, everyone: bool) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "stopped"
    process = started(file, out)
    if everyone:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    shown, hint = process.communicate(timeout=300)
    assert (process.returncode, shown) == (130, "")
    assert "--resume" in hint
    assert "Traceback" not in hint
    resumes_without_repeating(file, out)


# Figures of experiments: what is drawn against what, and under which name


GRID_DRAWING: dict[str, Any] = {
    "title": "grid",
    "horizon": [20, 100],
    "n_seeds": 2,
    "environment": {"name": "FiniteArms", "means": {"each": [[0.2, 0.8], [0.5, 0.6]]}},
    "algorithm": [{"name": "UCB1"}, {"name": "LDP-UCB", "label": "local", "epsilon": [1.0, 2.0]}],
}


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    """Two horizons, two worlds, three series."""
    return Experiment.from_dict(GRID_DRAWING)


@pytest.fixture(scope="module")
def results(experiment: Experiment) -> dict[str, Result]:
    """What ran gives more away than was asked for: epsilon is three times as large."""
    found = {}
    for curve in experiment.curves:
        policy = curve.policy(dim=2, horizon=curve.point.horizon)
        result = simulate(policy, curve.point.world(), n_seeds=2, checkpoints=5)
        stated = replace(result.guarantee, epsilon=3 * result.guarantee.epsilon)
        found[curve.label] = replace(result, name=curve.label, guarantee=stated)
    return found


def texts(figure: Any) -> list[str]:
    """Of the key."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_series_are_named_by_what_ran(experiment: Experiment, results: dict[str, Result]) -> None:
    assert list(runner.series_names(experiment, results).values()) == ["UCB1", "local, ε = 3", "local, ε = 6"]
    figure = runner.draw_over_time(experiment, results)
    assert len(figure.axes) == len(experiment.points) == 4
    assert texts(figure) == ["UCB1", "local, ε = 3", "local, ε = 6"]


def test_regret_against_epsilon_is_against_that_of_what_ran(experiment: Experiment, results: dict[str, Result]) -> None:
    figure = runner.draw_against(experiment, results, "epsilon")
    assert len(figure.axes) == 4
    assert texts(figure) == ["UCB1", "local"]
    (bars,) = figure.axes[0].containers
    assert bars.lines[0].get_xdata().tolist() == pytest.approx([3.0, 6.0])
    wanted = [results[each.label].mean()[-1] for each in experiment.curves[1:3]]
    assert bars.lines[0].get_ydata().tolist() == wanted


def test_regret_against_the_horizon_has_a_panel_for_each_world(
    experiment: Experiment, results: dict[str, Result]
) -> None:
    figure = runner.draw_against(experiment, results, "horizon")
    assert len(figure.axes) == 2
    assert [bars.lines[0].get_xdata().tolist() for bars in figure.axes[1].containers] == [[20.0, 100.0]] * 3
    assert runner.varied_axes(experiment) == ["horizon", "epsilon"]


def test_what_was_not_varied_is_refused(experiment: Experiment, results: dict[str, Result]) -> None:
    with pytest.raises(InvalidArgument, match=r"against must be a varied number: horizon, epsilon, got 'dim'"):
        runner.draw_against(experiment, results, "dim")
    with pytest.raises(InvalidArgument, match="panels must be 1 to 12, got 13"):
        plot_panels({str(place): {} for place in range(13)}, across="rounds")


def test_budgets_with_one_guarantee_are_told_apart(experiment: Experiment, results: dict[str, Result]) -> None:
    same = {
        label: replace(each, guarantee=replace(each.guarantee, epsilon=1.0)) if "local" in label else each
        for label, each in results.items()
    }
    names = runner.series_names(experiment, same)
    assert len(set(names.values())) == len(names) == 3
