"""Figures of regret over time, drawn without pyplot: no window, no global state."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.errors import InvalidArgument, MissingExtra
from bandanna.simulation.bound_lines import BoundLine, bound_lines, note_of
from bandanna.simulation.storage import write_whole

if TYPE_CHECKING:
    from bandanna.simulation.result import Result

Floats = NDArray[np.float64]

# Okabe and Ito's colours, told apart with every common colour blindness; without yellow, which is faint on white
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)))  # one more style each time the colours are used up
_INK, _FAINT = "#333333", "#6B6B6B"
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 13,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bandanna",  # the same figure gives the same file
    "text.usetex": False,
}


def plot_regret(
    results: Mapping[str, Result] | Sequence[Result],
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


def save_figure(figure: Any, path: str | PathLike[str]) -> None:
    """A matplotlib `Figure` as .png or .svg: whole or not at all, and the same figure as the same file."""
    kind = _kind(path)
    paper: dict[str, Any] = {"format": kind[1:], "dpi": 160, "bbox_inches": "tight", "pad_inches": 0.2}
    paper |= {"facecolor": "white", "metadata": {"Date": None} if kind == ".svg" else None}
    with styled():
        write_whole(path, lambda beside: figure.savefig(beside, **paper))


def save_both(figure: Any, stem: Path) -> list[Path]:
    """As stem.png and stem.svg, in a folder that is made if need be: where they are."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    for path in paths:
        save_figure(figure, path)
    return paths


def drawable(path: str | PathLike[str] | None = None) -> None:
    """Raise what drawing there would raise for want of a format or of the extra `plot`, before the work."""
    if path is not None:
        _kind(path)
    _matplotlib("")


def _kind(path: str | PathLike[str]) -> str:
    """The format, from the file's name."""
    return require.one_of("suffix of path", require.path("path", path).suffix.lower(), (".png", ".svg"))


def number(value: float) -> str:
    """A few digits with thousands separators: 15,234, 12.3, 0.0456."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _labelled(results: Mapping[str, Result] | Sequence[Result]) -> list[tuple[str, Result]]:
    """Labels and results; equal names are numbered."""
    from bandanna.simulation.result import Result  # which draws itself by this module

    allowed = "at least one result of bd.simulate, in a list or a mapping"
    given = list(results.values()) if isinstance(results, Mapping) else require.several("results", results, allowed)
    if not given or not all(isinstance(result, Result) for result in given):
        raise InvalidArgument("results", results, allowed)
    if isinstance(results, Mapping):
        curves = [(str(label), result) for label, result in results.items()]
    else:
        results = given
        names = [result.name or result.guarantee.trust for result in results]
        seen: Counter[str] = Counter()
        curves = []
        for name, result in zip(names, results, strict=True):
            seen[name] += 1
            curves.append((f"{name} ({seen[name]})" if names.count(name) > 1 else name, result))
    return curves


def _draw(curves: list[tuple[str, Result]], *, title: str | None, log: bool, lines: list[BoundLine]) -> Any:
    figure, axes = blank((8.4, 5.2), (0.12, 0.13, 0.66, 0.72))
    for index, (_, result) in enumerate(curves):
        _curve(axes, result, index, log=log, shade=min(0.18, 0.8 / len(curves)))
    for line in lines:
        axes.plot(line.rounds, line.values, color=_colour(line.index), linestyle=line.dashes, linewidth=1.2)
    _scales(axes, [result for _, result in curves], log=log, others=[line.values for line in lines])
    _furnish(axes, [result for _, result in curves], title, note=note_of(lines))
    _labels(axes, curves, lines)
    return figure


def styled() -> Any:
    """Within this context, what is drawn has the house's fonts."""
    return _matplotlib("").rc_context(_STYLE)


def blank(size: tuple[float, float], place: tuple[float, float, float, float]) -> tuple[Any, Any]:
    """A figure of so many inches, and axes at (left, bottom, width, height) in it."""
    figure = _matplotlib("figure").Figure(figsize=size, layout=None)
    _matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
    return figure, figure.add_axes(place)


def furnish(axes: Any, title: str | None, note: str, *, across: str, up: str) -> None:
    """Axis names, a light grid, title and note above."""
    axes.set_xlabel(across, color=_INK, labelpad=8)
    axes.set_ylabel(up, color=_INK, labelpad=8)
    axes.grid(True, which="major", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#A0A0A0")
    axes.tick_params(which="both", color="#A0A0A0", labelcolor=_INK, labelsize=12, length=4)
    above = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom", "parse_math": False}
    axes.annotate(note, (0, 1), (0, 8), fontsize=11, color=_FAINT, **above)
    if title:
        axes.annotate(title, (0, 1), (0, 27), fontsize=17, fontweight="bold", color=_INK, **above)


def _colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _curve(axes: Any, result: Result, index: int, *, log: bool, shade: float) -> None:
    """The mean, and two standard errors to either side where they exist."""
    rounds, mean, spread = result.checkpoints.astype(float), result.mean(), 2 * result.stderr()
    if not log:  # every run begins at nothing
        rounds, mean, spread = (np.concatenate([[0.0], values]) for values in (rounds, mean, spread))
    shown = mean > 0 if log else np.isfinite(mean)
    colour, dashes = _colour(index), _DASHES[index // len(PALETTE) % len(_DASHES)]
    axes.plot(rounds[shown], mean[shown], color=colour, linestyle=dashes, linewidth=2.4, solid_capstyle="round")
    if result.n_seeds > 1:
        low, high = (mean - spread)[shown], (mean + spread)[shown]
        low = np.maximum(low, mean[shown] / 100) if log else low
        axes.fill_between(rounds[shown], low, high, color=colour, alpha=shade, linewidth=0)


def _scales(axes: Any, results: list[Result], *, log: bool, others: Sequence[Floats] = ()) -> None:
    """Limits and ticks: thousands separators on both axes, nothing cut off, zero in sight."""
    ticker = _matplotlib("ticker")
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


def _furnish(axes: Any, results: list[Result], title: str | None, *, note: str = "") -> None:
    """Axis names, a light grid, and what the band means."""
    least, most = min(result.n_seeds for result in results), max(result.n_seeds for result in results)
    seeds = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    note = (f"mean of {seeds} seeds; band: ± 2 standard errors" if most > 1 else "one seed") + note
    furnish(axes, title, note, across="rounds", up="regret")


def _labels(axes: Any, curves: list[tuple[str, Result]], lines: Sequence[BoundLine] = ()) -> None:
    """Name and final value at the right end of every curve and line, moved apart where they end close together."""
    named = [
        (f"{label}  {number(float(result.mean()[-1]))}", result.horizon, float(result.mean()[-1]), _colour(index), True)
        for index, (label, result) in enumerate(curves)
    ]
    named += [(each.text, int(each.rounds[-1]), float(each.values[-1]), _colour(each.index), False) for each in lines]
    label_ends(axes, named)


def label_ends(axes: Any, named: Sequence[tuple[str, float, float, str, bool]]) -> None:
    """(text, x, y, colour, bold) to the right of the axes, moved apart where curves end close together."""
    gap = 18 / 72 / (axes.figure.get_figheight() * axes.get_position().height)  # one line of text, in axes heights
    data = axes.transData + axes.transAxes.inverted()
    ends = []
    for _, across, value, _, _ in named:
        x, y = data.transform((across, max(value, axes.get_ylim()[0])))
        ends.append((float(x), float(y)))
    for place, height in enumerate(_apart([y for _, y in ends], gap)):
        text, _, _, colour, bold = named[place]
        x, y = ends[place]
        axes.plot(
            [x, max(x, 1.0) + 0.03], [y, height], transform=axes.transAxes, color=colour, linewidth=1, clip_on=False
        )
        style = {"color": colour, "fontweight": "bold" if bold else "normal", "va": "center", "clip_on": False}
        axes.text(max(x, 1.0) + 0.04, height, text, transform=axes.transAxes, parse_math=False, **style)


def _apart(heights: Sequence[float], gap: float) -> Floats:
    """Heights near the wanted ones, in the same order, at least `gap` apart: least squares by pooling neighbours."""
    order = np.argsort(heights, kind="stable")
    blocks: list[tuple[float, int]] = []  # (mean of height minus rank * gap, members)
    for rank, index in enumerate(order):
        blocks.append((float(heights[index]) - rank * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, many), (first, few) = blocks.pop(), blocks.pop()
            blocks.append(((last * many + first * few) / (many + few), many + few))
    placed = np.repeat([centre for centre, _ in blocks], [members for _, members in blocks])
    result = np.empty(len(order))
    result[order] = placed + gap * np.arange(len(order))
    result -= max(0.0, float(np.max(result)) - 1)  # none above the axes,
    return result + max(0.0, -float(np.min(result)))  # none below


def _matplotlib(module: str, needed_for: str = "plotting") -> Any:
    """A module of matplotlib, imported on first use."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ImportError:
        raise MissingExtra("plot", needed_for) from None
