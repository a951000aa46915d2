"""What a page about a folder has, of an experiment or of a study: its frame, curves that can be told apart, files."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.markup import Element, Node, h
from bandanna.dashboard.pages.frame import frame, part, table
from bandanna.dashboard.words import number

_KINDS = ("one", "two", "three", "four", "five", "six")


def page_of(
    document: dict[str, Any], *parts: Node, noun: str, done: str, rows: Node, figure: str, admin: bool | None
) -> bytes:
    """The page of a folder; `done` is how much of it there is so far, `figure` says what its picture shows."""
    root = f"/results/{document['id']}"
    state = "finished" if document["finished"] else f"not finished: {done} are done"
    return frame(
        document["title"],
        h.h1(document["title"]),
        h.p(f"{noun} in ", h.code(document["folder"]), f", {state}."),
        h.p(document["wrong"], class_="bad") if document["wrong"] else None,
        *parts,
        rows,
        part("files", "Files", _files(document, root, figure)),
        twin=f"{root}.json",
        trail=[("Overview", "/")],
        admin=admin,
    )


def two_errors(point: dict[str, Any]) -> float | None:
    """Two standard errors: half of a band."""
    return None if point["stderr"] is None else 2 * point["stderr"]


def legend(names: list[str]) -> Element:
    """What curves are called, each with its own mark."""
    items = []
    for place, name in enumerate(names):
        mark = h.line(x1=0, x2=22, y1=6, y2=6, class_=f"curve {kind_of(place)}")
        items.append(h.li(h.svg(mark, viewBox="0 0 22 12", class_="key", aria_hidden="true"), " ", name))
    return h.ul(items, class_="legend")


def kind_of(place: int) -> str:
    """The class of a curve, by its place."""
    dashed = " dashed" if place // len(_KINDS) % 2 else ""
    return f"{_KINDS[place % len(_KINDS)]}{dashed}"


def _files(document: dict[str, Any], root: str, words: str) -> Node:
    """The figure, of which `words` say what it shows, and all files to fetch."""
    figure = next((each for each in document["files"] if each["name"] == "figure.png"), None)
    shown = None
    if figure is not None:
        shown = h.img(src=f"{root}/files/{figure['id']}", alt=words, class_="figure")
    rows = [(h.a(each["name"], href=f"{root}/files/{each['id']}"), number(each["bytes"])) for each in document["files"]]
    return [shown, table("Files to fetch", ("file", "bytes"), rows)] if rows else h.p("There are no files.")
