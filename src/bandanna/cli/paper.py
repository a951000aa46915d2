"""`bandanna paper`: a paper's figures, as published and ours, with what their noise really guarantees."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.bars import Bar, cores
from bandanna.cli.papers.base import Options, Shown
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
    show = importlib.import_module(f"bandanna.cli.papers.paper_{number}").show
    with Bar(shown=not as_json) as bar:
        options = Options(
            seeds=seeds,
            horizon=horizon,
            jobs=cores() if jobs is None else jobs,
            epsilon=epsilon,
            delta=delta,
            shufflers=None if shufflers is None else int(shufflers) if shufflers.isdigit() else shufflers,
            progress=bar,
        )
        shown: Shown = show(figure, options)
    if as_json:
        typer.echo(json.dumps(shown.document, allow_nan=False))
    else:
        shown.table()
    if shown.draw is None and out is not None:
        typer.secho(f"No figures: {number} {figure} is a table", err=True)
    if out is not None or not as_json:
        _draw(shown, Path(f"paper-{number}") if out is None else out, quiet=as_json)


def _check(number: str, figure: str, options: dict[str, object]) -> None:
    """An option that a figure does not have is refused: without it the numbers would look like what was asked for."""
    takes = _TAKES.get((number, figure), _USUAL)
    for name, value in options.items():
        if value is not None and name not in takes:
            known = ", ".join(f"--{each}" for each in takes)
            raise InvalidArgument(f"--{name}", value, f"{number} {figure} takes {known} only")


def _draw(shown: Shown, out: Path, *, quiet: bool) -> None:
    if shown.draw is None:
        return
    try:
        shown.draw(out)
    except MissingExtra as missing:
        typer.secho(f"No figures: {missing}", err=True)
    else:
        if not quiet:
            typer.echo(f"Figures: {out}")
