"""Figures of paper 001: phased elimination for a population, and what it communicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bandanna.figures.axes import save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.common.curve import Curve, Row, noted
from bandanna.papers.common.drawing import draw_panels, draw_rates, with_end
from bandanna.papers.common.figure import REGRET, Figure
from bandanna.papers.common.scaling import Rate, across, rates_and_slopes
from bandanna.papers.p001 import regret, scaling
from bandanna.papers.p001.settings import DELTA, HORIZON, SEEDS


def _draw_per_round(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Figure 2(b): regret per round over time, on logarithmic axes."""
    divided = [
        replace(curve, result=replace(curve.result, regret=curve.result.regret / curve.result.checkpoints))
        for curve in curves
        if curve.result is not None
    ]
    return draw_panels(divided, stem, title="Regret per round, epsilon = 10", log=True, up="regret per round")


def _draw_budgets(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Figure 2(a): final regret against the epsilon of what ran; DPE, which has none, as a level line."""
    clear, *private = (curve for curve in curves if curve.row["variant"] == "ours")
    lines: dict[str, list[Curve]] = {}
    for curve in private:
        lines.setdefault(curve.row["algorithm"], []).append(curve)
    marks = {name: [curve.row["true_epsilon"] for curve in line] for name, line in lines.items()}
    level = sorted(each for line in marks.values() for each in line)
    panel = {clear.row["algorithm"]: across([level[0], level[-1]], [clear, clear])}
    panel |= {name: across(marks[name], line) for name, line in lines.items()}
    drawn = plot_regret(panel, title="What a larger budget buys", log=True)
    drawn.axes[0].set_xscale("linear")
    drawn.axes[0].set_xlabel(f"true epsilon, of what ran (delta = {DELTA:g})")
    return save_both(drawn, stem)


def _draw_rates(rates: Sequence[Rate], stem: Path) -> list[Path]:
    """One figure per algorithm."""
    paths: list[Path] = []
    for name in dict.fromkeys(rate.arguments["algorithm"] for rate in rates):
        lines, title = [r for r in rates if r.arguments["algorithm"] == name], f"{name}: more clients, less regret"
        paths += draw_rates(lines, with_end(stem, name), title=title, label="alpha = {alpha:g}")
    return paths


def _beside_the_printed(curves: Sequence[Curve]) -> list[Row]:
    """Table II beside the printed numbers, where the horizon is theirs."""
    rows = regret.table2(curves)
    for row, curve in zip(rows, curves, strict=True):
        theirs = regret.published(row) if curve.row["horizon"] == regret.SHORT else (None, None)
        row["their_communication"], row["their_participants"] = theirs
    return rows


def _ends(rates: Sequence[Rate]) -> list[Row]:
    """Slopes, and the regrets from which to which they lead."""
    return [r.summary | {"first": r.points[0].row["mean"], "last": r.points[-1].row["mean"]} for r in rates]


_FIG2A = Figure(
    name="fig2a",
    shows="regret against epsilon = 1, ..., 10 in three trust models, and the printed noise with its true privacy",
    options={"seeds": SEEDS, "horizon": HORIZON},
    compute=partial(regret.curves, regret.FIG2A),
    columns=(
        *("algorithm", "variant", "alpha:g", "epsilon:g", *REGRET),
        *("true epsilon=true_epsilon:.4g", "true delta=true_delta:.3g"),
        *("clients=participants:,.0f", "communication:,.0f"),
    ),
    caption="true: what the noise really gives, epsilon at delta = 0.1 and delta at the nominal epsilon;\n"
    "communication: real numbers, or bits where bits are sent",
    notes=partial(noted, words="{variant}, epsilon = {epsilon:g}"),
    draw=_draw_budgets,
)
FIGURES = (
    _FIG2A,
    replace(
        _FIG2A,
        name="fig2b",
        shows="regret per round over time, epsilon = 10",
        compute=partial(regret.curves, regret.FIG2B),
        draw=_draw_per_round,
    ),
    replace(
        _FIG2A,
        name="fig2c",
        shows="DPE, and as many clients in every phase",
        compute=regret.fixed_clients,
        draw=partial(draw_panels, title="As many clients in every phase, or more and more"),
    ),
    replace(
        _FIG2A,
        name="fig3",
        shows="LinUCB and PE, who ask a client every round, and DPE for five values of alpha",
        options={"seeds": SEEDS, "horizon": regret.SHORT},
        compute=partial(regret.curves, regret.FIG3),
        draw=partial(draw_panels, title="One client per round, and DPE with growing alpha", label="{label}"),
    ),
    Figure(
        name="table2",
        shows="what they communicate; no figure",
        options={"seeds": SEEDS, "horizon": regret.SHORT},
        compute=partial(regret.curves, regret.FIG3),
        document=lambda curves: {"rows": regret.table2(curves)},
        lines=_beside_the_printed,
        columns=(
            *("algorithm", "alpha:g", "participants:,.0f", "printed=their_participants:,.0f"),
            *("communication:,.0f", "printed=their_communication:,.0f", "regret=mean_regret:,.0f"),
        ),
        caption="participants: clients of completed phases;\n"
        f"printed: Table II of the paper, to its two digits; it is for {regret.SHORT:,} rounds",
    ),
    Figure(
        name="scaling",
        shows="slopes of log regret in log T for five values of alpha; T at least 32,768",
        options={"seeds": SEEDS, "horizon": 2**scaling.LAST},
        compute=scaling.scaling,
        document=rates_and_slopes,
        lines=_ends,
        columns=(
            *("algorithm", "alpha:g", "slope:.3f", "theory:g"),
            *("regret at the first=first:,.0f", "at the last horizon=last:,.0f"),
        ),
        caption="slope: of log regret in log horizon, fitted; theory: 1 - alpha/2",
        draw=_draw_rates,
    ),
)
