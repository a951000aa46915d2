"""`python -m reproductions`: every figure at a small scale, as JSON, as a table and as files."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from reproductions.__main__ import app
from reproductions.figure import PAPERS, Figure, figures
from reproductions.shuffle_linucb import scaling

from ..sketches import sketch
from ..strict_json import strict
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


@pytest.fixture(autouse=True)
def _computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a figure finds with the same options is found once: these tests are about how it is shown."""
    remember(monkeypatch)
    sketch(monkeypatch)
    monkeypatch.setattr(scaling, "STEPS", 50)  # batches of a run


def run(figure: str, *arguments: str) -> Result:
    """The command at a small scale, in this process."""
    small = ["000", figure, "--seeds", "2", "--horizon", SCALES[figure], "--jobs", "1"]
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, [*small, *arguments])


@pytest.mark.often(of=lambda figure: figure != "fig1")  # which is fig2 at other sizes
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


@pytest.mark.often(of=lambda figure: figure != "fig1")
@pytest.mark.parametrize("figure", SCALES)
def test_the_command_prints_a_table_and_writes_figures(figure: str, tmp_path: Path) -> None:
    done = run(figure, "--out", str(tmp_path / "figures"))
    assert done.exit_code == 0
    assert "LinUCB-SDP-Vec" in done.stdout
    assert f"Figures: {tmp_path / 'figures'}" in done.stdout.replace("\n", "")
    for suffix in ("png", "svg"):
        assert len(list((tmp_path / "figures").glob(f"{figure}*.{suffix}"))) == FILES[figure]


def test_json_with_a_folder_draws_too(tmp_path: Path) -> None:
    done = run("fig2", "--json", "--out", str(tmp_path))
    strict(done.stdout)
    assert len(list(tmp_path.glob("fig2-*.svg"))) == 4


def test_what_is_not_there_is_named() -> None:
    for words in (["000", "fig3"], ["017", "fig1"]):
        assert isinstance(CliRunner().invoke(app, [*words]).exception, InvalidArgument)


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


def test_a_misspelt_paper_or_figure_is_answered_with_the_nearest() -> None:
    near = [CliRunner().invoke(app, [*words]).exception for words in (("00", "fig1"), ("000", "fgi1"))]
    assert "Did you mean '000'?" in str(near[0])
    assert "Did you mean 'fig1'?" in str(near[1])


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
