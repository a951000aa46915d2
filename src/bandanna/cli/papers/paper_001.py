"""`bandanna paper 001`: global reward from a distributed population."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bandanna.cli.papers.base import Options, Shown, number, print_table

if TYPE_CHECKING:
    from bandanna.papers.scaling_001 import Rate
    from bandanna.papers.setting_001 import Curve001


def show(figure: str, options: Options) -> Shown:
    """Figures 2 and 3, Table II, or the rates."""
    arguments = options.given("seeds", "horizon", "jobs", "progress")
    if figure == "scaling":
        return _rates(arguments)
    from bandanna.papers import drawing_001, paper_001

    found = paper_001.curves(figure, **arguments)
    if figure == "table2":
        rows = paper_001.table2(found)
        longest = max((curve.result.horizon for curve in found if curve.result is not None), default=0)
        return Shown(document={"rows": rows}, table=lambda: _print_communication(rows, longest))
    document: dict[str, Any] = {"rows": [curve.row() for curve in found]}
    return Shown(
        document=document,
        table=lambda: _print_curves(found),
        draw=lambda out: drawing_001.draw(figure, found, out),
    )


def _rates(arguments: dict[str, Any]) -> Shown:
    from bandanna.papers.drawing_001 import draw_rates
    from bandanna.papers.scaling_001 import rates

    lines = rates(**arguments)
    document = {
        "rows": [row for line in lines for row in line.rows()],
        "slopes": [
            {"algorithm": each.algorithm, "alpha": each.alpha, "slope": each.slope, "theory": each.theory}
            for each in lines
        ],
    }
    return Shown(document=document, table=lambda: _print_rates(lines), draw=lambda out: draw_rates(lines, out))


def _print_curves(found: list[Curve001]) -> None:
    rows = [curve.row() for curve in found]
    columns = ["variant", "alpha", "epsilon", "regret", "+-", "true epsilon", "true delta", "clients", "communication"]
    print_table(
        columns,
        [
            [
                row["algorithm"],
                row["variant"],
                number(row["alpha"], "g"),
                number(row["epsilon"], "g"),
                number(row["mean"], ",.0f"),
                number(row["stderr"], ",.0f"),
                number(row["true_epsilon"], ".4g"),
                number(row["true_delta"], ".3g"),
                number(row["participants"], ",.0f"),
                number(row["communication"], ",.0f"),
            ]
            for row in rows
        ],
        "true: what the noise really gives, epsilon at delta = 0.1 and delta at the nominal epsilon;\n"
        "communication: real numbers, or bits where bits are sent",
    )
    noted: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        if row["note"]:
            noted.setdefault((row["variant"], row["epsilon"], row["note"]), []).append(row["algorithm"])
    for (variant, epsilon, note), algorithms in noted.items():
        typer.echo(f"{', '.join(algorithms)}, {variant}, epsilon = {epsilon:g}: {note}")


def _print_communication(rows: list[dict[str, Any]], horizon: int) -> None:
    """Beside the printed numbers, if the horizon is theirs."""
    from bandanna.papers.paper_001 import SHORT, published

    columns, caption = ["alpha", "participants", "communication", "regret"], "participants: clients of completed phases"
    names = (("participants", ",.0f"), ("communication", ",.0f"), ("mean_regret", ",.0f"))
    cells = [[row["algorithm"], number(row["alpha"], "g"), *(number(row[n], f) for n, f in names)] for row in rows]
    if horizon == SHORT:
        columns[2:2], columns[4:4] = ["printed"], ["printed"]
        for row, cell in zip(rows, cells, strict=True):
            communication, participants = published(row) or (None, None)
            cell[3:3], cell[5:5] = [number(participants, ",.0f")], [number(communication, ",.0f")]
        caption += "; printed: Table II of the paper, to its two digits"
    else:
        caption += f"; the numbers of the paper are for {SHORT:,} rounds"
    print_table(columns, cells, caption)


def _print_rates(lines: list[Rate]) -> None:
    print_table(
        ["alpha", "slope", "theory", "regret at the first", "at the last horizon"],
        [
            [
                line.algorithm,
                f"{line.alpha:g}",
                f"{line.slope:.3f}",
                f"{line.theory:g}",
                f"{line.results[0].mean()[-1]:,.0f}",
                f"{line.results[-1].mean()[-1]:,.0f}",
            ]
            for line in lines
        ],
        "slope: of log regret in log horizon, fitted; theory: 1 - alpha/2",
    )
