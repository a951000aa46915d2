"""Running experiments: the same numbers on any number of processes; no finished block is repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments import runner
from bandanna.experiments.experiment import Experiment
from bandanna.simulation import result
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

GOOD: dict[str, Any] = {
    "title": "small",
    "horizon": 300,
    "seeds": 20,
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
seeds = 1
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
    tasks = runner.list_blocks(Experiment.from_dict({**GOOD, "seeds": seeds, "algorithm": tables}))
    for index in range(curves):
        covered = [b.seed + i for b in tasks if b.curve == index for i in range(b.n_seeds)]
        assert covered == list(range(3, 3 + seeds))
    assert len({block.file for block in tasks}) == len(tasks)
    assert max(block.n_seeds for block in tasks) <= 50
    assert len(tasks) >= min(8, curves * max(1, seeds // 10))


def test_a_directory_belongs_to_one_experiment(tmp_path: Path) -> None:
    small = {**GOOD, "algorithm": [{"name": "LinUCB"}], "seeds": 1}
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
    small = Experiment.from_dict({**GOOD, "algorithm": [{"name": "LinUCB"}], "seeds": 1})
    first = runner.run_sweep(small, tmp_path)
    for file in tmp_path.glob("blocks/*.csv"):
        file.unlink()
    with pytest.raises(BandannaError, match=r"holds a run without results so far. Continue with --resume, or choose"):
        runner.run_sweep(small, tmp_path)
    assert timeless(runner.run_sweep(small, tmp_path, resume=True)) == timeless(first)


def test_a_damaged_block_is_computed_again(tmp_path: Path) -> None:
    table = {"name": "LinUCB", "width": [0.5, 1.0, 2.0]}
    experiment = Experiment.from_dict({**GOOD, "algorithm": [table], "seeds": 1})
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
