"""Figures and Table II of paper 001 at a small scale; the rates are tested in tests/theory/test_rates.py."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.privacy import accountant
from bandanna.privacy.events import GaussianEvent
from bandanna.simulation.environments.population import ClientBlocks, Population
from bandanna.simulation.result import Result
from reproductions import distributed_dpe, remembered
from reproductions import distributed_dpe as shown
from reproductions.__main__ import app
from reproductions.distributed_dpe import (
    ALPHAS,
    FIG2A,
    PUBLISHED,
    curves,
    fan,
    ours,
    printed,
    printed_table2,
    same_communication,
    scaling,
    table2,
    true_epsilon_of_print,
)
from reproductions.figure import Curve, figures
from reproductions.remembered import RememberedPopulation


def test_table_2_counts_the_papers_clients() -> None:
    found = [ours(algorithm="DPE", alpha=alpha, horizon=50_000, n_seeds=2) for alpha in ALPHAS]
    rows = table2(found)
    for row in rows:
        sent, clients = PUBLISHED[f"alpha = {row['alpha']:g}"]
        assert round(row["participants"] / 1e4, 2) == clients
        assert 0.5 < row["communication"] / (1e4 * sent) < 2.5
        assert printed_table2(row) == (1e4 * sent, 1e4 * clients)
    sent_by_alpha = [row["communication"] for row in rows]
    assert sent_by_alpha == sorted(sent_by_alpha)
    regrets = [row["mean_regret"] for row in rows]
    assert regrets == sorted(regrets, reverse=True)


@pytest.mark.parametrize("name", ["PE", "LinUCB"])
def test_one_client_per_round_asks_as_many_clients_as_rounds(name: str) -> None:
    row = ours(algorithm=name, alpha=None, horizon=300, n_seeds=2).row
    assert row["participants"] == row["communication"] == 300
    assert 0 < row["mean"] <= 2 * 300


@pytest.mark.parametrize("figure", ["fig2b", "fig2c", "fig3"])
def test_figures_have_the_curves_of_the_paper(figure: str, tmp_path: Path) -> None:
    drawn = figures("001")[figure]
    found = drawn.find(seeds=2, horizon=400)
    names = {
        "fig2b": ["DPE", "CDP-DPE", "SDP-DPE", "LDP-DPE"],
        "fig2c": ["DPE", "DPE-FixedU"],
        "fig3": ["DPE"] * 5 + ["LinUCB", "PE"],
    }
    assert [curve.row["algorithm"] for curve in found] == names[figure]
    assert drawn.draw is not None
    assert all(path.stat().st_size for path in drawn.draw(found, tmp_path / figure))
    for row in (curve.row for curve in found):
        assert row["mean"] >= 0
        assert (row["true_epsilon"] or 0) <= (row["epsilon"] or 0)


def test_fixed_clients_cost_as_much() -> None:
    dpe = ours(algorithm="DPE", horizon=20_000, n_seeds=3)
    fixed = ours(
        algorithm="DPE-FixedU", alpha=None, horizon=20_000, n_seeds=3, options={"clients": same_communication(dpe)}
    )
    assert fixed.row["communication"] == pytest.approx(dpe.row["communication"], rel=0.2)
    assert fixed.row["mean"] > dpe.row["mean"]


def test_figure_2a_has_every_budget(tmp_path: Path) -> None:
    tasks = [task for task in FIG2A if task.get("epsilon") in (None, 1.0, 10.0)]
    found = curves(tasks, n_seeds=2, horizon=300)
    ran = {(c.row["algorithm"], c.row["variant"], c.row["epsilon"]): c.result is not None for c in found}
    assert ran["CDP-DPE", "published", 1.0]
    assert not ran["LDP-DPE", "published", 10.0]
    assert all(done for (_, variant, _), done in ran.items() if variant == "ours")
    draw = figures("001")["fig2a"].draw
    assert draw is not None
    _, svg = draw(found, tmp_path / "fig2a")
    assert "true epsilon, of what ran (delta = 0.1)" in svg.read_text()


def test_the_true_epsilon_of_the_printed_noise_is_stated() -> None:
    std = np.sqrt(2 * np.log(12.5)) / 10
    assert true_epsilon_of_print(10.0) == accountant.epsilon(GaussianEvent(std=float(std), sensitivity=1.0), 0.1)
    assert 14 < true_epsilon_of_print(10.0) < 15
    known = printed(algorithm="CDP-DPE", epsilon=10.0, horizon=10, n_seeds=1).row
    assert known["true_delta"] == accountant.delta(GaussianEvent(std=float(std), sensitivity=1.0), 10.0) > 0.1
    assert true_epsilon_of_print(1.0) < 1
    row = printed(algorithm="CDP-DPE", epsilon=10.0, horizon=100, n_seeds=1).row
    assert row["mean"] is None
    assert "epsilon <= 1" in row["note"]


def test_rates_have_rows_at_halved_horizons(tmp_path: Path) -> None:
    lines = scaling(alphas=(0.5, 0.9), algorithms=("DPE",), n_seeds=1, horizon=2**15)
    assert [[point.row["horizon"] for point in line.points] for line in lines] == [[2**13, 2**14, 2**15]] * 2
    assert [line.theory for line in lines] == [0.75, 0.55]
    draw = figures("001")["scaling"].draw
    assert draw is not None
    assert [path.name for path in draw(lines, tmp_path / "scaling")] == ["scaling-DPE.png", "scaling-DPE.svg"]
    with pytest.raises(InvalidArgument, match="horizon"):
        scaling(horizon=1000)
    np.testing.assert_allclose(np.linalg.norm(fan(), axis=1), 1)


# `python -m reproductions 001`: tables, files and JSON at a small scale


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


# Clients who are remembered answer as those who are drawn


USERS: dict[str, Any] = {"dim": 4, "n_arms": 12, "sigma": 0.4}  # so far apart that some means leave the range


def _runs(env: Population) -> list[Result]:
    """Policies that ask the same at first, and one that has every report."""
    budgets = [
        ("DPE", {}),
        *((name, {"epsilon": e, "delta": 0.1}) for e in (20.0, 5.0) for name in ("CDP-DPE", "SDP-DPE")),
    ]
    shared: dict[str, Any] = {"dim": 4, "sigma": 0.4, "alpha": 0.9}
    return [
        bd.simulate(bd.make(name, horizon=horizon, **shared, **budget), env, n_seeds=3)
        for horizon in (4000, 9000)
        for name, budget in budgets
    ]


@pytest.mark.parametrize("room", [1 << 20, 20_000])
def test_answers_are_those_of_fresh_draws(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_FEW", 100)
    monkeypatch.setattr(remembered, "_KEPT", room)  # not enough for all, the second time
    for kept, drawn in zip(_runs(RememberedPopulation(**USERS)), _runs(Population(**USERS)), strict=True):
        assert np.array_equal(kept.regret, drawn.regret)
        assert np.array_equal(kept.clipped, drawn.clipped)
        assert np.all(kept.clipped > 0)
        assert all(np.array_equal(kept.counts[name], drawn.counts[name]) for name in drawn.counts)


def test_clients_are_drawn_once_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_FEW", 1)
    drawn, plain = list[int](), ClientBlocks.counts
    monkeypatch.setattr(ClientBlocks, "counts", lambda asked: drawn.append(asked.count) or plain(asked))
    env = RememberedPopulation(**USERS)
    policy = bd.make("DPE", dim=4, horizon=4000, sigma=0.4)
    for _ in range(3):
        bd.simulate(policy, env, n_seeds=2)
    assert len(drawn) == len(env._kept) > 10
    monkeypatch.setattr(remembered, "_KEPT", 32_000)
    bd.simulate(policy, env, n_seeds=1, seed=7)
    assert 0 < sum(counts.nbytes for counts, _, _ in env._kept.values()) <= 32_000
