"""`bandanna paper 004 definitions`: one policy under two definitions of privacy."""

from __future__ import annotations

import json

import typer


def show_definitions(*, epsilon: float, delta: float, as_json: bool) -> None:
    """Proposition 1(e) of paper 004, in numbers."""
    from bandanna.papers.definitions_004 import definitions

    found = definitions(epsilon=epsilon, delta=delta)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    typer.echo("The policy of Proposition 1(e) in paper 004 (3 rounds, 2 arms, rewards 0 and 1):")
    for name in ("view", "table"):
        least, smallest = found[f"{name}_delta_at_epsilon"], found[f"{name}_epsilon_at_delta"]
        verdict = "" if least is not None and least <= delta else "not "
        limit = "none" if smallest is None else f"{smallest:.4f}"
        typer.echo(
            f"  {verdict}({epsilon:g}, {delta:g})-{name.title()} DP: smallest delta at epsilon = {epsilon:g} is "
            f"{least:.4f}, smallest epsilon at delta = {delta:g} is {limit}"
        )
