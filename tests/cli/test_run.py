"""`bandanna run`: the table that people read, the JSON that others read, and the files that are left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bandanna.cli import main
from bandanna.simulation.result import Result as Simulated

from ..strict_json import strict

TOML = """
title = "Two [small] curves"
horizon = 300
seeds = 2
[environment]
name = "LinearContextual"
dim = 3
n_arms = 4
[[algorithm]]
name = "LinUCB"
[[algorithm]]
name = "LinUCB-JDP-batched"
epsilon = 1.0
delta = 1e-5
"""
FIELDS = {
    "label", "algorithm", "arguments", "varied", "trust", "epsilon", "delta", "mean", "stderr", "median", "n_seeds",
    "horizon", "releases", "clipped", "counts", "repairs", "communication", "bits_per_user", "seconds", "guarantee",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment in a directory of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


def run(*arguments: str) -> Result:
    """The command as a person would see it."""
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(main.app, ["run", *arguments])


def rows(text: str) -> list[dict[str, Any]]:
    """The rows of strict JSON, and nothing else."""
    document = strict(text)
    assert set(document) == {"rows"}
    return list(document["rows"])


def test_a_run_prints_a_table_and_leaves_all_files(file: Path) -> None:
    done = run(str(file), "--jobs", "1")
    assert done.exit_code == 0, done.output
    for words in ("Two [small] curves", "LinUCB-JDP-batched", "regret", "± s.e.", "epsilon", "bits/user", "seconds"):
        assert words in done.stdout
    out = file.parent / "mine-results"
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.parent.name != "blocks" and path.is_file()}
    curves = ("01-linucb", "02-linucb-jdp-batched")
    assert files >= {"experiment.json", "summary.json", *(f"results/{curve}.csv" for curve in curves)}
    told = rows(run(str(file), "--jobs", "1", "--resume", "--json").stdout)
    assert [set(row) for row in told] == [FIELDS, FIELDS]
    assert [(row["trust"], row["epsilon"] is None, row["n_seeds"], row["horizon"]) for row in told] == [
        ("none", True, 2, 300),
        ("central", False, 2, 300),
    ]
    assert told[1]["epsilon"] <= 1.0
    assert told[1]["delta"] == 1e-5
    assert told[1]["arguments"] == {"epsilon": 1.0, "delta": 1e-5}
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == {
        "title": "Two [small] curves",
        "rows": told,
    }
    for row, curve in zip(told, curves, strict=True):
        stored = Simulated.load(out / "results" / f"{curve}.csv")
        assert (stored.name, float(stored.mean()[-1])) == (row["label"], row["mean"])
        assert f"{row['mean']:,.1f}" in done.stdout


def test_figures_are_drawn_or_the_missing_extra_is_named(file: Path) -> None:
    done = run(str(file), "--jobs", "1", "--out", "here")
    drawn = {path.suffix for path in Path("here").glob("figure.*")}
    assert drawn == {".png", ".svg"} or "bandanna[plot]" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epsilon", "epsilom", ("mine.toml: algorithm[2].epsilom is not an argument of", "Did you mean 'epsilon'?")),
        ("horizon = 300", "horizon = ", ("mine.toml: bad TOML", "line 3")),
        ("delta = 1e-5", "delta = 0.0", ("algorithm[2].delta must be ", "got 0.0")),
    ],
)
def test_mistakes_are_one_clear_line(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    words: tuple[str, ...],
) -> None:
    file.write_text(TOML.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["bandanna", "run", "mine.toml"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert all(word in shown.err for word in words), shown.err
    assert not (file.parent / "mine-results").exists()
