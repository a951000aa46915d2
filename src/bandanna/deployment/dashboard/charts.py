"""Charts of curves and bars as SVG elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bandanna.deployment.dashboard.markup import Element, Node, h

WIDTH, HEIGHT = 440.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 24.0, 12.0, 40.0
_ROW = 26.0  # height of a row of bars
_LETTERS = 22  # of a row's name
_LETTER = 8.0  # width of one, at most
_TICKS = 5


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """x, y and how far y may be off (or None), in order; `kind` is a class of the stylesheet."""

    points: Sequence[tuple[float, float, float | None]]
    kind: str = "one"
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """A name, its number, and how far that may be off."""

    name: str
    value: float
    half: float | None


def draw_lines(name: str, title: str, summary: str, drawn: Sequence[ChartLine], *, across: str) -> Element:
    """Curves with bands. `name` is for ids, and unique on a page."""
    xs = [x for line in drawn for x, _, _ in line.points]
    if not xs:
        return h.p("Nothing to draw yet.", class_="quiet")
    across_scale = _Scale(min(xs), max(xs), _LEFT, WIDTH - _RIGHT)
    marks = choose_ticks(*_find_range(drawn))
    up = _Scale(marks[0], marks[-1], HEIGHT - _BOTTOM, _TOP, cut=True)
    body: list[Node] = [_draw_grid(marks, up), _draw_axis(across_scale, across)]
    for line in drawn:
        placed = [(across_scale(x), y, half) for x, y, half in line.points]
        body += [_draw_band(placed, up, line.kind), _draw_curve(placed, up, line.kind)]
    return _svg_element(name, title, summary, HEIGHT, body)


def draw_rows(name: str, title: str, summary: str, drawn: Sequence[ChartRow], *, bars: bool) -> Element:
    """One row for each name: a bar from 0, of a number that cannot be less, or a dot; with what it may be off."""
    if not drawn:
        return h.p("Nothing to draw yet.", class_="quiet")
    ends = [end for row in drawn for end in (row.value - (row.half or 0.0), row.value + (row.half or 0.0))]
    marks = choose_ticks(0.0 if bars else min(0.0, *ends), max(0.0, *ends))
    left = max(_LEFT, 16 + _LETTER * min(_LETTERS, max(len(row.name) for row in drawn)))
    scale = _Scale(marks[0], marks[-1], left, WIDTH - _RIGHT, cut=bars)
    bottom = _TOP + _ROW * len(drawn)
    body: list[Node] = [
        [h.line(x1=scale(mark), x2=scale(mark), y1=_TOP, y2=bottom, class_="zero" if mark == 0 else "grid"),
         h.text(_label(mark), x=scale(mark), y=bottom + 18, text_anchor="middle", class_="tick")]
        for mark in marks
    ]  # fmt: skip
    for place, row in enumerate(drawn):
        y = _TOP + _ROW * (place + 0.5)
        short = row.name if len(row.name) <= _LETTERS else row.name[: _LETTERS - 1] + "\u2026"
        body.append(h.text(short, x=left - 8, y=y + 4, text_anchor="end", class_="name"))
        if bars:
            begin, end = sorted((scale(0.0), scale(row.value)))
            body.append(h.rect(x=begin, y=y - 7, width=max(end - begin, 0.5), height=14, class_="bar"))
        if row.half:
            low, high = scale(row.value - row.half), scale(row.value + row.half)
            body.append(h.line(x1=low, x2=high, y1=y, y2=y, class_="whisker"))
            body += [h.line(x1=end, x2=end, y1=y - 4, y2=y + 4, class_="whisker") for end in (low, high)]
        if not bars:
            body.append(h.circle(cx=scale(row.value), cy=y, r=4, class_="dot"))
    return _svg_element(name, title, summary, bottom + 26, body)


def draw_tree(name: str, title: str, summary: str, levels: Sequence[dict[str, Any]]) -> Element:
    """Levels from the top down; on each, the batches of the one above that fills: full, filling, to come."""
    body: list[Node] = []
    left, width, step = 92.0, WIDTH - 92.0 - _RIGHT, 40.0
    for place, level in enumerate(levels):
        y = _TOP + step * place
        body.append(h.text(f"level {level['level']}", x=left - 10, y=y + 15, text_anchor="end", class_="name"))
        count = level["siblings"] if level["drawn"] else 1
        each = width / count
        gap = min(2.0, each / 6)
        for box in range(count):
            share = 1.0 if box < level["beside"] else level["filled"] if box == level["beside"] else 0.0
            if not level["drawn"]:
                share = (level["beside"] + level["filled"]) / max(level["siblings"], 1)
            x = left + each * box
            body.append(h.rect(x=x, y=y, width=max(each - gap, 0.5), height=20, class_="box"))
            if share > 0:
                filled = "full" if share >= 1 else "filling"
                body.append(h.rect(x=x, y=y, width=max((each - gap) * min(share, 1.0), 0.5), height=20, class_=filled))
    return _svg_element(name, title, summary, _TOP + step * len(levels), body)


def _find_range(drawn: Sequence[ChartLine]) -> tuple[float, float]:
    """All values, and bands where they are no longer as wide as in the beginning: there they may be cut off."""
    ends = [y for line in drawn for _, y, _ in line.points]
    for line in drawn:
        settled = line.points[len(line.points) // 4 :]
        ends += [end for _, y, half in settled for end in (y - (half or 0.0), y + (half or 0.0))]
    return min(ends), max(ends)


def choose_ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from one below the least to one above the largest; `whole`: of things that are counted.

    >>> ticks(0.0, 0.93)
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    >>> ticks(1.0, 2.0, whole=True)
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
    """From numbers to places; `cut`: what is beyond the ends is drawn at them."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, cut: bool = False) -> None:
        self.single = high <= low  # one number: one mark
        self.low, self.high = low, high if high > low else low + 1.0
        self._begin, self._size = begin, (end - begin) / (self.high - self.low)
        self._ends = (min(begin, end), max(begin, end)) if cut else (-9999.0, 9999.0)

    def __call__(self, value: float) -> float:
        """Where it is drawn, to a tenth of a point."""
        least, most = self._ends
        return round(min(max(self._begin + (value - self.low) * self._size, least), most), 1)


def _svg_element(name: str, title: str, summary: str, height: float, body: Sequence[Node]) -> Element:
    return h.svg(
        h.title(title, id=f"{name}-title"),
        h.desc(summary, id=f"{name}-desc"),
        *body,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_="chart",
    )


def _draw_grid(marks: Sequence[float], up: _Scale) -> Node:
    return [
        [
            h.line(x1=_LEFT, x2=WIDTH - _RIGHT, y1=up(mark), y2=up(mark), class_="zero" if mark == 0 else "grid"),
            h.text(_label(mark), x=_LEFT - 6, y=up(mark) + 4, text_anchor="end", class_="tick"),
        ]
        for mark in marks
    ]


def _draw_axis(scale: _Scale, label: str) -> Node:
    marks = choose_ticks(scale.low, scale.high, whole=True)
    shown = [mark for mark in marks if scale.low - 1e-9 <= mark <= scale.high + 1e-9]
    shown = [scale.low] if scale.single else shown
    y = HEIGHT - _BOTTOM
    return [
        [h.text(_label(mark), x=scale(mark), y=y + 16, text_anchor="middle", class_="tick")
         for mark in shown],
        h.text(label, x=WIDTH - _RIGHT, y=y + 33, text_anchor="end", class_="axis"),
    ]  # fmt: skip


def _draw_band(placed: Sequence[tuple[float, float, float | None]], up: _Scale, kind: str) -> Node:
    known = [(x, y, half) for x, y, half in placed if half is not None]
    if len(known) < 2:
        return [h.line(x1=x, x2=x, y1=up(y - half), y2=up(y + half), class_="whisker") for x, y, half in known]
    over = " L".join(f"{x:g} {up(y + half):g}" for x, y, half in known)
    under = " L".join(f"{x:g} {up(y - half):g}" for x, y, half in reversed(known))
    return h.path(d=f"M{over} L{under} Z", class_=f"band {kind}")


def _draw_curve(placed: Sequence[tuple[float, float, float | None]], up: _Scale, kind: str) -> Node:
    if len(placed) == 1:
        return h.circle(cx=placed[0][0], cy=up(placed[0][1]), r=4, class_=f"dot {kind}")
    return h.polyline(points=" ".join(f"{x:g},{up(y):g}" for x, y, _ in placed), class_=f"curve {kind}")


def _label(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.2g}".replace("e+0", "e").replace("e-0", "e\N{MINUS SIGN}")
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")
