"""`python -m reproductions`: every figure at a small scale, as JSON, as a table and as files."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner
from typer.testing import Result as CommandResult

from bandanna.device.domain import Ball
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments.executors import ignore_progress
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.result import Result
from reproductions.__main__ import app
from reproductions.figure import PAPERS, Curve, Figure, at_once, ending, figures, finite, gather, noted
from reproductions.rates import Line, Rate, across, draw_rates, rates_and_slopes, regrets_over
from reproductions.shuffle_linucb import scaling

from ..crafting import strict
from ..sketches import sketch
from .found_once import remember

SCALES = {"fig1": "60", "fig2": "40", "returning": "100", "scaling": "10000"}
FIGURE = {
    "algorithm", "variant", "epsilon", "delta", "true_epsilon", "true_delta", "true_kind", "mean", "stderr", "n_seeds",
    "horizon", "dim",
}  # fmt: skip
ROWS = {
    "fig1": FIGURE,
    "fig2": FIGURE,
    "returning": FIGURE | {"participations", "note"},
    "scaling": {"algorithm", "horizon", "mean", "stderr", "n_seeds"},
}
OTHERS = {"returning": {"random_play"}, "scaling": {"slopes"}}
FILES = {"fig1": 6, "fig2": 4, "returning": 2 * 3, "scaling": 1}  # returning: M = 1, 4, and a figure across them


@pytest.fixture
def computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a figure finds with the same options is found once: these tests are about how it is shown."""
    remember(monkeypatch)
    sketch(monkeypatch)
    monkeypatch.setattr(scaling, "STEPS", 50)  # batches of a run


def run(figure: str, *arguments: str) -> CommandResult:
    """The command at a small scale, in this process."""
    small = ["000", figure, "--seeds", "2", "--horizon", SCALES[figure], "--jobs", "1"]
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, [*small, *arguments])


@pytest.mark.usefixtures("computed_once")
@pytest.mark.often(when=lambda figure: figure != "fig1")  # which is fig2 at other sizes
@pytest.mark.parametrize("figure", SCALES)
def test_json_is_what_was_agreed(figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(figure, "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    document = strict(done.stdout)
    assert document.keys() == {"rows"} | OTHERS.get(figure, set())
    for row in document["rows"]:
        assert row.keys() == ROWS[figure]
        assert row.get("true_kind") in ("exact", "upper", "lower", "none", None)
    for line in document.get("slopes", []):
        assert line.keys() == {"algorithm", "slope", "theory"}
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("computed_once")
@pytest.mark.often(when=lambda figure: figure != "fig1")
@pytest.mark.parametrize("figure", SCALES)
def test_the_command_prints_a_table_and_writes_figures(figure: str, tmp_path: Path) -> None:
    done = run(figure, "--out", str(tmp_path / "figures"))
    assert done.exit_code == 0
    assert "LinUCB-SDP-Vec" in done.stdout
    assert f"Figures: {tmp_path / 'figures'}" in done.stdout.replace("\n", "")
    for suffix in ("png", "svg"):
        assert len(list((tmp_path / "figures").glob(f"{figure}*.{suffix}"))) == FILES[figure]


@pytest.mark.usefixtures("computed_once")
def test_json_with_a_folder_draws_too(tmp_path: Path) -> None:
    done = run("fig2", "--json", "--out", str(tmp_path))
    strict(done.stdout)
    assert len(list(tmp_path.glob("fig2-*.svg"))) == 4


@pytest.mark.usefixtures("computed_once")
def test_what_is_not_there_is_named() -> None:
    for words in (["000", "fig3"], ["017", "fig1"]):
        assert isinstance(CliRunner().invoke(app, [*words]).exception, InvalidArgument)


@pytest.mark.usefixtures("computed_once")
@pytest.mark.parametrize(
    "arguments",
    [
        ("000", "fig1", "--epsilon", "2"),
        ("001", "fig2b", "--epsilon", "2"),
        ("001", "table2", "--delta", "0.1"),
        ("002", "regret", "--epsilon", "2"),
        ("002", "error", "--shufflers", "2"),
        ("002", "tree", "--seeds", "2"),
        ("003", "table2", "--epsilon", "2"),
        ("004", "definitions", "--horizon", "10"),
    ],
)
def test_an_option_that_a_figure_does_not_have_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "figures")])
    assert isinstance(done.exception, InvalidArgument)
    assert str(done.exception).startswith(f"{arguments[2]} must be left out")
    assert f"{arguments[1]} takes --" in str(done.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("computed_once")
@pytest.mark.parametrize("out", ["file", "file/below", "file/far/below"])
def test_a_place_that_takes_no_figures_is_found_before_the_work(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(Figure, "find", lambda *_, **__: pytest.fail("the work has begun"))
    done = run("fig1", "--out", out)
    assert isinstance(done.exception, BandannaError)
    assert "cannot be written" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures("computed_once")
def test_without_the_extra_plot_the_table_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    figures = importlib.import_module("bandanna.simulation.figures")

    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("plot", "plotting")

    monkeypatch.setattr(figures, "matplotlib", missing)
    table = run("fig2")
    assert table.exit_code == 0
    assert "LinUCB-SDP-Vec" in table.stdout
    assert "No figures: plotting needs" in table.stderr
    monkeypatch.setattr(Figure, "find", lambda *_, **__: pytest.fail("the work has begun"))
    assert isinstance(run("fig2", "--out", "figures").exception, MissingExtra)


@pytest.mark.usefixtures("computed_once")
def test_a_misspelt_paper_or_figure_is_answered_with_the_nearest() -> None:
    near = [CliRunner().invoke(app, [*words]).exception for words in (("00", "fig1"), ("000", "fgi1"))]
    assert "Did you mean '000'?" in str(near[0])
    assert "Did you mean 'fig1'?" in str(near[1])


@pytest.mark.usefixtures("computed_once")
def test_what_there_is_is_listed() -> None:
    everything = CliRunner().invoke(app, []).stdout
    for paper in PAPERS:
        for figure in figures(paper).values():
            assert f"{paper} {figure.name} " in everything
            assert figure.shows in everything
    assert "--horizon 1000000" in everything
    one = strict(CliRunner().invoke(app, ["000", "--json"]).stdout)["rows"]
    assert [row["figure"] for row in one] == list(SCALES)
    assert one[0]["options"] == {"seeds": 50, "horizon": 20_000}
    assert isinstance(CliRunner().invoke(app, ["017"]).exception, InvalidArgument)


# A figure as a value: its options, its table, its notes; and that every one is documented


PAGE = (Path(__file__).parents[2] / "docs" / "appendix" / "papers.md").read_text(encoding="utf-8")


def figure(**fields: Any) -> Figure:
    """One whose finding is the options that it was given."""
    return Figure(name="fig", shows="", options={"seeds": 3, "epsilon": None}, compute=lambda **given: given, **fields)


def test_options_have_defaults_and_others_are_refused() -> None:
    found = figure().find(epsilon=2.0)
    assert (found["n_seeds"], found["epsilon"], found["jobs"]) == (3, 2.0, 1)
    with pytest.raises(InvalidArgument, match=r"--delta must be left out: fig takes --seeds, --epsilon, got 1"):
        figure().find(delta=1)
    with pytest.raises(InvalidArgument, match="seeds"):
        figure().find(seeds=0)
    assert at_once(dict)(jobs=2, progress=None, n=1) == {"n": 1}


def test_columns_show_keys_in_their_format() -> None:
    table = figure(columns=("algorithm", "+-=stderr:,.1f", "true epsilon=true:.3g", "theory:g"))
    row = {"algorithm": "A", "stderr": 1234.56, "true": None, "theory": "polylog"}
    assert table.titles == ["algorithm", "+-", "true epsilon", "theory"]
    assert table.table([Curve(row=row)]) == [["A", "1,234.6", "-", "polylog"]]


def test_equal_notes_are_printed_once() -> None:
    rows = [{"algorithm": name, "epsilon": 2.0, "note": note} for name, note in (("A", "why"), ("B", "why"), ("C", ""))]
    assert noted([Curve(row=row) for row in rows], "epsilon = {epsilon:g}") == ["A, B, epsilon = 2: why"]


def test_what_is_not_known_is_none() -> None:
    assert (finite(1.5), finite(float("inf")), finite(float("nan"))) == (1.5, None, None)
    assert set(ending(None).values()) == {None}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_is_documented(paper: str) -> None:
    for name in figures(paper):
        assert f"`{name}`" in PAGE


# Work in several processes


def test_several_processes_give_the_same_values() -> None:
    seen: list[tuple[int, int]] = []
    tasks = [{"start": start, "stop": start + 3, "num": 4} for start in range(5)]
    one = gather(np.linspace, tasks)
    two = gather(np.linspace, tasks, jobs=2, progress=lambda done, total, what: seen.append((done, total)))
    np.testing.assert_array_equal(one, two)
    assert seen == [(done, 5) for done in range(6)]


def test_progress_says_what_ended() -> None:
    said: list[str] = []
    tasks = [{"algorithm": "DPE", "alpha": 0.5, "epsilon": None, "n_seeds": 2, "seed": 7}]
    gather(dict, tasks, progress=lambda done, total, what: said.append(what))
    assert said == ["", "DPE, alpha = 0.5"]


# Slopes, and what rates are made of


def regret(*, algorithm: str, horizon: int, n_seeds: int, seed: int) -> Result:
    """A regret of T^0.6, on average over two seeds."""
    policy = LinUCB(dim=2, horizon=100, privacy=none(), batch=10)
    one = simulate(policy, LinearContextual(dim=2, n_arms=3), n_seeds=n_seeds, seed=seed, checkpoints=1)
    return replace(one, checkpoints=np.array([horizon]), regret=np.array([[0.9], [1.1]]) * horizon**0.6)


@pytest.fixture(scope="module")
def rates() -> list[Rate]:
    """One line of three horizons."""
    line = Line(arguments={"algorithm": "A"}, theory=0.6, horizons=(100, 1000, 10_000))
    return regrets_over(regret, [line], n_seeds=2, seed=0, jobs=1, progress=ignore_progress)


def test_the_slope_of_a_power_is_its_exponent(rates: list[Rate]) -> None:
    document: dict[str, Any] = rates_and_slopes(rates)
    assert document["slopes"] == [{"algorithm": "A", "slope": pytest.approx(0.6), "theory": 0.6}]
    assert [row["horizon"] for row in document["rows"]] == [100, 1000, 10_000]
    assert document["rows"][1] == {
        "algorithm": "A", "horizon": 1000, "mean": pytest.approx(1000**0.6), "stderr": pytest.approx(0.1 * 1000**0.6),
        "n_seeds": 2,
    }  # fmt: skip


def test_a_slope_needs_every_point() -> None:
    points = tuple(Curve(row={"n": n, "std": std}) for n, std in ((10, 1.0), (100, None)))
    assert Rate(arguments={}, theory=0.5, points=points, x="n", y="std").slope is None


def test_rates_state_the_epsilon_of_what_ran(rates: list[Rate], tmp_path: Path) -> None:
    spent = (0.98, 1.0, 0.9)
    private = [CentralGaussian.calibrate(domain=Ball(dim=1), budget=ApproxDP(epsilon=e, delta=1e-3)) for e in spent]
    points = tuple(
        replace(point, result=replace(point.result, guarantee=each.guarantee))
        for point, each in zip(rates[0].points, private, strict=True)
        if point.result is not None
    )
    line = replace(rates[0], points=points)
    assert line.epsilon == "ε ≤ 1"
    assert replace(line, points=points[1:2] * 3).epsilon == "ε = 1"
    alone = tuple(Curve(row=point.row, promise=each.guarantee) for point, each in zip(points, private, strict=True))
    assert replace(line, points=alone).epsilon == line.epsilon
    _, svg = draw_rates([line], tmp_path / "scaling", title="t", label="{algorithm}")
    assert "A, ε ≤ 1, slope 0.60 (0.6)" in svg.read_text()


def test_rates_are_drawn_at_their_horizons(rates: list[Rate], tmp_path: Path) -> None:
    assert rates[0].epsilon == ""  # no privacy, no epsilon
    drawn = across([100, 1000, 10_000], rates[0].points)
    assert (drawn.checkpoints.tolist(), drawn.horizon) == ([100, 1000, 10_000], 10_000)
    assert [path.suffix for path in draw_rates(rates, tmp_path / "scaling", title="t", label="{algorithm}")] == [
        ".png",
        ".svg",
    ]
