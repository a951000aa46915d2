"""Figures of regret over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.figures.axes import (
    DASHES,
    PALETTE,
    blank,
    colour_of,
    drawable,
    furnish,
    label_ends,
    matplotlib,
    number,
    save_figure,
    styled,
)
from bandanna.figures.bounds import BoundLine, bound_lines, note_of
from bandanna.figures.curves import Drawable


def plot_regret(
    results: Mapping[str, Drawable] | Sequence[Drawable],
    path: str | PathLike[str] | None = None,
    *,
    title: str | None = None,
    log: bool = False,
    bounds: bool = False,
) -> Any:
    """Mean regret with a band of two standard errors for every result, labelled at the curve's end.

    Labels are the mapping's keys, or the results' names. `log` makes both axes logarithmic, so that a slope is a rate.
    `bounds` adds what the papers prove about each result as thin lines in its colour, on logarithmic axes: bounds whose
    constants are known as they are; rates, whose are not, through the measured end.
    Returns the matplotlib `Figure`, and saves it if there is a `path` (.png or .svg). Needs the extra `plot`.
    """
    curves = _labelled(results)
    log, bounds = require.flag("log", log), require.flag("bounds", bounds)
    if title is not None and not isinstance(title, str):
        raise InvalidArgument("title", title, "a text")
    drawable(path)
    with styled():
        figure = _draw(curves, title=title, log=log or bounds, lines=bound_lines(curves) if bounds else [])
    if path is not None:
        save_figure(figure, path)
    return figure


def _labelled(results: Mapping[str, Drawable] | Sequence[Drawable]) -> list[tuple[str, Drawable]]:
    """Labels and results; equal names are numbered."""
    allowed = "at least one result of bd.simulate, in a list or a mapping"
    given = list(results.values()) if isinstance(results, Mapping) else require.several("results", results, allowed)
    if not given or not all(isinstance(result, Drawable) for result in given):
        raise InvalidArgument("results", results, allowed)
    if isinstance(results, Mapping):
        curves = [(str(label), result) for label, result in results.items()]
    else:
        results = given
        names = [result.label for result in results]
        seen: Counter[str] = Counter()
        curves = []
        for name, result in zip(names, results, strict=True):
            seen[name] += 1
            curves.append((f"{name} ({seen[name]})" if names.count(name) > 1 else name, result))
    return curves


def _draw(curves: list[tuple[str, Drawable]], *, title: str | None, log: bool, lines: list[BoundLine]) -> Any:
    figure, axes = blank((8.4, 5.2), (0.12, 0.13, 0.66, 0.72))
    for index, (_, result) in enumerate(curves):
        _curve(axes, result, index, log=log, shade=min(0.18, 0.8 / len(curves)))
    for line in lines:
        axes.plot(line.rounds, line.values, color=colour_of(line.index), linestyle=line.dashes, linewidth=1.2)
    _scales(axes, [result for _, result in curves], log=log, others=[line.values for line in lines])
    _furnish(axes, [result for _, result in curves], title, note=note_of(lines))
    _labels(axes, curves, lines)
    return figure


def _curve(axes: Any, result: Drawable, index: int, *, log: bool, shade: float) -> None:
    """The mean, and two standard errors to either side where they exist."""
    rounds, mean, spread = result.checkpoints.astype(float), result.mean(), 2 * result.stderr()
    if not log:  # every run begins at nothing
        rounds, mean, spread = (np.concatenate([[0.0], values]) for values in (rounds, mean, spread))
    shown = mean > 0 if log else np.isfinite(mean)
    colour, dashes = colour_of(index), DASHES[index // len(PALETTE) % len(DASHES)]
    axes.plot(rounds[shown], mean[shown], color=colour, linestyle=dashes, linewidth=2.4, solid_capstyle="round")
    if result.n_seeds > 1:
        low, high = (mean - spread)[shown], (mean + spread)[shown]
        low = np.maximum(low, mean[shown] / 100) if log else low
        axes.fill_between(rounds[shown], low, high, color=colour, alpha=shade, linewidth=0)


def _scales(axes: Any, results: list[Drawable], *, log: bool, others: Sequence[Floats] = ()) -> None:
    """Limits and ticks: thousands separators on both axes, nothing cut off, zero in sight."""
    ticker = matplotlib("ticker")
    horizon = max(result.horizon for result in results)
    tops = [result.mean() + (2 * result.stderr() if result.n_seeds > 1 else 0.0) for result in results]
    tops += list(others)
    means = np.concatenate([*(result.mean() for result in results), *others])
    top = float(np.nanmax(np.concatenate(tops), initial=0.0)) or 1.0
    if log and np.any(means > 0):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(min(int(result.checkpoints[0]) for result in results) / 1.05, horizon * 1.05)
        axes.set_ylim(float(np.min(means[means > 0])) / 1.5, top * 1.5)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            marks = (1.0,) if high >= 100 * low else (1.0, 2.0, 5.0)
            axis.set_major_locator(ticker.LogLocator(subs=marks, numticks=12))
            axis.set_minor_formatter(ticker.NullFormatter())
    else:
        low = min(0.0, float(np.nanmin(means)))
        axes.set_xlim(0, horizon)
        axes.set_ylim(low - 0.04 * (top - low) * (low < 0), top + 0.06 * (top - low))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10], integer=True))
        axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")))


def _furnish(axes: Any, results: list[Drawable], title: str | None, *, note: str = "") -> None:
    """Axis names, a light grid, and what the band means."""
    least, most = min(result.n_seeds for result in results), max(result.n_seeds for result in results)
    seeds = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    note = (f"mean of {seeds} seeds; band: ± 2 standard errors" if most > 1 else "one seed") + note
    furnish(axes, title, note, across="rounds", up="regret")


def _labels(axes: Any, curves: list[tuple[str, Drawable]], lines: Sequence[BoundLine] = ()) -> None:
    """Name and final value at the right end of every curve and line, moved apart where they end close together."""
    named = [
        (
            f"{label}  {number(float(result.mean()[-1]))}",
            result.horizon,
            float(result.mean()[-1]),
            colour_of(index),
            True,
        )
        for index, (label, result) in enumerate(curves)
    ]
    named += [(each.text, int(each.rounds[-1]), float(each.values[-1]), colour_of(each.index), False) for each in lines]
    label_ends(axes, named)
