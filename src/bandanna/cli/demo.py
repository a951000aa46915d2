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
    policy: Annotated[
        str, typer.Option(help="LinTS, or LinUCB: the papers' algorithm and batches, width 0.2.")
    ] = "LinTS",
    out: Annotated[
        Path | None, typer.Option(help="Where the figure goes (.png or .svg; default: bandanna-demo.png).")
    ] = None,
) -> None:
    """Run LinTS without privacy and under every trust model on one problem; print a table, draw a figure.

    100 fixed arms in 5 dimensions; every model at the same budget. The last row is random play.
    """
    from bandanna.environments.random_play import random_play
    from bandanna.experiments.trust_models import problem, trust_models
    from bandanna.figures.regret import plot_regret

    figure = _place(out)
    with Bar(shown=True) as bar:
        outcomes = trust_models(
            policy=policy,
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            n_seeds=seeds,
            progress=lambda done, total, name: bar(done, total, f"{seeds} x {horizon:,} rounds: {name}"),
        )
    typer.echo(
        f"{horizon:,} users, one after the other, are each shown one of 100 arms and answer 1 or 0;"
        f"\n{policy} learns which arm to show. {seeds} worlds."
    )
    _print(outcomes, idle=float(random_play(problem(), horizon=horizon, n_seeds=seeds).mean()))
    _explain(policy, seeds)
    if isinstance(figure, MissingExtra):
        typer.echo(f"No figure: {figure}")
    else:
        title = f"What privacy costs at epsilon = {epsilon:g}, delta = {delta:g}"
        plot_regret({name: outcome.result for name, outcome in outcomes.items()}, figure, title=title)
        typer.echo(f"Figure: {figure}")
    typer.echo("Next: bandanna plan --dim 5 --arms 20 --users 20000 --epsilon 1    (your numbers instead)")
    typer.echo("      bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200 --explain")
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


def _explain(policy: str, seeds: int) -> None:
    """What the columns mean."""
    error = "its standard error" if seeds > 1 else "with one seed no standard error"
    for line in (
        f"regret: answers of 1 lost against always showing the best arm, and {error}",
        "noise: standard deviation in each coordinate of the last released sum",
        "bits: of one user's report; epsilon, delta: what is really guaranteed",
        "compare with --policy " + ("LinUCB, the papers' algorithm" if policy == "LinTS" else "LinTS"),
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
