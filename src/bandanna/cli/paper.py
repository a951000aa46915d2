"""`bandanna paper`: a paper's figures, as published and ours, with what their noise really guarantees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna.cli.bars import Bar, cores
from bandanna.core import require
from bandanna.errors import MissingExtra

if TYPE_CHECKING:
    from bandanna.papers.curves_000 import Curve
    from bandanna.papers.scaling_000 import Scaling


_FIGURES = {"000": ("fig1", "fig2", "returning", "scaling"), "004": ("definitions",)}


def paper(
    number: Annotated[str, typer.Argument(help="The paper: 000 or 004.")],
    figure: Annotated[
        str, typer.Argument(help="Its figure: fig1, fig2, returning or scaling (000), definitions (004).")
    ],
    seeds: Annotated[int, typer.Option(help="Instances.")] = 50,
    horizon: Annotated[
        int | None,
        typer.Option(help="Rounds (default: 20000 for figures 1 and 2, 1e6 for returning, 1e8 for scaling)."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes (default: as many as there are cores).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figures (default: paper-000; with --json: none).", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
    epsilon: Annotated[float, typer.Option(help="004 definitions: where delta is found.")] = 0.95,
    delta: Annotated[float, typer.Option(help="004 definitions: where epsilon is found.")] = 0.17,
) -> None:
    """Redo a figure: each curve as its authors ran it (with the true privacy of that noise), and ours beside it.

    fig1 and fig2 are the paper's; returning: users who come back (its section 4); scaling: the rates of its theorems.
    004 definitions: the policy that is View DP and not Table DP.
    """
    require.one_of("number", number, tuple(_FIGURES))
    require.one_of("figure", figure, _FIGURES[number])
    if figure == "definitions":
        from bandanna.cli.paper_definitions import show_definitions

        show_definitions(epsilon=epsilon, delta=delta, as_json=as_json)
        return
    shared: dict[str, Any] = {"n_seeds": seeds, "jobs": cores() if jobs is None else jobs}
    if horizon is not None:
        shared["horizon"] = horizon
    with Bar(shown=not as_json) as bar:
        show = _scaling if figure == "scaling" else _curves
        document, table, draw = show(figure, shared | {"progress": bar})
    if as_json:
        typer.echo(json.dumps(document, allow_nan=False))
    else:
        table()
    if out is not None or not as_json:
        _drawn(draw, Path("paper-000") if out is None else out, quiet=as_json)


Shown = tuple[dict[str, Any], Callable[[], None], Callable[[Path], list[Path]]]  # JSON, table, figures


def _curves(figure: str, arguments: dict[str, Any]) -> Shown:
    from bandanna.papers import drawing_000, returning_000
    from bandanna.papers.paper_000 import curves

    found = curves(figure, **arguments)
    document: dict[str, Any] = {"rows": [curve.row() for curve in found]}
    caption = "true: what the noise really gives, at the nominal delta and at the nominal epsilon"
    if figure == "returning":
        horizon = arguments.get("horizon", returning_000.HORIZON)
        idle = returning_000.random_play(horizon=horizon, n_seeds=arguments["n_seeds"])
        document["random_play"] = idle
        caption += f"\nrandom play: {idle:,.0f}"

    def draw(out: Path) -> list[Path]:
        more = drawing_000.draw_participations(found, out) if figure == "returning" else []
        return more + drawing_000.draw_curves(figure, found, out)

    return document, lambda: _print_curves(found, caption), draw


def _scaling(figure: str, arguments: dict[str, Any]) -> Shown:
    from bandanna.papers.drawing_000 import draw_scaling
    from bandanna.papers.scaling_000 import scaling

    lines = scaling(**arguments)
    document = {
        "rows": [row for line in lines for row in line.rows()],
        "slopes": [{"algorithm": each.algorithm, "slope": each.slope, "theory": each.theory} for each in lines],
    }
    return document, lambda: _print_slopes(lines), lambda out: draw_scaling(lines, out)


def _drawn(draw: Callable[[Path], list[Path]], out: Path, *, quiet: bool) -> None:
    try:
        draw(out)
    except MissingExtra as missing:
        typer.secho(f"No figures: {missing}", err=True)
    else:
        if not quiet:
            typer.echo(f"Figures: {out}")


def _print_curves(found: list[Curve], caption: str) -> None:
    rows = [curve.row() for curve in found]
    returning = "participations" in rows[0]
    columns = ["variant", "M" if returning else "d", "epsilon", "regret", "+-", "true epsilon", "delta", "kind"]
    _print_table(
        columns,
        [
            [
                row["algorithm"],
                row["variant"],
                str(row["participations" if returning else "dim"]),
                f"{row['epsilon']:g}",
                _number(row["mean"], ",.0f"),
                _number(row["stderr"], ",.0f"),
                _number(row["true_epsilon"], ".4g"),
                _number(row["true_delta"], ".3g"),
                row["true_kind"] or "-",
            ]
            for row in rows
        ],
        caption,
    )
    for row in rows:
        if row.get("note"):
            typer.echo(f"{row['algorithm']}, {row['variant']}, M = {row['participations']}: {row['note']}")


def _print_slopes(lines: list[Scaling]) -> None:
    rows = [
        [row["algorithm"], f"{row['horizon']:,}", _number(row["mean"], ",.0f"), _number(row["stderr"], ",.0f"), "", ""]
        for line in lines
        for row in line.rows()
    ]
    for line in lines:
        last = next(row for row in reversed(rows) if row[0] == line.algorithm)
        last[4:] = [f"{line.slope:.3f}", f"{line.theory:g}"]
    _print_table(["horizon", "regret", "+-", "slope", "theory"], rows, "slope: of log regret in log horizon, fitted")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _print_table(columns: list[str], rows: list[list[str]], caption: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, padding=(0, 1), caption=caption)
    table.add_column("algorithm", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    (console if console.width >= 116 else Console(width=116)).print(table)  # digits matter more than the margin
