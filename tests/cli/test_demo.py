"""`bandanna demo`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.errors import BandannaError, MissingExtra

SMALL = ("demo", "--horizon", "400", "--seeds", "3")
FIGURES = importlib.import_module("bandanna.simulation.figures")
MODELS = importlib.import_module("bandanna.experiments.experiment")


def missing(*_: object, **__: object) -> None:
    """As without the extra."""
    raise MissingExtra("plot", "plotting")


def never(*_: object, **__: object) -> None:
    """The work."""
    raise AssertionError("the work has begun")


def test_demo_compares_every_trust_model(tmp_path: Path) -> None:
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
    done = CliRunner().invoke(app, ["demo", "--horizon", "50", "--seeds", "1", "--policy", policy])
    assert done.exit_code == 0
    assert f"{policy} learns which arm to show" in done.stdout
    assert other in done.stdout


def test_one_seed_has_no_standard_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--horizon", "20", "--seeds", "1"])
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
    monkeypatch.setattr(MODELS, "trust_models", never)
    done = CliRunner().invoke(app, [*SMALL, "--out", "figure.png"])
    assert done.exit_code != 0
    assert isinstance(done.exception, MissingExtra)


@pytest.mark.parametrize("out", ["figure.gif", "file/figure.png", "nowhere/figure.png", "folder.png", ""])
def test_a_place_that_takes_no_figure_is_found_before_the_work(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MODELS, "trust_models", never)
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    done = CliRunner().invoke(app, [*SMALL, "--out", out])
    assert isinstance(done.exception, BandannaError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.png"]
