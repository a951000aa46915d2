"""Lines in panels side by side: one colour for each name, in all panels, and one key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.figures.axes import DASHES, PALETTE, colour_of, furnish, matplotlib, number, styled

MOST = 12  # panels of a figure
_ACROSS = 3
_WIDE, _HIGH = 5.2, 4.4  # inches of a panel
_TICKS = 8  # at measured values
_SPREAD = 4.0  # from the smallest to the largest: beyond it an axis is logarithmic


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Values with two standard errors to either side; `across` is None for one value that holds everywhere."""

    across: Floats | None  # (n,)
    values: Floats  # (n,)
    spread: Floats  # (n,): two standard errors, NaN for one seed


def plot_panels(
    panels: Mapping[str, Mapping[str, Line]],
    *,
    across: str,
    up: str = "regret",
    title: str | None = None,
    note: str = "",
    points: bool = False,
    log: bool = False,
) -> Any:
    """A matplotlib `Figure` with a panel for each name of `panels`, and its lines by their labels; needs `plot`.

    points  marks with bars instead of curves with bands
    log     logarithmic axes where values are positive and far apart
    """
    if not 1 <= len(panels) <= MOST:
        raise InvalidArgument("panels", len(panels), f"1 to {MOST} panels: draw fewer, or from the table")
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    several = len(panels) > 1
    columns = 2 if len(panels) in (2, 4) else min(_ACROSS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with styled():
        figure = matplotlib("figure").Figure(figsize=(_WIDE * columns, _HIGH * rows), layout="constrained")
        matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
        for place, (panel, lines) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, place + 1)
            for name, line in lines.items():
                _draw(axes, line, names.index(name), label=name, points=points)
            if log:
                _logarithmic(axes, list(lines.values()))
            _ticks(axes)
            if points:
                _marks(axes, list(lines.values()))
            furnish(axes, None if several else title, panel if several else note, across=across, up=up)
        if title and several:
            figure.suptitle(title, x=0.01, ha="left", fontsize=17, fontweight="bold", parse_math=False)
        _key(figure, names, note if several else None)
    return figure


def _draw(axes: Any, line: Line, index: int, *, label: str, points: bool) -> None:
    colour, dashes = colour_of(index), DASHES[index // len(PALETTE) % len(DASHES)]
    style = {"color": colour, "label": label, "linewidth": 2.0}
    spread = np.nan_to_num(line.spread)
    if line.across is None:
        axes.axhline(float(line.values[0]), linestyle=(0, (4, 3)), **style)
    elif points:
        axes.errorbar(line.across, line.values, yerr=spread, marker="o", capsize=3, linestyle=dashes, **style)
    else:
        axes.plot(line.across, line.values, linestyle=dashes, **style)
        axes.fill_between(
            line.across, line.values - spread, line.values + spread, color=colour, alpha=0.15, linewidth=0
        )


def _logarithmic(axes: Any, lines: list[Line]) -> None:
    """Each axis by itself."""
    xs = np.concatenate([line.across for line in lines if line.across is not None] or [np.ones(1)])
    ys = np.concatenate([line.values for line in lines])
    for values, scale in ((xs, axes.set_xscale), (ys, axes.set_yscale)):
        if np.all(values > 0) and values.max() >= _SPREAD * values.min():
            scale("log")


def _ticks(axes: Any) -> None:
    ticker = matplotlib("ticker")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value)))
        if axis.get_scale() == "log":
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
            axis.set_minor_formatter(ticker.NullFormatter())
        else:
            axis.set_major_locator(ticker.MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))


def _marks(axes: Any, lines: list[Line]) -> None:
    """Ticks where something was measured."""
    measured = np.unique(np.concatenate([line.across for line in lines if line.across is not None] or [np.ones(1)]))
    if len(measured) <= _TICKS:
        axes.set_xticks(measured, [number(value) for value in measured])
        axes.xaxis.set_minor_locator(matplotlib("ticker").NullLocator())


def _key(figure: Any, names: list[str], heading: str | None) -> None:
    """To the right of all panels, every name once."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    style = {"loc": "outside right center", "frameon": False, "fontsize": 11, "title_fontsize": 10}
    key = figure.legend([found[name] for name in names], names, title=heading, **style)
    for text in key.get_texts():
        text.set_parse_math(False)
