"""`bandanna demo`: what privacy costs under each trust model, in one command."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandanna.cli.bars import Bar
from bandanna.cli.places import figure_for
from bandanna.errors import MissingExtra

if TYPE_CHECKING:
    from bandanna.experiments.trust_models import Outcome


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget epsilon > 0.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget delta in (0, 1).")] = 1e-5,
    horizon: Annotated[int, typer.Option(help="Rounds, one user each.")] = 20_000,
    seeds: Annotated[int, typer.Option(help="Independent repetitions.")] = 20,
    width: Annotated[float, typer.Option(help="Multiplier of the confidence radius; 1 is the theorem.")] = 0.2,
    out: Annotated[
        Path | None, typer.Option(help="Where the figure goes (.png or .svg; default: bandanna-demo.png).")
    ] = None,
) -> None:
    """Run LinUCB without privacy and under every trust model on one problem; print a table, draw a figure.

    100 fixed arms in 5 dimensions; every model at the same budget, on its paper's batch schedule.
    """
    from bandanna.experiments.trust_models import random_play, trust_models
    from bandanna.figures.regret import plot_regret

    figure = _place(out)
    with Bar(shown=True) as bar:
        outcomes = trust_models(
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            n_seeds=seeds,
            width=width,
            progress=lambda done, total, name: bar(done, total, f"{seeds} x {horizon:,} rounds: {name}"),
        )
    typer.echo(
        f"{horizon:,} users, one after the other, are each shown one of 100 arms and answer 1 or 0;"
        f"\nLinUCB learns which arm to show. {seeds} worlds."
    )
    _print(outcomes, idle=random_play(horizon=horizon, n_seeds=seeds))
    _explain(width, seeds)
    if isinstance(figure, MissingExtra):
        typer.echo(f"No figure: {figure}")
    else:
        title = f"What privacy costs at epsilon = {epsilon:g}, delta = {delta:g}"
        plot_regret({name: outcome.result for name, outcome in outcomes.items()}, figure, title=title)
        typer.echo(f"Figure: {figure}")
    typer.echo("Next: bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200 --explain")
    typer.echo("      bandanna demo --epsilon 10 --out stronger-signal.png")
    typer.echo("      bandanna list, bandanna run FILE (examples/first.toml is one to copy)")


def _print(outcomes: dict[str, Outcome], *, idle: float) -> None:
    from bandanna.accounting.guarantee import rounded_up
    from bandanna.cli.tables import print_table

    rows = []
    for name, outcome in outcomes.items():
        result, stated = outcome.result, outcome.result.guarantee
        private = math.isfinite(stated.epsilon)
        rows.append(
            [
                name,
                f"{float(result.mean()[-1]):,.0f}",
                f"{float(result.stderr()[-1]):,.0f}" if result.n_seeds > 1 else "-",
                f"{outcome.noise_std:.4g}",
                f"{result.bits_per_user:,}",
                rounded_up(stated.epsilon) if private else "-",
                rounded_up(stated.delta, 3) if private else "-",
            ]
        )
    rows.append(["(random play)", f"{idle:,.0f}", *["-"] * 5])
    print_table(("trust", "regret", "+-", "noise", "bits", "epsilon", "delta"), rows, least=0)


def _explain(width: float, seeds: int) -> None:
    """What the columns mean."""
    error = "its standard error" if seeds > 1 else "with one seed no standard error"
    for line in (
        f"regret: answers of 1 lost against always showing the best arm, and {error}",
        "noise: standard deviation in each coordinate of the last released sum",
        "bits: of one user's report; epsilon, delta: what is really guaranteed",
        f"width = {width:g}: how boldly it explores; 1 is what the theorem needs, less is what practitioners run,",
        "  and privacy does not depend on it: compare with --width " + ("0.2" if width == 1 else "1"),
    ):
        typer.echo(f"  {line}")


def _place(out: Path | None) -> Path | MissingExtra:
    """Where the figure goes, known before the work; without the extra, only a figure that was asked for is missed."""
    try:
        return figure_for("--out", Path("bandanna-demo.png") if out is None else out)
    except MissingExtra as missing:
        if out is not None:
            raise
        return missing
