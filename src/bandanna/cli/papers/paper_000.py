"""`bandanna paper 000`: LinUCB under every trust model, as published and ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bandanna.cli.papers.base import Options, Shown, number, print_table

if TYPE_CHECKING:
    from bandanna.papers.curves_000 import Curve
    from bandanna.papers.scaling_000 import Scaling


def show(figure: str, options: Options) -> Shown:
    """Figures 1 and 2, returning users, or the rates."""
    return _scaling(options) if figure == "scaling" else _curves(figure, options)


def _arguments(options: Options) -> dict[str, Any]:
    return options.given("seeds", "horizon", "jobs", "progress")


def _curves(figure: str, options: Options) -> Shown:
    from bandanna.papers import drawing_000, returning_000
    from bandanna.papers.paper_000 import curves

    arguments = _arguments(options)
    found = curves(figure, **arguments)
    document: dict[str, Any] = {"rows": [curve.row() for curve in found]}
    caption = "true: what the noise really gives, at the nominal delta and at the nominal epsilon"
    if figure == "returning":
        horizon = arguments.get("horizon", returning_000.HORIZON)
        idle = returning_000.random_play(horizon=horizon, n_seeds=arguments.get("n_seeds", 50))
        document["random_play"] = idle
        caption += f"\nrandom play: {idle:,.0f}"

    def draw(out: Path) -> list[Path]:
        more = drawing_000.draw_participations(found, out) if figure == "returning" else []
        return more + drawing_000.draw_curves(figure, found, out)

    return Shown(document=document, table=lambda: _print_curves(found, caption), draw=draw)


def _scaling(options: Options) -> Shown:
    from bandanna.papers.drawing_000 import draw_scaling
    from bandanna.papers.scaling_000 import scaling

    lines = scaling(**_arguments(options))
    document = {
        "rows": [row for line in lines for row in line.rows()],
        "slopes": [{"algorithm": each.algorithm, "slope": each.slope, "theory": each.theory} for each in lines],
    }
    return Shown(document=document, table=lambda: _print_slopes(lines), draw=lambda out: draw_scaling(lines, out))


def _print_curves(found: list[Curve], caption: str) -> None:
    rows = [curve.row() for curve in found]
    returning = "participations" in rows[0]
    columns = ["variant", "M" if returning else "d", "epsilon", "regret", "+-", "true epsilon", "delta", "kind"]
    print_table(
        columns,
        [
            [
                row["algorithm"],
                row["variant"],
                str(row["participations" if returning else "dim"]),
                f"{row['epsilon']:g}",
                number(row["mean"], ",.0f"),
                number(row["stderr"], ",.0f"),
                number(row["true_epsilon"], ".4g"),
                number(row["true_delta"], ".3g"),
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
        [row["algorithm"], f"{row['horizon']:,}", number(row["mean"], ",.0f"), number(row["stderr"], ",.0f"), "", ""]
        for line in lines
        for row in line.rows()
    ]
    for line in lines:
        last = next(row for row in reversed(rows) if row[0] == line.algorithm)
        last[4:] = [f"{line.slope:.3f}", f"{line.theory:g}"]
    print_table(["horizon", "regret", "+-", "slope", "theory"], rows, "slope: of log regret in log horizon, fitted")
