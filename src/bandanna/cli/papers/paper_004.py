"""`bandanna paper 004`: concentrated privacy, and one policy under two definitions of it."""

from __future__ import annotations

import typer

from bandanna.cli.papers.base import Options, Shown


def show(figure: str, options: Options) -> Shown:
    """Proposition 1(e), in numbers."""
    from bandanna.papers.definitions_004 import definitions

    chosen = {"epsilon": 0.95, "delta": 0.17} | options.given("epsilon", "delta")
    found = definitions(**chosen)
    return Shown(document=found, table=lambda: _print_definitions(found, **chosen))


def _print_definitions(found: dict[str, float | None], *, epsilon: float, delta: float) -> None:
    typer.echo("The policy of Proposition 1(e) in paper 004 (3 rounds, 2 arms, rewards 0 and 1):")
    for name in ("view", "table"):
        least, smallest = found[f"{name}_delta_at_epsilon"], found[f"{name}_epsilon_at_delta"]
        verdict = "" if least is not None and least <= delta else "not "
        limit = "none" if smallest is None else f"{smallest:.4f}"
        typer.echo(
            f"  {verdict}({epsilon:g}, {delta:g})-{name.title()} DP: smallest delta at epsilon = {epsilon:g} is "
            f"{least:.4f}, smallest epsilon at delta = {delta:g} is {limit}"
        )
