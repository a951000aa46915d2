"""HTML elements whose text cannot become markup, and numbers as text."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from bandanna.deployment.task.document import Task
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP

# Elements


Node: TypeAlias = "Element | str | int | float | Iterable[Node] | None"

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_ADDRESSES = frozenset({"href", "src", "action", "data-events"})
_LOCAL_ADDRESS = re.compile(r"/(?!/)[A-Za-z0-9._~/?=&-]*|\?[A-Za-z0-9._~=&-]*|#[A-Za-z0-9._~-]+")
_EMPTY = frozenset({"meta", "link", "input", "img", "br", "hr", "path", "line", "rect", "circle", "polyline"})
_FORBIDDEN = frozenset({"style", "base", "object", "embed", "iframe", "foreignObject", "use", "animate", "set"})
# Characters that a browser would obey, or that would turn the direction of what stands around them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


class Element:
    """A tag with attributes and what is inside it; made by `h`.

    Texts are escaped wherever they stand, and only elements write markup. What a strict content policy refuses is
    refused here: inline scripts and styles, handlers in attributes, and addresses that lead out of the site or begin
    with a scheme.
    """

    __slots__ = ("attributes", "children", "name")

    def __init__(self, name: str, children: tuple[Node, ...], attributes: dict[str, Any]) -> None:
        if not _NAME.fullmatch(name) or name in _FORBIDDEN:
            raise ValueError(f"{name} is no element that holds content and nothing that is obeyed")
        if (name == "script" or name in _EMPTY) and children:
            raise ValueError(f"{name} has no content: scripts are files")
        self.name, self.children = name, children
        self.attributes = {_attribute(key): value for key, value in attributes.items()}
        for key in _ADDRESSES & self.attributes.keys():
            if self.attributes[key] is not None and not _LOCAL_ADDRESS.fullmatch(str(self.attributes[key])):
                raise ValueError(f"{key} = {self.attributes[key]!r} is no address of this site")

    def __str__(self) -> str:
        pieces: list[str] = []
        _write(self, pieces)
        return "".join(pieces)


class _Tags:
    """`h.p("text", class_="note")`: an underscore stands for a hyphen, at the end for nothing."""

    def __getattr__(self, name: str) -> Callable[..., Element]:
        def made(*children: Node, **attributes: Any) -> Element:
            return Element(name, children, attributes)

        return made


h = _Tags()


def _attribute(name: str) -> str:
    plain = name.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(plain) or plain == "style" or plain.lower().startswith("on") or plain == "srcdoc":
        raise ValueError(f"{name} is no attribute: styles and handlers are not written here")
    return plain


def _write(node: Node, pieces: list[str]) -> None:
    if node is None or node is False:
        return
    if isinstance(node, str):
        pieces.append(escape_text(node))
    elif isinstance(node, Element):
        pieces.append(f"<{node.name}")
        for name, value in node.attributes.items():
            if value is True:
                pieces.append(f" {name}")
            elif value is not None and value is not False:
                pieces.append(f' {name}="{escape_text(_text(value))}"')
        pieces.append(">")
        if node.name not in _EMPTY:
            for child in node.children:
                _write(child, pieces)
            pieces.append(f"</{node.name}>")
        elif node.name in _SVG_SHAPES:
            pieces.append(f"</{node.name}>")
    elif isinstance(node, int | float):
        pieces.append(_text(node))
    else:
        for child in node:
            _write(child, pieces)


_SVG_SHAPES = frozenset({"path", "line", "rect", "circle", "polyline"})  # of SVG, where every element is closed


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else "-"
    return str(value)


def escape_text(text: str) -> str:
    """As text, and as the value of an attribute."""
    return html.escape(_INVISIBLE.sub("\ufffd", text), quote=True)


def render_document(root: Element) -> bytes:
    """A whole document."""
    return f"<!doctype html>\n{root}\n".encode("utf-8", errors="replace")


# Numbers as text


_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def format_number(value: Any, digits: int = 4) -> str:
    """A few significant digits, thousands set apart; a dash for what is not known.

    >>> number(0.99873), number(12345.6), number(3), number(None)
    ('0.9987', '12,346', '3', '–')
    """
    if type(value) is int:
        return f"{value:,}"
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return "\u2013"
    if abs(value) >= 10 ** (digits - 1):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}") if "e" not in text else text


def format_band(value: Mapping[str, Any] | None, digits: int = 4) -> str:
    """A number and how far it may be off."""
    if value is None or value["value"] is None:
        return "\u2013"
    if value["half"] is None:
        return format_number(value["value"], digits)
    return f"{format_number(value['value'], digits)} \u00b1 {format_number(value['half'], max(2, digits - 1))}"


def format_ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 11th.

    >>> ordinal(1), ordinal(12), ordinal(233)
    ('1st', '12th', '233rd')
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def format_duration(seconds: float) -> str:
    """In the largest unit that makes it a whole number.

    >>> duration(600), duration(90), duration(1), duration(0.5)
    ('10 minutes', '90 seconds', '1 second', '0.5 seconds')
    """
    for length, unit in _UNITS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count:,} {unit}{'s' * (count != 1)}"
    return f"{seconds:g} seconds"


def describe_closing(task: Task, slots: int) -> str:
    """When a batch of so many slots closes."""
    if task.content["close"] == "answered":
        return f"closes when all {slots:,} have answered (a test)"
    grace = float(task.content["grace"])
    return f"closes {f'{format_duration(grace)} after' if grace else 'with'} its {format_ordinal(slots)} slot"


def format_time(seconds: float | None) -> str | None:
    """A time of the clock, in UTC."""
    if seconds is None or not 0 <= seconds < 2e11:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def describe_budget(spends: Budget | None) -> tuple[str, float | None]:
    """In words, and its epsilon where it has one."""
    if isinstance(spends, ApproxDP):
        return f"epsilon = {spends.epsilon:g}, delta = {spends.delta:g}", _finite(spends.epsilon)
    if isinstance(spends, PureDP):
        return f"epsilon = {spends.epsilon:g}", _finite(spends.epsilon)
    if isinstance(spends, ZCDP):
        return f"{spends.rho:g}-zCDP", None
    return ("none: nothing is promised" if spends is None else str(spends)), None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
