"""Figures of paper 000, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bandanna.figures.axes import PALETTE, save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.curves_000 import Curve
from bandanna.papers.scaling_000 import Scaling
from bandanna.simulation.result import Result

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TITLES = {"published": "As published", "ours": "Ours"}


def draw_curves(figure: str, curves: Sequence[Curve], out: Path) -> list[Path]:
    """Regret over time: one figure per variant, dimension and budget, or per variant and number of participations."""
    panels: dict[tuple[str, str], dict[str, Result]] = {}
    for curve in curves:
        if curve.result is not None:
            panels.setdefault(_panel(curve), {})[curve.algorithm] = curve.result
    return [path for (name, title), panel in panels.items() for path in _save(panel, out / f"{figure}-{name}", title)]


def _panel(curve: Curve) -> tuple[str, str]:
    """Name and title of a curve's panel."""
    if curve.participations is None:
        name, words = f"d{curve.dim}-epsilon{curve.epsilon:g}", f"d = {curve.dim}, nominal epsilon = {curve.epsilon:g}"
    else:
        name, words = f"participations{curve.participations}", f"at most {curve.participations} participations"
    return f"{curve.variant}-{name}", f"{_TITLES[curve.variant]}: {words}"


def draw_participations(curves: Sequence[Curve], out: Path) -> list[Path]:
    """Final regret against the number of participations, one figure per variant; both axes are logarithmic."""
    paths: list[Path] = []
    for variant in _TITLES:
        lines: dict[str, list[Curve]] = {}
        for curve in curves:
            if curve.variant == variant and curve.result is not None:
                lines.setdefault(curve.algorithm, []).append(curve)
        drawn = {name: _over_participations(line) for name, line in lines.items() if len(line) > 1}
        if drawn:
            title = f"{_TITLES[variant]}: regret of returning users"
            paths += _save(drawn, out / f"returning-{variant}", title, log=True, across="participations")
    return paths


def _over_participations(line: Sequence[Curve]) -> Result:
    """Final regrets with the participations in the place of the rounds."""
    results = [curve.result for curve in line if curve.result is not None]
    marks = np.array([curve.participations for curve in line])
    regret = np.stack([result.final_regret for result in results], axis=1)  # (S, participations)
    return replace(results[0], checkpoints=marks, regret=regret)


def draw_scaling(lines: Sequence[Scaling], out: Path) -> list[Path]:
    """Final regret against the horizon on logarithmic axes, with the fitted slope; dashed: the theorem's slope."""
    drawn = {f"{line.algorithm}, slope {line.slope:.2f} ({line.theory:g})": line.over_horizons() for line in lines}
    figure = plot_regret(drawn, title="How regret grows with the horizon (in brackets: the theorem)", log=True)
    axes = figure.axes[0]
    for index, line in enumerate(lines):
        rounds = np.array([result.horizon for result in line.results], dtype=float)
        means = np.array([result.mean()[-1] for result in line.results])
        axes.plot(rounds, means, color=PALETTE[index], linestyle="", marker="o", markersize=6)
        ideal = means[0] * (rounds / rounds[0]) ** line.theory  # from the first point on
        axes.plot(rounds, ideal, color="black", linestyle=(0, (4, 3)), linewidth=1.2)
    axes.set_xlabel("horizon (each point: runs of their own; dashed: the theorem's slope)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _power(value))
    return save_both(figure, out / "scaling")


def _power(value: float) -> str:
    """10⁵ for powers of ten, plain numbers between them."""
    exponent = round(float(np.log10(value)))
    return f"10{str(exponent).translate(_RAISED)}" if np.isclose(value, 10.0**exponent) else f"{value:,.3g}"


def _save(
    panel: dict[str, Result], stem: Path, title: str, *, log: bool = False, across: str | None = None
) -> list[Path]:
    figure = plot_regret(panel, title=title, log=log)
    if across is not None:
        figure.axes[0].set_xlabel(across)
    return save_both(figure, stem)
