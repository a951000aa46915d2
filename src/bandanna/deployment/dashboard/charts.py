"""Geometry of the dashboard's charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

WIDTH, HEIGHT = 440.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 24.0, 12.0, 40.0
_ROW = 26.0  # height of a row of bars
_NAME_LENGTH = 22  # characters of a row's name
_CHARACTER = 8.0  # largest width of a character
_TICKS = 5
_DRAWN = 48  # batches of a level that are drawn one by one


class Shape(NamedTuple):
    """An SVG element with attributes and text."""

    tag: str
    attributes: dict[str, Any]
    text: str = ""


class Point(NamedTuple):
    """A point of a curve, with its uncertainty in y or None."""

    x: float
    y: float
    half: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points in order of x; `kind` is a class of the style sheet, `steps` holds a value until the next point."""

    points: Sequence[Point]
    kind: str
    steps: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The shapes of a chart, its height, and texts for screen readers. `name` is unique on a page."""

    name: str
    title: str
    summary: str
    height: float
    shapes: Sequence[Shape]
    width: float = WIDTH


def draw_history(name: str, title: str, summary: str, series: list[dict[str, Any]], value: str, kind: str) -> Chart:
    """Return a curve of a number over all publications, with the noise as a band."""
    axis, points = _list_points(series, value)
    return draw_curves(name, title, summary, [Curve(points=points, kind=kind)], axis=axis)


def draw_spending(name: str, summary: str, series: list[dict[str, Any]], budget: float | None) -> Chart | None:
    """Return the spent epsilon as steps with the budget as a dashed line, or None below two points."""
    axis, points = _list_points(series, "spent")
    if len(points) < 2:
        return None
    curves = [Curve(points=points, kind="three", steps=True)]
    if budget:
        curves.append(Curve(points=[Point(end.x, budget) for end in (points[0], points[-1])], kind="limit"))
    return draw_curves(name, "Epsilon spent per user, and the budget", summary, curves, axis=axis)


def _list_points(series: list[dict[str, Any]], value: str) -> tuple[str, list[Point]]:
    """Return the x axis (users if known, else publications) and the known points."""
    axis = "users" if all(each["users"] is not None for each in series) else "publication"
    known = [each for each in series if each[value] is not None]
    return axis, [Point(float(each[axis]), each[value], each.get(f"{value}_half")) for each in known]


def draw_curves(name: str, title: str, summary: str, curves: Sequence[Curve], *, axis: str) -> Chart:
    """Return curves with bands over a grid."""
    xs = [point.x for curve in curves for point in curve.points]
    across = _Scale(min(xs), max(xs), _LEFT, WIDTH - _RIGHT)
    ticks = choose_ticks(*_find_range(curves))
    up = _Scale(ticks[0], ticks[-1], HEIGHT - _BOTTOM, _TOP, cut=True)
    shapes: list[Shape] = []
    for tick in ticks:
        grid = "zero" if tick == 0 else "grid"
        shapes += [
            _line(_LEFT, up(tick), WIDTH - _RIGHT, up(tick), grid),
            _text(_format_tick(tick), _LEFT - 6, up(tick) + 4, "end", "tick"),
        ]
    ends = [across.low] if across.single else choose_ticks(across.low, across.high, whole=True)
    shown = [tick for tick in ends if across.low - 1e-9 <= tick <= across.high + 1e-9]
    base = HEIGHT - _BOTTOM
    shapes += [_text(_format_tick(tick), across(tick), base + 16, "middle", "tick") for tick in shown]
    shapes.append(_text(axis, WIDTH - _RIGHT, base + 33, "end", "axis"))
    for curve in curves:
        placed = [Point(across(point.x), point.y, point.half) for point in curve.points]
        shapes += [*_draw_band(placed, up, curve.kind), _draw_curve(placed, up, curve)]
    return Chart(name=name, title=title, summary=summary, height=HEIGHT, shapes=shapes)


def _find_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the range of all values, and of the bands after the first quarter."""
    ends = [point.y for curve in curves for point in curve.points]
    for curve in curves:
        for point in curve.points[len(curve.points) // 4 :]:
            ends += [point.y - (point.half or 0.0), point.y + (point.half or 0.0)]
    return min(ends), max(ends)


def _draw_band(placed: Sequence[Point], up: _Scale, kind: str) -> Iterator[Shape]:
    known = [(x, y, half) for x, y, half in placed if half is not None]
    if len(known) < 2:
        for x, y, half in known:
            yield _line(x, up(y - half), x, up(y + half), "whisker")
        return
    over = " L".join(f"{x:g} {up(y + half):g}" for x, y, half in known)
    under = " L".join(f"{x:g} {up(y - half):g}" for x, y, half in reversed(known))
    yield Shape("path", {"d": f"M{over} L{under} Z", "class": f"band {kind}"})


def _draw_curve(placed: Sequence[Point], up: _Scale, curve: Curve) -> Shape:
    if len(placed) == 1:
        return Shape("circle", {"cx": placed[0].x, "cy": up(placed[0].y), "r": 4, "class": f"dot {curve.kind}"})
    corners = [(placed[0].x, placed[0].y)]
    for before, after in pairwise(placed):
        corners += [(after.x, before.y)] * curve.steps + [(after.x, after.y)]
    path = " ".join(f"{x:g},{up(y):g}" for x, y in corners)
    return Shape("polyline", {"points": path, "class": f"curve {curve.kind}"})


def draw_rows(name: str, title: str, rows: Sequence[dict[str, Any]], *, bars: bool) -> Chart | None:
    """Return one row for each named value (`name`, `value`, `half`), or None; `bars` from 0 are for counts."""
    if not rows:
        return None
    ends = [row["value"] + sign * (row["half"] or 0.0) for row in rows for sign in (-1, 1)]
    ticks = choose_ticks(0.0 if bars else min(0.0, *ends), max(0.0, *ends))
    left = max(_LEFT, 16 + _CHARACTER * min(_NAME_LENGTH, max(len(row["name"]) for row in rows)))
    scale = _Scale(ticks[0], ticks[-1], left, WIDTH - _RIGHT, cut=bars)
    bottom = _TOP + _ROW * len(rows)
    shapes: list[Shape] = []
    for tick in ticks:
        shapes += [
            _line(scale(tick), _TOP, scale(tick), bottom, "zero" if tick == 0 else "grid"),
            _text(_format_tick(tick), scale(tick), bottom + 18, "middle", "tick"),
        ]
    for place, row in enumerate(rows):
        y, label, value, half = _TOP + _ROW * (place + 0.5), row["name"], row["value"], row["half"]
        short = label if len(label) <= _NAME_LENGTH else label[: _NAME_LENGTH - 1] + "\u2026"
        shapes.append(_text(short, left - 8, y + 4, "end", "name"))
        if bars:
            begin, end = sorted((scale(0.0), scale(value)))
            shapes.append(_rectangle(begin, y - 7, end - begin, 14, "bar"))
        if half:
            low, high = scale(value - half), scale(value + half)
            shapes.append(_line(low, y, high, y, "whisker"))
            shapes += [_line(end, y - 4, end, y + 4, "whisker") for end in (low, high)]
        if not bars:
            shapes.append(Shape("circle", {"cx": scale(value), "cy": y, "r": 4, "class": "dot"}))
    summary = "One bar for each name." if bars else "One estimate with its uncertainty for each name."
    return Chart(name=name, title=title, summary=summary, height=bottom + 26, shapes=shapes)


def draw_tree(name: str, title: str, summary: str, levels: Sequence[dict[str, Any]]) -> Chart:
    """Return the levels from the top down; on each, the batches inside the one above."""
    shapes: list[Shape] = []
    left, width, step = 92.0, WIDTH - 92.0 - _RIGHT, 40.0
    for place, level in enumerate(levels):
        y = _TOP + step * place
        shapes.append(_text(f"level {level['level']}", left - 10, y + 15, "end", "name"))
        drawn = level["siblings"] <= _DRAWN  # else one box stands for all
        box = width / (level["siblings"] if drawn else 1)
        inner = box - min(2.0, box / 6)
        shares = [(level["beside"] + level["filled"]) / max(level["siblings"], 1)]
        if drawn:
            beside, siblings = level["beside"], level["siblings"]
            shares = ([1.0] * beside + [level["filled"]] + [0.0] * siblings)[:siblings]
        for number, share in enumerate(shares):
            x = left + box * number
            shapes.append(_rectangle(x, y, inner, 20, "box"))
            if share > 0:
                shapes.append(_rectangle(x, y, inner * min(share, 1.0), 20, "full" if share >= 1 else "filling"))
    return Chart(name=name, title=title, summary=summary, height=_TOP + step * len(levels), shapes=shapes)


def choose_ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Return round numbers from one below `low` to one above `high`; with `whole`, integers.

    >>> choose_ticks(0.0, 0.93)
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    >>> choose_ticks(1.0, 2.0, whole=True)
    [1, 2]
    """
    if not (math.isfinite(low) and math.isfinite(high)) or abs(low) > 1e200 or abs(high) > 1e200:
        return [0.0, 1.0]
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-9):
        pad = abs(high) / 2 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    step = max(1, round(step)) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


class _Scale:
    """Map numbers to places; `cut` moves places outside to the nearer end."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, cut: bool = False) -> None:
        self.single = high <= low
        self.low, self.high = low, high if high > low else low + 1.0
        self._begin, self._size = begin, (end - begin) / (self.high - self.low)
        self._ends = (min(begin, end), max(begin, end)) if cut else (-9999.0, 9999.0)

    def __call__(self, value: float) -> float:
        least, most = self._ends
        return round(min(max(self._begin + (value - self.low) * self._size, least), most), 1)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Shape:
    return Shape("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})


def _rectangle(x: float, y: float, width: float, height: float, kind: str) -> Shape:
    return Shape("rect", {"x": f"{x:g}", "y": y, "width": f"{max(width, 0.5):g}", "height": height, "class": kind})


def _text(text: str, x: float, y: float, anchor: str, kind: str) -> Shape:
    return Shape("text", {"x": x, "y": y, "text-anchor": anchor, "class": kind}, text)


def _format_tick(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.2g}".replace("e+0", "e").replace("e-0", "e\N{MINUS SIGN}")
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")
