"""Drawing what the papers share: regret in panels, and rates; each figure as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bandanna.figures.axes import colour_of, power, save_both
from bandanna.figures.regret import plot_regret
from bandanna.papers.common.curve import Curve
from bandanna.papers.common.scaling import Rate, across
from bandanna.simulation.result import Result


def draw_panels(
    curves: Iterable[Curve],
    stem: Path,
    *,
    name: str = "",
    title: str,
    label: str = "{algorithm}",
    log: bool = False,
    over: str = "rounds",
    up: str = "regret",
) -> list[Path]:
    """One figure, stem-name, of all curves whose names are the same; what has no result is left out.

    `name`, `title` and `label` are formats of what a curve shows; the epsilon of what ran stands behind the label.
    """
    panels: dict[tuple[str, str], dict[str, Result]] = {}
    for curve in curves:
        if curve.result is not None:
            key, words, end = (text.format(**curve.shown) for text in (name, title, label))
            end = ", ".join(part for part in (end, curve.result.guarantee.brief()) if part)
            panels.setdefault((key, words[:1].upper() + words[1:]), {})[end] = curve.result
    paths = []
    for (key, words), panel in panels.items():
        figure = plot_regret(panel, title=words, log=log)
        figure.axes[0].set_xlabel(over)
        figure.axes[0].set_ylabel(up)
        paths += save_both(figure, with_end(stem, key))
    return paths


def with_end(stem: Path, name: str) -> Path:
    """stem-name, or the stem where there is no name."""
    return stem.with_name(f"{stem.name}-{name}") if name else stem


def draw_rates(rates: Sequence[Rate], stem: Path, *, title: str, label: str) -> list[Path]:
    """Final regret against the horizon, logarithmic, with epsilon of what ran and fitted slopes; dashed: theorems'."""
    horizons = [[point.row["horizon"] for point in rate.points] for rate in rates]
    drawn = {
        ", ".join(
            part
            for part in (label.format(**rate.summary), rate.epsilon, f"slope {rate.slope:.2f} ({rate.theory:g})")
            if part
        ): across(rounds, rate.points)
        for rate, rounds in zip(rates, horizons, strict=True)
    }
    figure = plot_regret(drawn, title=f"{title} (in brackets: the theorem)", log=True)
    axes = figure.axes[0]
    for index, (rate, rounds) in enumerate(zip(rates, horizons, strict=True)):
        means = [point.row["mean"] for point in rate.points]
        axes.plot(rounds, means, color=colour_of(index), linestyle="", marker="o", markersize=6)
        ideal = means[0] * (np.array(rounds) / rounds[0]) ** rate.theory  # from the first point on
        axes.plot(rounds, ideal, color=colour_of(index), linestyle=(0, (4, 3)), linewidth=1.2)
    axes.set_xlabel("horizon (each point: runs of their own; dashed: the theorem's slope)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: power(value, 10))
    return save_both(figure, stem)
