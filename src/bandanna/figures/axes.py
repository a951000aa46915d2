"""Axes in the style of the house, drawn without pyplot: no window, no global state; and how a figure is saved."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import MissingExtra
from bandanna.storage.whole import write_whole

# Okabe and Ito's colours, told apart with every common colour blindness; without yellow, which is faint on white
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)))  # one more style each time the colours are used up
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


def drawable(path: str | PathLike[str] | None = None, argument: str = "path") -> None:
    """Raise what drawing there would raise for want of a format or of the extra `plot`, before the work."""
    if path is not None:
        _kind(path, argument)
    matplotlib("")


def _kind(path: str | PathLike[str], argument: str = "path") -> str:
    """The format, from the file's name."""
    return require.one_of(f"suffix of {argument}", require.path(argument, path).suffix.lower(), (".png", ".svg"))


def number(value: float) -> str:
    """A few digits with thousands separators: 15,234, 12.3, 0.0456."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def power(value: float, base: int) -> str:
    """10⁵ for powers of the base, plain numbers between them."""
    exponent = round(float(np.log(value) / np.log(base)))
    return f"{base}{raised(exponent)}" if np.isclose(value, float(base) ** exponent) else f"{value:,.10g}"


def raised(exponent: int) -> str:
    """As an exponent: ⁻¹²."""
    return str(exponent).translate(_RAISED)


def styled() -> Any:
    """Within this context, what is drawn has the house's fonts."""
    return matplotlib("").rc_context(_STYLE)


def blank(size: tuple[float, float], place: tuple[float, float, float, float]) -> tuple[Any, Any]:
    """A figure of so many inches, and axes at (left, bottom, width, height) in it."""
    figure = matplotlib("figure").Figure(figsize=size, layout=None)
    matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
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


def colour_of(index: int) -> str:
    """Of curve number `index`."""
    return PALETTE[index % len(PALETTE)]


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


def matplotlib(module: str, needed_for: str = "plotting") -> Any:
    """A module of matplotlib, imported on first use."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ImportError:
        raise MissingExtra("plot", needed_for) from None
