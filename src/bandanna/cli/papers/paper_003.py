"""`bandanna paper 003`: generalised linear bandits, as published and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bandanna.cli.papers.base import Options, Shown, number, print_table

if TYPE_CHECKING:
    from bandanna.papers.setting_003 import Row003


def show(figure: str, options: Options) -> Shown:
    """Table 2 and figures 1(a) and 1(b)."""
    from bandanna.papers import drawing_003, paper_003

    found = paper_003.rows(figure, **options.given("seeds", "horizon", "jobs", "progress"))
    told = [row for row, _ in found]
    return Shown(
        document={"rows": [row.row() for row in told]},
        table=lambda: _print(told),
        draw=lambda out: drawing_003.draw(figure, found, out),
    )


def _print(told: list[Row003]) -> None:
    print_table(
        ["preset", "S", "kappa", "epsilon", "true", "regret", "+-", "median", "printed", "I", "II"],
        [
            [
                row.algorithm,
                row.preset,
                f"{row.norm:g}",
                f"{row.kappa:.4g}",
                number(row.epsilon, "g"),
                number(row.true_epsilon, ".4g"),
                number(row.mean, ",.0f"),
                number(row.stderr, ",.0f"),
                number(row.median, ",.0f"),
                number(row.printed, ",.0f"),
                number(row.explorations, ".0f"),
                number(row.switches, ".0f"),
            ]
            for row in told
        ],
        "kappa: the instance's own, told to all but GLM-JDP; true: the epsilon that the noise really gives at "
        "delta = 0.02; I: explored rounds; II: switches (means)",
    )
    largest = max(row.epsilon or 0.0 for row in told)
    for row in told:
        if row.note and row.epsilon == largest:  # where the criterion comes nearest to firing
            typer.echo(f"{row.algorithm}, S = {row.norm:g}, epsilon = {row.epsilon:g}: {row.note}")
