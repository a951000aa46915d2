"""Paper 000's figures: published and ours, side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna.cli import app
from bandanna.errors import InvalidArgument
from bandanna.papers.paper_000 import curves

KEYS = {
    "algorithm",
    "variant",
    "epsilon",
    "delta",
    "true_epsilon",
    "true_delta",
    "true_kind",
    "mean",
    "stderr",
    "n_seeds",
    "horizon",
}


def test_rows_of_the_first_figure() -> None:
    """A curve is missing, or ours does not keep its nominal budget, or the published one hides what it gives."""
    found = [curve.row() for curve in curves("fig1", n_seeds=2, horizon=100)]
    assert len(found) == 2 * 5 * 3
    for row in found:
        assert row.keys() >= KEYS
        json.dumps(row, allow_nan=False)
        if row["algorithm"] == "LinUCB":
            assert row["true_kind"] is None
        elif row["variant"] == "ours":
            assert row["true_epsilon"] <= row["epsilon"] * (1 + 1e-9)
            assert row["true_delta"] <= row["delta"] * (1 + 1e-9)
    published = {(row["algorithm"], row["epsilon"]): row for row in found if row["variant"] == "published"}
    assert published["LinUCB-JDP", 1.0]["true_kind"] == "none"
    assert published["LinUCB-LDP", 1.0]["true_delta"] == pytest.approx(0.485, abs=0.001)
    assert published["LinUCB-SDP-Amp", 1.0]["true_delta"] > 0.98


def test_command_prints_json_or_a_table_with_figures(tmp_path: Path) -> None:
    """The command's JSON is not JSON, or a panel has no figure."""
    small = ["paper", "000", "fig2", "--seeds", "2", "--horizon", "60"]
    rows = json.loads(CliRunner().invoke(app, [*small, "--json"]).stdout)["rows"]
    assert {row["dim"] for row in rows} == {10, 15}
    done = CliRunner().invoke(app, [*small, "--out", str(tmp_path / "figures")])
    assert done.exit_code == 0
    assert "LinUCB-SDP-Vec" in done.stdout
    assert len(list((tmp_path / "figures").glob("fig2-*.png"))) == 4


def test_unknown_figures() -> None:
    """A figure that the paper does not have is not refused by name."""
    with pytest.raises(InvalidArgument, match="fig1"):
        curves("fig9")
