"""`bandanna demo`."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bandanna.cli import main
from bandanna.cli.main import app
from bandanna.errors import BandannaError, MissingExtra
from bandanna.experiments import plan
from bandanna.simulation.result import Result as Simulated

from ..crafting import strict

SMALL = ("demo", "--horizon", "400", "--n-seeds", "3")
FIGURES = importlib.import_module("bandanna.simulation.figures")
MODELS = importlib.import_module("bandanna.experiments.experiment")


def missing(*_: object, **__: object) -> None:
    """As without the extra."""
    raise MissingExtra("plot", "plotting")


def never(*_: object, **__: object) -> None:
    """The work."""
    raise AssertionError("the work has begun")


def test_demo_compares_every_privacy_model(tmp_path: Path) -> None:
    out = tmp_path / "figure.svg"
    done = CliRunner().invoke(app, [*SMALL, "--out", str(out)])
    assert done.exit_code == 0
    for word in ("no privacy", "central", "shuffle", "local", "1e-05", "Figure:", "Next:"):
        assert word in done.stdout
    assert "</svg>" in out.read_text()


@pytest.mark.parametrize(("policy", "other"), [("LinTS", "--policy LinUCB"), ("LinUCB", "--policy LinTS")])
def test_both_policies_can_be_compared(
    policy: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--horizon", "50", "--n-seeds", "1", "--policy", policy])
    assert done.exit_code == 0
    assert f"{policy} learns which arm to show" in done.stdout
    assert other in done.stdout


def test_one_seed_has_no_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--horizon", "20", "--n-seeds", "1"])
    assert done.exit_code == 0
    assert "nan" not in done.stdout
    assert "with one seed no standard error" in done.stdout


def test_without_the_extra_the_table_still_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIGURES, "matplotlib", missing)
    done = CliRunner().invoke(app, SMALL)
    assert done.exit_code == 0
    assert "bandanna[plot]" in done.stdout
    assert "shuffle" in done.stdout


def test_a_figure_that_was_asked_for_is_missed_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIGURES, "matplotlib", missing)
    monkeypatch.setattr(MODELS, "compare_privacy_models", never)
    done = CliRunner().invoke(app, [*SMALL, "--out", "figure.png"])
    assert done.exit_code != 0
    assert isinstance(done.exception, MissingExtra)


@pytest.mark.parametrize("out", ["figure.gif", "file/figure.png", "nowhere/figure.png", "folder.png", ""])
def test_a_place_that_takes_no_figure_is_found_before_the_work(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MODELS, "compare_privacy_models", never)
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    done = CliRunner().invoke(app, [*SMALL, "--out", out])
    assert isinstance(done.exception, BandannaError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]


# `bandanna plan`


SMALL_PLAN = ("plan", "--dim", "3", "--arms", "4", "--users", "200", "--epsilon", "2", "--n-seeds", "2")


def test_every_privacy_model_is_forecast() -> None:
    done = CliRunner().invoke(app, SMALL_PLAN)
    assert done.exit_code == 0
    for word in ("none", "central", "shuffle", "local", "first batch", "1e-05", "standard error", "typical"):
        assert word in done.stdout


def test_json_of_plan_has_the_rows_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, [*SMALL_PLAN, "--trust", "central", "--fixed", "--json"])
    (row,) = json.loads(done.stdout)["rows"]
    (expected,) = plan.plan(dim=3, n_arms=4, users=200, epsilon=2.0, n_seeds=2, trust="central", fixed=True)
    assert row == json.loads(json.dumps(expected.to_dict()))


def test_fresh_contexts_are_the_default() -> None:
    said = [
        CliRunner().invoke(app, [*SMALL_PLAN, "--trust", "none", *more]).stdout
        for more in ([], ["--fresh"], ["--fixed"])
    ]
    assert said[0] == said[1] != said[2]
    assert "fresh for each user" in said[0]
    assert "the same for everybody" in said[2]


@pytest.mark.parametrize(
    ("enough", "words"), [(1_600, "With 1,600 users the share is below 0.5"), (None, "3,200 users, the largest")]
)
def test_where_nothing_is_learned_it_says_what_would_help(
    enough: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forecasts = plan.plan(dim=3, n_arms=4, users=200, n_seeds=2, trust="none")

    def hopeless(**_: Any) -> tuple[plan.Forecast, ...]:
        return tuple(replace(each, share=0.93, enough=enough, tried=enough or 3_200) for each in forecasts)

    monkeypatch.setattr(plan, "plan", hopeless)
    done = CliRunner().invoke(app, SMALL_PLAN)
    assert "200 users are too few to learn from. Use more users, or a larger epsilon" in done.stdout
    assert words in done.stdout


def test_one_seed_has_no_standard_error_plan() -> None:
    done = CliRunner().invoke(app, [*SMALL_PLAN, "--n-seeds", "1", "--trust", "none"])
    assert done.exit_code == 0
    assert "nan" not in done.stdout
    assert "with one seed no standard error" in done.stdout


# `bandanna run`: the table that people read, the JSON that others read, and the files that are left


TOML = """
title = "Two [small] curves"
horizon = 300
n_seeds = 2
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
