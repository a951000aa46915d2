"""Figures of an experiment: regret over time, and against what was varied; curves are named by what they guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.errors import InvalidArgument
from bandanna.experiments.experiment import Experiment, parts_of
from bandanna.figures.panels import MOST, Line, plot_panels
from bandanna.figures.regret import plot_regret
from bandanna.simulation.result import Result

_BUDGET = ("epsilon", "delta", "rho")  # asked for; a figure says what was given


def names(experiment: Experiment, results: Mapping[str, Result]) -> dict[str, str]:
    """What series are called in figures, by their labels: with the guarantee that was computed for what ran.

    Of several points it is the largest. Budgets that give one guarantee are told apart by what was asked for.
    """
    found: dict[str, str] = {}
    for series in experiment.series:
        promised = [results[curve.label].guarantee for curve in experiment.curves if curve.series is series]
        worst = max(promised, key=lambda each: each.epsilon).brief()
        sign = "=" if len({each.brief() for each in promised}) == 1 else "≤"
        kept = {key: value for key, value in series.varied.items() if key not in _BUDGET}
        name = ", ".join(part for part in (series.called, *parts_of(kept), worst.replace("=", sign)) if part)
        found[series.label] = name if name not in found.values() else f"{name} ({series.label})"
    return found


def over_time(experiment: Experiment, results: Mapping[str, Result]) -> Any:
    """Mean regret round by round, with two standard errors; a panel for every point of the grid."""
    panels: dict[str, dict[str, Result]] = {}
    called = names(experiment, results)
    for curve in experiment.curves:
        panel = panels.setdefault(", ".join(parts_of(curve.point.varied)), {})
        panel[called[curve.series.label]] = results[curve.label]
    if len(panels) == 1:
        return plot_regret(next(iter(panels.values())), title=experiment.title)
    lines = {
        panel: {
            name: Line(across=each.checkpoints.astype(float), values=each.mean(), spread=2 * each.stderr())
            for name, each in curves.items()
        }
        for panel, curves in panels.items()
    }
    return plot_panels(lines, across="rounds", title=experiment.title, note=_note(experiment))


def against(experiment: Experiment, results: Mapping[str, Result], key: str) -> Any:
    """Regret at the horizon against a setting that was varied: "epsilon" (of what ran), "horizon", "dim", ...

    A line for each series, a panel for each of the other settings of the world; what has no privacy is a dashed line
    against epsilon.
    """
    if key not in axes_of(experiment):
        allowed = f"a number that was varied: {', '.join(axes_of(experiment)) or 'this experiment has none'}"
        raise InvalidArgument("against", key, allowed)
    called = names(experiment, results)
    groups: dict[str, dict[str, list[tuple[float, Result]]]] = {}
    for curve in experiment.curves:
        result = results[curve.label]
        series = {name: value for name, value in curve.series.varied.items() if name not in (key, "delta")}
        if key == "epsilon":
            name, at = ", ".join([curve.series.called, *parts_of(series)]), result.guarantee.epsilon
        else:
            name, at = called[curve.series.label], float(curve.varied.get(key, np.inf))
        groups.setdefault(_rest(curve.point.varied, key), {}).setdefault(name, []).append((at, result))
    panels = {panel: {name: _line(found) for name, found in lines.items()} for panel, lines in groups.items()}
    return plot_panels(panels, across=key, title=experiment.title, note=_note(experiment), points=True, log=True)


def axes_of(experiment: Experiment) -> list[str]:
    """What was varied and is a number, with two values or more, and few enough panels beside it."""
    found: dict[str, set[float]] = {}
    for curve in experiment.curves:
        for key, value in curve.varied.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(key, set()).add(float(value))
    return [
        key
        for key, values in found.items()
        if len(values) > 1 and len({_rest(point.varied, key) for point in experiment.points}) <= MOST
    ]


def _rest(varied: Mapping[str, Any], key: str) -> str:
    return ", ".join(parts_of({name: value for name, value in varied.items() if name != key}))


def _line(found: list[tuple[float, Result]]) -> Line:
    """By growing x; what is at infinity holds everywhere."""
    ordered = sorted(found, key=lambda each: each[0])
    finite = [each for each in ordered if np.isfinite(each[0])]
    shown = finite or ordered
    return Line(
        across=np.array([at for at, _ in finite]) if finite else None,
        values=np.array([result.mean()[-1] for _, result in shown]),
        spread=np.array([2 * result.stderr()[-1] for _, result in shown]),
    )


def _note(experiment: Experiment) -> str:
    return f"mean of {experiment.seeds:,} seeds ± 2 standard errors" if experiment.seeds > 1 else "one seed"
