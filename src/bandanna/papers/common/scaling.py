"""Rates: how something grows, regret with the horizon or noise with the number of users, beside what a theorem says.

Each point is a run of its own, since noise, batches and radius depend on the horizon. The slope is the least-squares
fit to the logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.experiments.workers import Progress
from bandanna.papers.common.curve import Curve, Row, ending
from bandanna.papers.common.gather import gather
from bandanna.simulation.result import Result


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
    regret: Callable[..., Result], lines: Sequence[Line], *, n_seeds: int, seed: int, jobs: int, progress: Progress
) -> list[Rate]:
    """`regret(**arguments, horizon=, n_seeds=, seed=)` for every line and horizon."""
    shared = {"n_seeds": require.whole("seeds", n_seeds), "seed": seed}
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
