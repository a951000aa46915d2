"""`bandanna paper`: a paper's figures, as published and ours, with what their noise really guarantees."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.bars import Bar, cores
from bandanna.cli.papers.base import Options, Shown
from bandanna.cli.places import figures_for
from bandanna.core import require
from bandanna.errors import InvalidArgument, MissingExtra

FIGURES = {  # shown by bandanna.cli.papers.paper_<number>
    "000": ("fig1", "fig2", "returning", "scaling"),
    "001": ("fig2a", "fig2b", "fig2c", "fig3", "table2", "scaling"),
    "002": ("error", "regret", "tree"),
    "003": ("table2", "fig1a", "fig1b"),
    "004": ("fig4", "fig5", "definitions"),
}
_USUAL = ("seeds", "horizon")
_TAKES = {  # which of the options that change numbers a figure has, where it is not _USUAL
    ("002", "error"): ("seeds", "horizon", "epsilon", "delta"),
    ("002", "tree"): ("horizon", "epsilon", "delta", "shufflers"),
    ("004", "definitions"): ("epsilon", "delta"),
}
_TABLES = {("001", "table2"), ("004", "definitions")}  # nothing to draw
_HELP = "; ".join(f"{number}: {', '.join(figures)}" for number, figures in FIGURES.items())


def paper(
    number: Annotated[str, typer.Argument(help=f"The paper: {', '.join(FIGURES)}.")],
    figure: Annotated[str, typer.Argument(help=f"Its figure. {_HELP}.")],
    seeds: Annotated[
        int | None, typer.Option("--seeds", "--runs", help="Instances (default: the figure's own).")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds (default: the figure's own).")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: as many as there are cores).")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the figures (default: paper-<number>; with --json: none).", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
    epsilon: Annotated[float | None, typer.Option(help="Budget: of 002 error, 002 tree, 004 definitions.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta, of the same figures.")] = None,
    shufflers: Annotated[str | None, typer.Option(help='How many at once, or "best": of 002 tree.')] = None,
) -> None:
    """Redo a figure: each curve as its authors ran it (with the true privacy of that noise), and ours beside it."""
    require.one_of("number", number, tuple(FIGURES))
    require.one_of("figure", figure, FIGURES[number])
    _check(
        number, figure, {"seeds": seeds, "horizon": horizon, "epsilon": epsilon, "delta": delta, "shufflers": shufflers}
    )
    figures = _place(number, figure, out, as_json=as_json)
    show = importlib.import_module(f"bandanna.cli.papers.paper_{number}").show
    with Bar(shown=not as_json) as bar:
        options = Options(
            seeds=seeds,
            horizon=horizon,
            jobs=cores() if jobs is None else jobs,
            epsilon=epsilon,
            delta=delta,
            shufflers=None if shufflers is None else int(shufflers) if shufflers.isdecimal() else shufflers,
            progress=bar,
        )
        shown: Shown = show(figure, options)
    if as_json:
        typer.echo(json.dumps(shown.document, allow_nan=False))
    else:
        shown.table()
    if isinstance(figures, str):
        typer.secho(f"No figures: {figures}", err=True)
    elif figures is not None and shown.draw is not None:
        shown.draw(figures)
        if not as_json:
            typer.echo(f"Figures: {figures}")


def _check(number: str, figure: str, options: dict[str, object]) -> None:
    """An option that a figure does not have is refused: without it the numbers would look like what was asked for."""
    takes = _TAKES.get((number, figure), _USUAL)
    for name, value in options.items():
        if value is not None and name not in takes:
            known = ", ".join(f"--{each}" for each in takes)
            raise InvalidArgument(f"--{name}", value, f"{number} {figure} takes {known} only")


def _place(number: str, figure: str, out: Path | None, *, as_json: bool) -> Path | str | None:
    """Where figures go, known before the work, or why there are none; only those that were asked for are missed."""
    if (number, figure) in _TABLES:
        return None if out is None else f"{number} {figure} is a table"
    if out is None and as_json:
        return None
    try:
        return figures_for("--out", Path(f"paper-{number}") if out is None else out)
    except MissingExtra as missing:
        if out is not None:
            raise
        return str(missing)
