"""Figures of paper 001, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bandanna.figures.axes import PALETTE, save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.scaling_001 import Rate
from bandanna.papers.setting_001 import Curve001
from bandanna.simulation.result import Result

_TITLES = {
    "fig2b": "Regret per round, epsilon = 10",
    "fig2c": "As many clients in every phase, or more and more",
    "fig3": "One client per round, and DPE with growing alpha",
}


def draw(figure: str, curves: Sequence[Curve001], out: Path) -> list[Path]:
    """The figure of these curves."""
    if figure == "fig2a":
        return _draw_budgets(curves, out)
    several = len({curve.alpha for curve in curves} - {None}) > 1
    panel = {curve.label(alpha=several): curve.result for curve in curves if curve.result is not None}
    if figure == "fig2b":
        panel = {name: replace(each, regret=each.regret / each.checkpoints) for name, each in panel.items()}
    drawn = plot_regret(panel, title=_TITLES[figure], log=figure == "fig2b")
    if figure == "fig2b":
        drawn.axes[0].set_ylabel("regret per round")
    return save_both(drawn, out / figure)


def _draw_budgets(curves: Sequence[Curve001], out: Path) -> list[Path]:
    """Final regret against epsilon; DPE, which has none, as a level line."""
    lines: dict[str, list[tuple[float, Result]]] = {}
    for curve in curves:
        if curve.variant == "ours" and curve.result is not None and curve.epsilon is not None:
            lines.setdefault(curve.algorithm, []).append((curve.epsilon, curve.result))
    marks = [epsilon for epsilon, _ in next(iter(lines.values()))]
    clear = next((curve.result for curve in curves if curve.epsilon is None), None)
    panel = {} if clear is None else {"DPE": _across(marks, [clear] * len(marks))}
    panel |= {name: _across([e for e, _ in line], [result for _, result in line]) for name, line in lines.items()}
    drawn = plot_regret(panel, title="What a larger budget buys", log=True)
    drawn.axes[0].set_xscale("linear")
    drawn.axes[0].set_xlabel("epsilon (delta = 0.1)")
    return save_both(drawn, out / "fig2a")


def _across(marks: Sequence[float], results: Sequence[Result]) -> Result:
    """Final regrets with the marks in the place of the rounds."""
    regret = np.stack([result.final_regret for result in results], axis=1)  # (S, marks)
    return replace(results[0], checkpoints=np.array(marks, dtype=np.int64), regret=regret)


def draw_rates(rates: Sequence[Rate], out: Path) -> list[Path]:
    """Regret against the horizon, one figure per algorithm; dashed: the theorem's slope from the first point on."""
    paths: list[Path] = []
    for name in dict.fromkeys(rate.algorithm for rate in rates):
        lines = [rate for rate in rates if rate.algorithm == name]
        labels = {f"alpha = {r.alpha:g}, slope {r.slope:.2f} ({r.theory:g})": r.over_horizons() for r in lines}
        drawn = plot_regret(labels, title=f"{name}: more clients, less regret (in brackets: the theorem)", log=True)
        for index, rate in enumerate(lines):
            rounds = np.array([result.horizon for result in rate.results], dtype=float)
            ideal = rate.results[0].mean()[-1] * (rounds / rounds[0]) ** rate.theory
            drawn.axes[0].plot(rounds, ideal, color=PALETTE[index], linestyle=(0, (4, 3)), linewidth=1.2)
        drawn.axes[0].set_xlabel("horizon (each point: runs of their own; dashed: the theorem's slope)")
        paths += save_both(drawn, out / f"scaling-{name}")
    return paths
