"""`bandanna paper 004`: what zCDP costs, where noise costs least, and one policy under two definitions of privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bandanna.cli.papers.base import Options, Shown, number, print_table

if TYPE_CHECKING:
    from bandanna.papers.paper_004 import Curve, Price

_CAPTION = "true rho: what the noise really gives, for rewards and contexts as they are"


def show(figure: str, options: Options) -> Shown:
    """Figures 4 and 5, and Proposition 1(e) in numbers."""
    if figure == "definitions":
        return _definitions(options)
    from bandanna.papers import drawing_004, paper_004

    shared = options.given("seeds", "horizon", "jobs", "progress")
    if figure == "fig4":
        prices = paper_004.prices(**shared)
        return Shown(
            document={"rows": [price.row() for price in prices]},
            table=lambda: _print_prices(prices),
            draw=lambda out: drawing_004.draw_prices(prices, out),
        )
    curves = paper_004.noise_levels(**shared)
    return Shown(
        document={"rows": [curve.row() for curve in curves]},
        table=lambda: _print_curves(curves),
        draw=lambda out: drawing_004.draw_noise_levels(curves, out),
    )


def _definitions(options: Options) -> Shown:
    from bandanna.papers.definitions_004 import definitions

    chosen = {"epsilon": 0.95, "delta": 0.17} | options.given("epsilon", "delta")
    found = definitions(**chosen)
    return Shown(document=found, table=lambda: _print_definitions(found, **chosen))


def _print_prices(prices: list[Price]) -> None:
    columns = ["variant", "rho", "true rho", "regret", "without", "difference", "+-", "PoP T/100", "T/10", "T"]
    rows = []
    for row in (price.row() for price in prices):
        pops = [number(row[f"pop_at_{share}"], ".1%") for share in (0.01, 0.1, 1.0)]
        regrets = [number(row[name], ",.0f") for name in ("mean", "free_mean", "difference", "difference_stderr")]
        rows.append([row["algorithm"], row["variant"], f"{row['rho']:g}", f"{row['true_rho']:.4g}", *regrets, *pops])
    print_table(columns, rows, f"{_CAPTION}; PoP: price of privacy, difference over regret without")


def _print_curves(curves: list[Curve]) -> None:
    rows: list[list[str]] = []
    for row in (curve.row() for curve in curves):
        plain: list[Any] = [row["algorithm"], row["variant"], f"{row['rho']:g}", f"{row['true_rho']:.4g}"]
        rows.append([*plain, number(row["mean"], ",.0f"), number(row["stderr"], ",.0f")])
    print_table(["variant", "rho", "true rho", "regret", "+-"], rows, _CAPTION)


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
