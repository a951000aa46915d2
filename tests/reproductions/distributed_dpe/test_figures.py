"""`python -m reproductions 001`: tables, files and JSON at a small scale."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reproductions import distributed_dpe
from reproductions import distributed_dpe as shown
from reproductions.__main__ import app
from reproductions.distributed_dpe import ours
from reproductions.figure import Curve, figures

SMALL = ["--seeds", "2", "--jobs", "1"]


def test_table_2_is_printed_as_json() -> None:
    done = CliRunner().invoke(app, ["001", "table2", "--json", "--horizon", "300", *SMALL])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [row["algorithm"] for row in rows] == ["DPE"] * 5 + ["LinUCB", "PE"]
    for row in rows:
        assert set(row) == {"algorithm", "alpha", "participants", "communication", "mean_regret"}
    assert [row["alpha"] for row in rows] == [0.5, 0.6, 0.7, 0.8, 0.9, None, None]


@pytest.mark.parametrize(("figure", "horizon"), [("fig2c", "300"), ("table2", "100")])
def test_figures_of_paper_001_have_tables_and_files(figure: str, horizon: str, tmp_path: Path) -> None:
    arguments = ["001", figure, "--horizon", horizon, "--out", str(tmp_path), *SMALL]
    done = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "DPE" in done.stdout
    assert len(list(tmp_path.iterdir())) == (0 if figure == "table2" else 2)


def test_printed_numbers_stand_beside_their_own_horizon_only() -> None:
    row = {"algorithm": "DPE", "alpha": 0.8, "participants": 5532.0, "communication": 28700.0, "mean": 1257.0}
    table = figures("001")["table2"].table
    assert table([Curve(row=row | {"horizon": 50_000})]) == [
        ["DPE", "0.8", "5,532", "5,500", "28,700", "16,900", "1,257"]
    ]
    assert table([Curve(row=row | {"horizon": 2000})]) == [["DPE", "0.8", "5,532", "-", "28,700", "-", "1,257"]]


def test_curves_that_differ_in_alpha_all_say_theirs() -> None:
    assert ours(algorithm="DPE", horizon=20, n_seeds=1).more["label"] == "DPE, alpha = 0.8"
    assert ours(algorithm="PE", alpha=None, horizon=20, n_seeds=1).more["label"] == "PE"


@pytest.mark.parametrize("alphas", [(0.5, 0.9), pytest.param(distributed_dpe.ALPHAS, marks=pytest.mark.full)])
def test_scaling_as_json_has_the_slopes(alphas: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    few = [replace(each, compute=partial(each.compute, alphas=alphas)) for each in shown.FIGURES if "sca" in each.name]
    monkeypatch.setattr(shown, "FIGURES", few)
    done = CliRunner().invoke(app, ["001", "scaling", "--json", "--horizon", "32768", "--seeds", "1", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert {(line["alpha"], line["theory"]) for line in document["slopes"]} >= {(0.5, 0.75), (0.9, 0.55)}
    assert {row["horizon"] for row in document["rows"]} == {8192, 16384, 32768}
    assert {line["alpha"] for line in document["slopes"]} == set(alphas)
