"""HTML and SVG as values: a text is a text wherever it stands, and there is no way to write markup but by elements.

Refused are what a strict content policy refuses: inline scripts and styles, handlers in attributes, and addresses that
lead out of the site or begin with a scheme.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Node: TypeAlias = "Element | str | int | float | Iterable[Node] | None"

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_ADDRESSES = frozenset({"href", "src", "action", "data-events"})
_INSIDE = re.compile(r"/(?!/)[A-Za-z0-9._~/?=&-]*|\?[A-Za-z0-9._~=&-]*|#[A-Za-z0-9._~-]+")
_EMPTY = frozenset({"meta", "link", "input", "img", "br", "hr", "path", "line", "rect", "circle", "polyline"})
_FORBIDDEN = frozenset({"style", "base", "object", "embed", "iframe", "foreignObject", "use", "animate", "set"})
# Characters that a browser would obey, or that would turn the direction of what stands around them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


class Element:
    """A tag with attributes and what is inside it; made by `h`."""

    __slots__ = ("attributes", "children", "name")

    def __init__(self, name: str, children: tuple[Node, ...], attributes: dict[str, Any]) -> None:
        if not _NAME.fullmatch(name) or name in _FORBIDDEN:
            raise ValueError(f"{name} is no element that holds content and nothing that is obeyed")
        if (name == "script" or name in _EMPTY) and children:
            raise ValueError(f"{name} has no content: scripts are files")
        self.name, self.children = name, children
        self.attributes = {_attribute(key): value for key, value in attributes.items()}
        for key in _ADDRESSES & self.attributes.keys():
            if self.attributes[key] is not None and not _INSIDE.fullmatch(str(self.attributes[key])):
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
        pieces.append(escaped(node))
    elif isinstance(node, Element):
        pieces.append(f"<{node.name}")
        for name, value in node.attributes.items():
            if value is True:
                pieces.append(f" {name}")
            elif value is not None and value is not False:
                pieces.append(f' {name}="{escaped(_text(value))}"')
        pieces.append(">")
        if node.name not in _EMPTY:
            for child in node.children:
                _write(child, pieces)
            pieces.append(f"</{node.name}>")
        elif node.name in _DRAWN:
            pieces.append(f"</{node.name}>")
    elif isinstance(node, int | float):
        pieces.append(_text(node))
    else:
        for child in node:
            _write(child, pieces)


_DRAWN = frozenset({"path", "line", "rect", "circle", "polyline"})  # of SVG, where every element is closed


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else "-"
    return str(value)


def escaped(text: str) -> str:
    """As text, and as the value of an attribute."""
    return html.escape(_UNSEEN.sub("\ufffd", text), quote=True)


def page(root: Element) -> bytes:
    """A whole document."""
    return f"<!doctype html>\n{root}\n".encode("utf-8", errors="replace")
