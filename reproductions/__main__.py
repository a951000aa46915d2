"""Figures of the five papers, as published and ours, with what their noise really guarantees.

python -m reproductions                  which figures there are, and their options
python -m reproductions 000 fig1         one figure, as a table and as files
python -m reproductions all --out DIR    every figure
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bandanna import validation
from bandanna.cli.terminal import ProgressBar, check_figure_folder, print_table
from bandanna.errors import BandannaError, MissingExtra
from bandanna.experiments.executors import count_cores
from reproductions.figure import PAPERS, Figure, figures

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def paper(
    number: Annotated[str | None, typer.Argument(help='The paper, 000 to 004, or "all" to redo every figure.')] = None,
    figure: Annotated[str | None, typer.Argument(help="Its figure; without one, what there is.")] = None,
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
    epsilon: Annotated[float | None, typer.Option(help="Budget, of figures that have one.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta, of the same figures.")] = None,
    shufflers: Annotated[str | None, typer.Option(help='How many at once, or "best": of 002 tree.')] = None,
) -> None:
    """Redo a figure: each curve as its authors ran it (with the true privacy of that noise), and ours beside it.

    Without a figure: which there are, and their options with what is meant by default.
    """
    if number == "all":
        return _redo_all(seeds, horizon, jobs, out)
    if number is None or figure is None:
        return _list(tuple(PAPERS) if number is None else (number,), as_json=as_json)
    known = figures(number)
    chosen = known[validation.one_of("figure", figure, tuple(known))]
    options: dict[str, Any] = {"seeds": seeds, "horizon": horizon, "epsilon": epsilon, "delta": delta}
    options["shufflers"] = int(shufflers) if shufflers is not None and shufflers.isdecimal() else shufflers
    given = {name: value for name, value in options.items() if value is not None}
    chosen.check(**given)
    place = _place(number, chosen, out, as_json=as_json)
    with ProgressBar("blocks of runs", shown=not as_json) as bar:
        found = chosen.find(jobs=count_cores() if jobs is None else jobs, progress=bar, **given)
    if as_json:
        typer.echo(json.dumps(chosen.document(found), allow_nan=False))
    else:
        _print(chosen, found)
    if isinstance(place, str):
        typer.secho(f"No figures: {place}", err=True)
    elif place is not None and chosen.draw is not None:
        chosen.draw(found, place / chosen.name)
        if not as_json:
            typer.echo(f"Figures: {place}")


def _redo_all(seeds: int | None, horizon: int | None, jobs: int | None, out: Path | None) -> None:
    """Redo every figure of every paper, with the options that it has."""
    for number in PAPERS:
        for name, figure in figures(number).items():
            typer.echo(f"\n{number} {name}: {figure.shows}")
            paper(
                number,
                name,
                seeds=seeds if "seeds" in figure.options else None,
                horizon=horizon if "horizon" in figure.options else None,
                jobs=jobs,
                out=out if figure.draw else None,
            )


def _list(papers: tuple[str, ...], *, as_json: bool) -> None:
    """Every figure: what it shows, and its options with their defaults."""
    found: list[dict[str, Any]] = [
        {"paper": number, "figure": each.name, "shows": each.shows, "options": dict(each.options)}
        for number in papers
        for each in figures(number).values()
    ]
    if as_json:
        typer.echo(json.dumps({"rows": found}))
        return
    for row in found:
        options = [f"--{name} {'(each its own)' if value is None else value}" for name, value in row["options"].items()]
        typer.echo(f"{row['paper']} {row['figure']:<12}{row['shows']}\n{'':16}{', '.join(options)}")


def _print(figure: Figure, found: Any) -> None:
    table = figure.table(found)
    if table:
        print_table(figure.titles, table, caption=figure.caption)
    for note in figure.notes(found):
        typer.echo(note)


def _place(number: str, figure: Figure, out: Path | None, *, as_json: bool) -> Path | str | None:
    """Where figures go, known before the work, or why there are none; only those that were asked for are missed."""
    if figure.draw is None:
        return None if out is None else f"{number} {figure.name} is a table"
    if out is None and as_json:
        return None
    try:
        return check_figure_folder("--out", Path(f"paper-{number}") if out is None else out)
    except MissingExtra as missing:
        if out is not None:
            raise
        return str(missing)


def main() -> None:
    """Run the command: an error becomes one line and exit code 2."""
    try:
        app()
    except (BandannaError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
