"""`bandanna plan`: what can be learned from so many users, before anybody is asked."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from bandanna.cli.bars import Bar
from bandanna.cli.calibrate import whole

if TYPE_CHECKING:
    from bandanna.experiments.plan import Forecast


def plan(
    arms: Annotated[int, typer.Option(help="Arms to choose from.", parser=whole, metavar="INTEGER")],
    users: Annotated[int, typer.Option(help="Users, one decision each.", parser=whole, metavar="INTEGER")],
    dim: Annotated[
        int | None,
        typer.Option(
            help="Features of an arm, of which the last is a constant; at least 2.", parser=whole, metavar="INTEGER"
        ),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            help="Instead of --dim: features of a user; every arm has a model of its own.",
            parser=whole,
            metavar="INTEGER",
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy budget epsilon > 0.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget delta in (0, 1).")] = 1e-5,
    trust: Annotated[str, typer.Option(help="central, shuffle, local, none or all.")] = "all",
    fixed: Annotated[
        bool, typer.Option("--fixed/--fresh", help="Arms with the same features for everybody, or fresh ones.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Independent simulated worlds.", parser=whole, metavar="INTEGER")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what a private bandit can be expected to learn from so many users, under each trust model.

    LinTS is simulated on a typical linear problem. Where nothing can be learned, it says how many users would do.
    """
    from bandanna.experiments.plan import plan as compute

    with Bar(shown=True) as bar:
        forecasts = compute(
            dim=dim,
            features=features,
            n_arms=arms,
            users=users,
            epsilon=epsilon,
            delta=delta,
            trust=trust,
            fixed=fixed,
            n_seeds=seeds,
            progress=bar,
        )
    if as_json:
        typer.echo(json.dumps({"rows": [each.to_dict() for each in forecasts]}))
        return
    typer.echo(f"{users:,} users, {_kind(arms, dim, features, fixed)}; LinTS in {seeds} simulated worlds.")
    _print(forecasts)
    _explain(seeds)
    for each in forecasts:
        if each.hopeless:
            typer.echo(_advice(each))


def _kind(arms: int, dim: int | None, features: int | None, fixed: bool) -> str:
    if features is not None:
        return f"{arms} arms, each with a model of {features} features of the user"
    return f"{arms} arms with {dim} features, {'the same for everybody' if fixed else 'fresh for each user'}"


def _print(forecasts: tuple[Forecast, ...]) -> None:
    from bandanna.accounting.guarantee import rounded_up
    from bandanna.cli.tables import print_table

    columns = ("trust", "share", "+-", "regret", "first batch", "releases", "bits", "epsilon", "delta")
    rows = []
    for each in forecasts:
        private = math.isfinite(each.guarantee.epsilon)
        rows.append(
            [
                each.trust,
                f"{each.share:.3f}",
                "-" if math.isnan(each.stderr) else f"{each.stderr:.3f}",
                f"{each.regret:,.0f}",
                f"{each.first_batch:,}",
                f"{each.releases:,}",
                f"{each.bits_per_user:,}",
                rounded_up(each.guarantee.epsilon) if private else "-",
                rounded_up(each.guarantee.delta, 3) if private else "-",
            ]
        )
    print_table(columns, rows, least=92)


def _explain(seeds: int) -> None:
    """What the columns mean, and what they do not."""
    error = "its standard error over the worlds" if seeds > 1 else "with one seed no standard error"
    for line in (
        f"share: regret by random play's - 0: always the best arm, 1: nothing learned; {error}",
        "regret: rewards (0 to 1) lost against always the best arm",
        "first batch: users before the first release; releases: sums that are published; bits: of one report",
        "epsilon, delta: what is really guaranteed to somebody who takes part once",
        "This is a typical linear problem, not yours: take the order of magnitude, then simulate your own",
        "  (docs/simulation.md, A world of your own)",
    ):
        typer.echo(f"  {line}")


def _advice(each: Forecast) -> str:
    words = f"{each.trust}: nothing can be learned from {each.users:,} users: more users, or a larger epsilon"
    if each.enough is not None:
        return f"{words}; with {each.enough:,} users the share is below 0.5"
    return f"{words}; {each.tried:,} users, the most that were tried, are not enough"
