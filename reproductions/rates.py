"""Rates: how something grows, regret with the horizon or noise with the number of users, beside what a theorem says.

Each point is a run of its own, since noise, batches and radius depend on the horizon. The slope is the least-squares
fit to the logarithms.

Regret in panels and rates are drawn here, each figure as PNG and as SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.experiments.executors import ProgressCallback
from bandanna.simulation.figures import colour_of, format_power, plot_regret, save_both
from bandanna.simulation.result import Result
from reproductions.figure import Curve, Row, ending, gather


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Points of one line: `arguments` say of what, `theory` is the exponent of its theorem; y against x."""

    arguments: Row
    theory: float
    points: tuple[Curve, ...]
    x: str = "horizon"
    y: str = "mean"

    @property
    def slope(self) -> float | None:
        """Of log y in log x; None where a y is not known."""
        pairs = [(point.row[self.x], point.row[self.y]) for point in self.points]
        if not all(y for _, y in pairs):
            return None
        logs = np.log(pairs)  # (points, 2)
        return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])

    @property
    def epsilon(self) -> str:
        """Of what ran, as figures show it: that of every point, or the largest; nothing without privacy."""
        stated = [point.guarantee for point in self.points if point.guarantee is not None and point.guarantee.brief()]
        briefs = [each.brief() for each in sorted(stated, key=lambda each: each.epsilon)]
        if len(set(briefs)) > 1:
            return briefs[-1].replace("=", "≤")
        return briefs[0] if briefs else ""

    @property
    def summary(self) -> Row:
        """Plain values for JSON: fitted slope and theory."""
        return {**self.arguments, "slope": self.slope, "theory": self.theory}


def across(marks: Sequence[float], curves: Sequence[Curve]) -> Result:
    """Final regrets with the marks in the place of the rounds, as one result that can be drawn."""
    results = [curve.result for curve in curves if curve.result is not None]
    regret = np.stack([result.final_regret for result in results], axis=1)  # (S, marks)
    return replace(results[0], checkpoints=np.array(marks), regret=regret)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A rate that is still to be found: its arguments, the theorem's exponent, the horizons."""

    arguments: Row
    theory: float
    horizons: tuple[int, ...]


def regrets_over(
    regret: Callable[..., Result],
    lines: Sequence[Line],
    *,
    n_seeds: int,
    seed: int,
    jobs: int,
    progress: ProgressCallback,
) -> list[Rate]:
    """`regret(**arguments, horizon=, n_seeds=, seed=)` for every line and horizon."""
    shared = {"n_seeds": validation.integer("seeds", n_seeds), "seed": seed}
    tasks = [{**line.arguments, "horizon": each, **shared} for line in lines for each in line.horizons]
    found = iter(gather(regret, tasks, jobs=jobs, progress=progress))
    return [
        Rate(
            arguments=line.arguments,
            theory=line.theory,
            points=tuple(
                Curve(row={**line.arguments, "horizon": result.horizon} | ending(result), result=result)
                for result in islice(found, len(line.horizons))
            ),
        )
        for line in lines
    ]


def rates_and_slopes(rates: Sequence[Rate]) -> dict[str, Any]:
    """All rows and slopes, for JSON."""
    return {"rows": [p.row for rate in rates for p in rate.points], "slopes": [rate.summary for rate in rates]}


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
        axis.set_major_formatter(lambda value, _: format_power(value, 10))
    return save_both(figure, stem)
