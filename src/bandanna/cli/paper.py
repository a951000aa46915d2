"""`bandanna paper`: a paper's figures, as published and ours, with what their noise really guarantees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandanna.core import require
from bandanna.errors import MissingExtra

if TYPE_CHECKING:
    from rich.console import Console

    from bandanna.papers.paper_000 import Curve


def paper(
    number: Annotated[str, typer.Argument(help="The paper: 000.")],
    figure: Annotated[str, typer.Argument(help="Its figure: fig1 or fig2.")],
    seeds: Annotated[int, typer.Option(help="Instances.")] = 50,
    horizon: Annotated[int, typer.Option(help="Rounds.")] = 20_000,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("paper-000"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only; no figures.")] = False,
) -> None:
    """Redo a figure: each curve as its authors ran it (with the true privacy of that noise), and ours beside it."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from bandanna.papers.paper_000 import curves

    require.one_of("number", number, ("000",))
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        found = curves(figure, n_seeds=seeds, horizon=horizon, progress=lambda what: bar.update(task, description=what))
    if as_json:
        typer.echo(json.dumps({"rows": [curve.row() for curve in found]}))
        return
    _print(console, found)
    _draw(console, found, figure, out)


def _print(console: Console, found: list[Curve]) -> None:
    from rich import box
    from rich.table import Table

    caption = "true: what the noise really gives, at the nominal delta and at the nominal epsilon"
    table = Table(box=box.SIMPLE, padding=(0, 1), caption=caption)
    table.add_column("algorithm", no_wrap=True)
    for name in ("variant", "d", "epsilon", "regret", "+-", "true epsilon", "delta", "kind"):
        table.add_column(name, justify="right", no_wrap=True)
    for curve in found:
        row = curve.row()
        table.add_row(
            row["algorithm"],
            row["variant"],
            str(row["dim"]),
            f"{row['epsilon']:g}",
            f"{row['mean']:,.0f}",
            f"{row['stderr']:,.0f}",
            "-" if row["true_epsilon"] is None else f"{row['true_epsilon']:.4g}",
            "-" if row["true_delta"] is None else f"{row['true_delta']:.3g}",
            row["true_kind"] or "-",
        )
    if console.width < 100:
        from rich.console import Console

        console = Console(width=100)  # digits matter more than the margin
    console.print(table)


def _draw(console: Console, found: list[Curve], figure: str, out: Path) -> None:
    from bandanna.simulation.figures import plot_regret

    panels = sorted({(curve.variant, curve.dim, curve.epsilon) for curve in found})
    for variant, dim, epsilon in panels:
        panel = {
            curve.algorithm: curve.result
            for curve in found
            if (curve.variant, curve.dim, curve.epsilon) == (variant, dim, epsilon)
        }
        path = out / f"{figure}-{variant}-d{dim}-epsilon{epsilon:g}.png"
        title = f"{'As published' if variant == 'published' else 'Ours'}: d = {dim}, nominal epsilon = {epsilon:g}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            plot_regret(panel, path, title=title)
        except MissingExtra as missing:
            console.print(f"No figures: {missing}", highlight=False, soft_wrap=True, markup=False)
            return
    console.print(f"Figures: {out}", highlight=False, soft_wrap=True, markup=False)
