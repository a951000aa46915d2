"""Paper 001's figures at a small scale, and its Table II; that rates are those of the theorem is in tests/rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.privacy import accountant
from bandanna.privacy.events import GaussianEvent
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
from reproductions.figure import figures


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
