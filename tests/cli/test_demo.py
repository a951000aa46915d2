"""`bandanna demo`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna.cli import app
from bandanna.errors import MissingExtra

SMALL = ("demo", "--horizon", "400", "--seeds", "3")


def test_demo_compares_every_trust_model(tmp_path: Path) -> None:
    """A trust model, its guarantee, or the figure is missing."""
    out = tmp_path / "figure.svg"
    done = CliRunner().invoke(app, [*SMALL, "--out", str(out)])
    assert done.exit_code == 0
    for word in ("no privacy", "central", "shuffle", "local", "1e-05", "Figure:", "Next:"):
        assert word in done.stdout
    assert "</svg>" in out.read_text()


def test_without_the_extra_the_table_still_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing plot extra loses the simulation, or is not named."""
    figures = importlib.import_module("bandanna.simulation.figures")

    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("plot", "drawing a figure")

    monkeypatch.setattr(figures, "plot_regret", missing)
    done = CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path / "figure.png")])
    assert done.exit_code == 0
    assert "bandanna[plot]" in done.stdout
    assert "shuffle" in done.stdout
