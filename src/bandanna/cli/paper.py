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
from bandanna.errors import MissingExtra

FIGURES = {  # shown by bandanna.cli.papers.paper_<number>
    "000": ("fig1", "fig2", "returning", "scaling"),
    "001": ("fig2a", "fig2b", "fig2c", "fig3", "table2", "scaling"),
    "002": ("error", "regret", "tree"),
    "003": ("table2", "fig1a", "fig1b"),
    "004": ("fig4", "fig5", "definitions"),
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
    epsilon: Annotated[float | None, typer.Option(help="Budget, where a figure has one to choose.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta.")] = None,
    shufflers: Annotated[str | None, typer.Option(help='How many at once, or "best", where it can be chosen.')] = None,
) -> None:
    """Redo a figure: each curve as its authors ran it (with the true privacy of that noise), and ours beside it."""
    require.one_of("number", number, tuple(FIGURES))
    require.one_of("figure", figure, FIGURES[number])
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
    if out is not None or not as_json:
        _draw(shown, Path(f"paper-{number}") if out is None else out, quiet=as_json)


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
