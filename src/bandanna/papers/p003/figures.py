"""Figures of paper 003: generalised linear bandits, as published and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bandanna.papers.common.curve import Curve, noted
from bandanna.papers.common.drawing import draw_panels
from bandanna.papers.common.figure import REGRET, Figure
from bandanna.papers.p003.regret import curves
from bandanna.papers.p003.settings import FIG1A, FIG1B, SEEDS, TABLE2


def _draw(found: Sequence[Curve], stem: Path) -> list[Path]:
    """Regret over time, one figure per instance: the baselines, and GLM-JDP (tuned) at every budget."""
    shown = [curve for curve in found if curve.row["preset"] not in ("greedy", "matched")]
    return draw_panels(shown, stem, name="S{S:g}", title="Paper 003, S = {S:g}", label="{label}")


def _notes(found: Sequence[Curve]) -> list[str]:
    """Whether criterion I can fire, at the largest budget: where it comes nearest to it."""
    largest = max(curve.row["epsilon"] or 0.0 for curve in found)
    return noted([curve for curve in found if curve.row["epsilon"] == largest], "S = {S:g}, epsilon = {epsilon:g}")


_TABLE2 = Figure(
    name="table2",
    shows="probit, d = 3, S = 2, 2.5, 3: baselines as published and corrected, GLM-JDP in three presets",
    options={"seeds": SEEDS, "horizon": TABLE2[0].horizon},
    compute=partial(curves, TABLE2),
    columns=(
        *("algorithm", "preset", "S:g", "kappa:.4g", "epsilon:g", "true=true_epsilon:.4g", *REGRET),
        *("median:,.0f", "printed:,.0f", "I=explorations:.0f", "II=switches:.0f"),
    ),
    caption="kappa: the instance's own, told to all but GLM-JDP; true: the epsilon that the noise really gives at "
    "delta = 0.02; I: explored rounds; II: switches (means)",
    notes=_notes,
    draw=_draw,
)
FIGURES = (
    _TABLE2,
    replace(
        _TABLE2,
        name="fig1a",
        shows="the same, logistic, d = 5, S = 3.5",
        options={"seeds": SEEDS, "horizon": FIG1A[0].horizon},
        compute=partial(curves, FIG1A),
    ),
    replace(_TABLE2, name="fig1b", shows="the same, probit, d = 5, S = 3", compute=partial(curves, FIG1B)),
)
