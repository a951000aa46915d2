"""Figures without pyplot or global state: regret over time, bounds, panels, and reward against epsilon."""

from __future__ import annotations

import importlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument, MissingExtra
from bandanna.policies.regret_bounds import BoundCurve
from bandanna.storage.files import replace_file
from bandanna.types import Floats, Ints

# Okabe and Ito's colours, told apart with every common colour blindness; without yellow, which is faint on white
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (1, 4)))
_EPSILON = re.compile(r"(?:, )?(?:epsilon|ε) [=≤] ([^,]+)")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_INK, _FAINT = "#333333", "#6B6B6B"
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 13,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bandanna",  # the same figure gives the same file
    "text.usetex": False,
}


def save_figure(figure: Any, path: str | PathLike[str]) -> None:
    """Save a matplotlib `Figure` as .png or .svg, atomically and reproducibly."""
    kind = _figure_format(path)
    paper: dict[str, Any] = {"format": kind[1:], "dpi": 160, "bbox_inches": "tight", "pad_inches": 0.2}
    paper |= {"facecolor": "white", "metadata": {"Date": None} if kind == ".svg" else None}
    with house_style():
        replace_file(path, lambda beside: figure.savefig(beside, **paper))


def save_both(figure: Any, stem: Path) -> list[Path]:
    """Save a figure as stem.png and stem.svg, and return both paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    for path in paths:
        save_figure(figure, path)
    return paths


def check_drawable(path: str | PathLike[str] | None = None, argument: str = "path") -> None:
    """Raise an error if the format of `path` is unknown or the extra `plot` is missing."""
    if path is not None:
        _figure_format(path, argument)
    matplotlib("")


def _figure_format(path: str | PathLike[str], argument: str = "path") -> str:
    return validation.one_of(f"suffix of {argument}", validation.path(argument, path).suffix.lower(), (".png", ".svg"))


def format_axis_number(value: float) -> str:
    """Format a number for an axis: 15,234, 12.3, 0.0456."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_power(value: float, base: int) -> str:
    """Format powers of the base as 10⁵, and other numbers plainly."""
    exponent = round(float(np.log(value) / np.log(base)))
    return f"{base}{format_exponent(exponent)}" if np.isclose(value, float(base) ** exponent) else f"{value:,.10g}"


def format_exponent(exponent: int) -> str:
    """Format an exponent in superscript: ⁻¹²."""
    return str(exponent).translate(_RAISED)


def house_style() -> Any:
    """Return a context in which figures have the library's fonts."""
    return matplotlib("").rc_context(_STYLE)


def make_axes(size: tuple[float, float], place: tuple[float, float, float, float]) -> tuple[Any, Any]:
    """Make a figure of a size in inches with axes at (left, bottom, width, height)."""
    figure = matplotlib("figure").Figure(figsize=size, layout=None)
    matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
    return figure, figure.add_axes(place)


def decorate_axes(axes: Any, title: str | None, note: str, *, across: str, up: str) -> None:
    """Draw axis names, a light grid, title and note."""
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


def colour_of(index: int) -> str:
    """Return the colour of curve number `index`."""
    return PALETTE[index % len(PALETTE)]


def choose_line_styles(labels: Sequence[str]) -> list[tuple[str, Any]]:
    """Return colour and dashes of each curve.

    In a sweep, each algorithm has a colour and each epsilon a line style.
    """
    found = [_EPSILON.search(label) for label in labels]
    budgets = ["" if each is None else each[1] for each in found]
    sizes = list(dict.fromkeys(filter(None, budgets)))
    if len(sizes) < 2:
        places = [(index, index // len(PALETTE)) for index in range(len(labels))]
    else:
        names = [_EPSILON.sub("", label) for label in labels]
        order = list(dict.fromkeys(names))
        styles = [sizes.index(budget) if budget else 0 for budget in budgets]
        places = [(order.index(name), style) for name, style in zip(names, styles, strict=True)]
    return [(colour_of(colour), DASHES[style % len(DASHES)]) for colour, style in places]


def label_ends(axes: Any, named: Sequence[tuple[str, float, float, str, bool]]) -> None:
    """Draw (text, x, y, colour, bold) to the right of the axes, moved apart where curves end close together."""
    gap = 18 / 72 / (axes.figure.get_figheight() * axes.get_position().height)  # one line of text, in axes heights
    data = axes.transData + axes.transAxes.inverted()
    ends = []
    for _, across, value, _, _ in named:
        x, y = data.transform((across, max(value, axes.get_ylim()[0])))
        ends.append((float(x), float(y)))
    for place, height in enumerate(_spread_apart([y for _, y in ends], gap)):
        text, _, _, colour, bold = named[place]
        x, y = ends[place]
        axes.plot(
            [x, max(x, 1.0) + 0.03], [y, height], transform=axes.transAxes, color=colour, linewidth=1, clip_on=False
        )
        style = {"color": colour, "fontweight": "bold" if bold else "normal", "va": "center", "clip_on": False}
        axes.text(max(x, 1.0) + 0.04, height, text, transform=axes.transAxes, parse_math=False, **style)


def _spread_apart(heights: Sequence[float], gap: float) -> Floats:
    """Move heights at least `gap` apart, by least squares and in order."""
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


def matplotlib(module: str, needed_for: str = "plotting") -> Any:
    """Import a module of matplotlib."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ImportError:
        raise MissingExtra("plot", needed_for) from None


@runtime_checkable
class RegretCurves(Protocol):
    """Data of `plot_regret`, such as a `Result`."""

    @property
    def checkpoints(self) -> Ints:
        """The recorded rounds as integers, (C,)."""

    @property
    def horizon(self) -> int:
        """The number of rounds simulated."""

    @property
    def n_seeds(self) -> int:
        """The number of independent runs."""

    @property
    def label(self) -> str:
        """The label used where no other is given."""

    @property
    def setting(self) -> dict[str, Any]:
        """Facts of policy and environment."""

    def mean(self) -> Floats:
        """Return the mean regret, (C,)."""

    def stderr(self) -> Floats:
        """Return the standard error, (C,); NaN for a single run."""

    def bounds(self) -> list[BoundCurve]:
        """Return the papers' bounds at every checkpoint."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundLine:
    """A bound of curve number `index`; a rate is drawn through the measured end."""

    index: int
    label: str
    rounds: Floats
    values: Floats
    side: str
    explicit: bool

    @property
    def text(self) -> str:
        return (
            f"{self.label}  {self.values[-1]:,.{0 if self.values[-1] >= 100 else 1}f}" if self.explicit else self.label
        )

    @property
    def dashes(self) -> Any:
        long, short = ((6, 2), (3, 2)) if self.explicit else ((1, 1.5), (1, 4))
        return (0, long if self.side == "upper" else short)


def bound_lines(curves: Sequence[tuple[str, RegretCurves]]) -> list[BoundLine]:
    """Return the bounds of all results; raise an error if there are none."""
    lines: list[BoundLine] = []
    for index, (_, result) in enumerate(curves):
        for curve in result.bounds():
            shown = np.isfinite(curve.values) & (curve.values > 0)
            values, rounds = curve.values[shown], result.checkpoints[shown].astype(float)
            if not curve.bound.explicit:
                end = float(result.mean()[-1])
                if end <= 0 or not len(values):
                    continue
                values = values * (end / values[-1])
            if len(values) and not _is_drawn(lines, curve.label, values):
                line: dict[str, Any] = {"index": index, "label": curve.label, "rounds": rounds, "values": values}
                lines.append(BoundLine(**line, side=curve.bound.side, explicit=curve.bound.explicit))
    if not lines:
        policies = sorted({str(result.setting.get("policy", "unknown")) for _, result in curves})
        raise InvalidArgument("bounds", True, "False", f"No regret bound is known for {', '.join(policies)}")
    return lines


def explain_lines(lines: Sequence[BoundLine]) -> str:
    """Return the note that explains the lines."""
    parts = []
    if any(line.side == "lower" for line in lines):
        parts.append("lower bounds: for the worst instance")
    if any(not line.explicit for line in lines):
        parts.append("rates: scaled to the end")
    return "".join(f"; {part}" for part in parts)


def _is_drawn(lines: Sequence[BoundLine], label: str, values: Floats) -> bool:
    return any(each.label == label and np.array_equal(each.values, values) for each in lines)


# Panels


MAX_PANELS = 12  # panels of a figure
_ACROSS = 3
_WIDE, _HIGH = 5.2, 4.4  # inches of a panel
_TICKS = 8  # at measured values
_SPREAD = 4.0  # from the smallest to the largest: beyond it an axis is logarithmic


@dataclass(frozen=True, kw_only=True, eq=False)
class PanelLine:
    """Values with two standard errors to either side; one value everywhere if `across` is None."""

    across: Floats | None  # (n,)
    values: Floats  # (n,)
    spread: Floats  # (n,): two standard errors, NaN for one seed


def plot_panels(
    panels: Mapping[str, Mapping[str, PanelLine]],
    *,
    across: str,
    up: str = "regret",
    title: str | None = None,
    note: str = "",
    points: bool = False,
    log: bool = False,
) -> Any:
    """Draw panels side by side, with one colour for each name and one legend; needs the extra `plot`.

    `panels` maps the title of a panel to its lines by name. `points` draws bars instead of bands.
    """
    if not 1 <= len(panels) <= MAX_PANELS:
        raise InvalidArgument("panels", len(panels), f"1 to {MAX_PANELS}", "Draw fewer, or use the table")
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    styles = dict(zip(names, choose_line_styles(names), strict=True))
    several = len(panels) > 1
    columns = 2 if len(panels) in (2, 4) else min(_ACROSS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with house_style():
        figure = matplotlib("figure").Figure(figsize=(_WIDE * columns, _HIGH * rows), layout="constrained")
        matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
        for place, (panel, lines) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, columns, place + 1)
            for name, line in lines.items():
                _draw_panel_line(axes, line, *styles[name], label=name, points=points)
            if log:
                _set_log_scales(axes, list(lines.values()))
            _set_ticks(axes)
            if points:
                _set_measured_ticks(axes, list(lines.values()))
            decorate_axes(axes, None if several else title, panel if several else note, across=across, up=up)
        if title and several:
            figure.suptitle(title, x=0.01, ha="left", fontsize=17, fontweight="bold", parse_math=False)
        _draw_legend(figure, names, note if several else None)
    return figure


def _draw_panel_line(axes: Any, line: PanelLine, colour: str, dashes: Any, *, label: str, points: bool) -> None:
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


def _set_log_scales(axes: Any, lines: list[PanelLine]) -> None:
    xs = np.concatenate([line.across for line in lines if line.across is not None] or [np.ones(1)])
    ys = np.concatenate([line.values for line in lines])
    for values, scale in ((xs, axes.set_xscale), (ys, axes.set_yscale)):
        if np.all(values > 0) and values.max() >= _SPREAD * values.min():
            scale("log")


def _set_ticks(axes: Any) -> None:
    ticker = matplotlib("ticker")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: format_axis_number(value)))
        if axis.get_scale() == "log":
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
            axis.set_minor_formatter(ticker.NullFormatter())
        else:
            axis.set_major_locator(ticker.MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))


def _set_measured_ticks(axes: Any, lines: list[PanelLine]) -> None:
    measured = np.unique(np.concatenate([line.across for line in lines if line.across is not None] or [np.ones(1)]))
    if len(measured) <= _TICKS:
        axes.set_xticks(measured, [format_axis_number(value) for value in measured])
        axes.xaxis.set_minor_locator(matplotlib("ticker").NullLocator())


def _draw_legend(figure: Any, names: list[str], heading: str | None) -> None:
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    style = {"loc": "outside right center", "frameon": False, "fontsize": 11, "title_fontsize": 10}
    key = figure.legend([found[name] for name in names], names, title=heading, **style)
    for text in key.get_texts():
        text.set_parse_math(False)


# Regret


def plot_regret(
    results: RegretCurves | Mapping[str, RegretCurves] | Sequence[RegretCurves],
    path: str | PathLike[str] | None = None,
    *,
    title: str | None = None,
    log: bool = False,
    bounds: bool = False,
) -> Any:
    """Draw the mean regret of results with a band of two standard errors; needs the extra `plot`.

    Parameters
    ----------
    results : result, mapping or sequence
        A result, results by label, or a list of results.
    path : path, optional
        Where to save the figure, as .png or .svg.
    log : bool
        Make both axes logarithmic, so that a slope is a rate.
    bounds : bool
        Add the papers' bounds as thin lines, on logarithmic axes; rates, with unknown constants, through the measured
        end.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    curves = _label_results(results)
    log, bounds = validation.boolean("log", log), validation.boolean("bounds", bounds)
    if title is not None and not isinstance(title, str):
        raise InvalidArgument("title", title, "a string")
    check_drawable(path)
    with house_style():
        figure = _draw_regret(curves, title=title, log=log or bounds, lines=bound_lines(curves) if bounds else [])
    if path is not None:
        save_figure(figure, path)
    return figure


def _label_results(
    results: RegretCurves | Mapping[str, RegretCurves] | Sequence[RegretCurves],
) -> list[tuple[str, RegretCurves]]:
    allowed = "a Result of bd.simulate, or a list or a dict of results"
    if isinstance(results, RegretCurves):
        results = [results]
    given = (
        list(results.values()) if isinstance(results, Mapping) else validation.list_entries("results", results, allowed)
    )
    if not given or not all(isinstance(result, RegretCurves) for result in given):
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


def _draw_regret(
    curves: list[tuple[str, RegretCurves]], *, title: str | None, log: bool, lines: list[BoundLine]
) -> Any:
    figure, axes = make_axes((8.4, 5.2), (0.12, 0.13, 0.66, 0.72))
    styles = choose_line_styles([label for label, _ in curves])
    for (_, result), style in zip(curves, styles, strict=True):
        _draw_curve(axes, result, *style, log=log, shade=min(0.18, 0.8 / len(curves)))
    for line in lines:
        axes.plot(line.rounds, line.values, color=styles[line.index][0], linestyle=line.dashes, linewidth=1.2)
    _set_scales(axes, [result for _, result in curves], log=log, others=[line.values for line in lines])
    _decorate_regret(axes, [result for _, result in curves], title, note=explain_lines(lines))
    named = []
    for (label, result), (colour, _) in zip(curves, styles, strict=True):
        end = float(result.mean()[-1])
        named.append((f"{label}  {format_axis_number(end)}", result.horizon, end, colour, True))
    for line in lines:
        named.append((line.text, int(line.rounds[-1]), float(line.values[-1]), styles[line.index][0], False))
    label_ends(axes, named)
    return figure


def _draw_curve(axes: Any, result: RegretCurves, colour: str, dashes: Any, *, log: bool, shade: float) -> None:
    rounds, mean, spread = result.checkpoints.astype(float), result.mean(), 2 * result.stderr()
    if not log:  # every run begins at nothing
        rounds, mean, spread = (np.concatenate([[0.0], values]) for values in (rounds, mean, spread))
    shown = mean > 0 if log else np.isfinite(mean)
    axes.plot(rounds[shown], mean[shown], color=colour, linestyle=dashes, linewidth=2.4, solid_capstyle="round")
    if result.n_seeds > 1:
        low, high = (mean - spread)[shown], (mean + spread)[shown]
        low = np.maximum(low, mean[shown] / 100) if log else low
        axes.fill_between(rounds[shown], low, high, color=colour, alpha=shade, linewidth=0)


def _set_scales(axes: Any, results: list[RegretCurves], *, log: bool, others: Sequence[Floats] = ()) -> None:
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


def _decorate_regret(axes: Any, results: list[RegretCurves], title: str | None, *, note: str = "") -> None:
    least, most = min(result.n_seeds for result in results), max(result.n_seeds for result in results)
    seeds = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    note = (f"mean of {seeds} seeds; band: ± 2 standard errors" if most > 1 else "one seed") + note
    decorate_axes(axes, title, note, across="rounds", up="regret")


# Reward against epsilon


def plot_rewards(rows: Sequence[Mapping[str, Any]], *, title: str | None = None) -> Any:
    """Draw reward against epsilon, a curve for each algorithm and privacy model, and return the `Figure`.

    Rows have algorithm, trust, epsilon, mean_reward and stderr. A row's `stated_epsilon` replaces epsilon.
    """
    with house_style():
        figure, axes = make_axes((10.5, 6.0), (0.09, 0.13, 0.6, 0.72))
        private = [row for row in rows if row["epsilon"] is not None]
        names = list(dict.fromkeys((row["algorithm"], row["trust"]) for row in private))
        axes.set_xscale("log")
        ends: list[tuple[str, float, float, str, bool]] = []
        sizes = sorted({row["epsilon"] for row in private}) or [1.0]
        axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
        for place, name in enumerate(names):
            curve = sorted(
                (row for row in private if (row["algorithm"], row["trust"]) == name), key=lambda row: row["epsilon"]
            )
            across = [row.get("stated_epsilon") or row["epsilon"] for row in curve]
            up = [row["mean_reward"] for row in curve]
            spread = [row["stderr"] or 0.0 for row in curve]
            colour = colour_of(place)
            axes.errorbar(across, up, yerr=spread, color=colour, marker="o", linewidth=2, capsize=3)
            ends.append((f"{name[0]}, {name[1]}", across[-1], up[-1], colour, True))
        for row in rows:
            if row["epsilon"] is None:
                axes.axhline(row["mean_reward"], color="#9A9A9A", linewidth=1, linestyle=(0, (4, 3)), zorder=0)
                without = "" if row["algorithm"] in ("best arm", "random") else ", no privacy"
                ends.append((f"{row['algorithm']}{without}", axes.get_xlim()[1], row["mean_reward"], "#6B6B6B", False))
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.minorticks_off()
        axes.margins(y=0.06)
        decorate_axes(axes, title, "mean reward ± standard error", across="true epsilon", up="reward of a round")
        label_ends(axes, ends)
    return figure
