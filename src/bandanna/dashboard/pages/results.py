"""Results of an experiment: regret over time and against epsilon, what each curve promised, files to fetch."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard import charts
from bandanna.dashboard.charts import Line
from bandanna.dashboard.markup import Element, Node, h
from bandanna.dashboard.pages.frame import frame, numbers, part, table
from bandanna.dashboard.words import band, number

_FIGURE = "The figure that the experiment has drawn: mean regret over time of every curve."
_KINDS = ("one", "two", "three", "four", "five", "six")


def results(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The page."""
    root = f"/results/{document['id']}"
    state = "finished" if document["finished"] else f"not finished: {number(document['blocks'])} blocks are done"
    return frame(
        document["title"],
        h.h1(document["title"]),
        h.p("Experiment in ", h.code(document["folder"]), f", {state}."),
        h.p(document["wrong"], class_="bad") if document["wrong"] else None,
        h.div(_over_time(document), _against_epsilon(document), class_="grid"),
        part("table", "Every curve", _table(document["rows"])) if document["rows"] else None,
        part("files", "Files", files_of(document, root, _FIGURE)),
        twin=f"{root}.json",
        trail=[("Overview", "/")],
        admin=admin,
    )


def _off(point: dict[str, Any]) -> float | None:
    """Two standard errors."""
    return None if point["stderr"] is None else 2 * point["stderr"]


def _regret(point: dict[str, Any]) -> str:
    return band({"value": point["regret"], "half": _off(point)})


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


def _over_time(document: dict[str, Any]) -> Node:
    curves = document["curves_shown"]
    unread = (
        h.p(f"Not whole, and not shown: {', '.join(document['unread'])}.", class_="bad") if document["unread"] else None
    )
    if not curves:
        return part("regret", "Regret over time", h.p("No results yet."), unread)
    drawn = [
        Line(
            points=[
                (float(each["round"]), each["regret"], _off(each))
                for each in found["points"]
                if each["regret"] is not None
            ],
            kind=kind_of(place),
        )
        for place, found in enumerate(curves)
    ]
    ends = [(found["label"], found["points"][-1]) for found in curves if found["points"]]
    words = "; ".join(f"{label}: {number(end['regret'])} after {number(end['round'])} rounds" for label, end in ends)
    rows = [(label, number(end["round"]), _regret(end)) for label, end in ends]
    return part(
        "regret",
        "Regret over time",
        charts.lines("regret-chart", "Mean regret over time", words, drawn, across="rounds"),
        legend([found["label"] for found in curves]),
        h.p("Mean over the seeds; band: two standard errors."),
        numbers("regret-numbers", "The numbers", table("Regret at the end", ("curve", "rounds", "regret"), rows)),
        unread,
    )


def _against_epsilon(document: dict[str, Any]) -> Node:
    groups = document["by_epsilon"]
    if not groups:
        return None
    drawn = [
        Line(points=[(each["epsilon"], each["regret"], _off(each)) for each in group["points"]], kind=kind_of(place))
        for place, group in enumerate(groups)
    ]
    rows = [(group["group"], number(each["epsilon"]), _regret(each)) for group in groups for each in group["points"]]
    columns = ("algorithm", "epsilon", "regret")
    words = "; ".join(f"{name}, epsilon {epsilon}: {regret}" for name, epsilon, regret in rows[:20])
    return part(
        "epsilon",
        "Regret against epsilon",
        charts.lines("epsilon-chart", "Regret at the end against epsilon", words, drawn, across="epsilon", log=True),
        legend([group["group"] for group in groups]),
        h.p(
            "Curves that differ in their budget alone; epsilon is what is really guaranteed. Band: two standard errors."
        ),
        numbers("epsilon-numbers", "The numbers", table("Regret against epsilon", columns, rows)),
    )


def _table(rows: list[dict[str, Any]]) -> Node:
    cells = [
        (
            row["label"],
            band({"value": row["mean"], "half": row["stderr"]}),
            number(row["median"]),
            "none" if row["epsilon"] is None else number(row["epsilon"]),
            number(row["delta"]),
            row["trust"],
            number(row["n_seeds"]),
            number(row["horizon"]),
            number(row["bits_per_user"]),
        )
        for row in rows
    ]
    columns = ("curve", "regret \u00b1 s.e.", "median", "epsilon", "delta", "trust", "seeds", "rounds", "bits/user")
    return table("Regret at the end, and what was promised", columns, cells, left=(0, 5))


def files_of(document: dict[str, Any], root: str, words: str) -> Node:
    """The figure, of which `words` say what it shows, and all files to fetch."""
    figure = next((each for each in document["files"] if each["name"] == "figure.png"), None)
    shown = None
    if figure is not None:
        shown = h.img(src=f"{root}/files/{figure['id']}", alt=words, class_="figure")
    rows = [(h.a(each["name"], href=f"{root}/files/{each['id']}"), number(each["bytes"])) for each in document["files"]]
    return [shown, table("Files to fetch", ("file", "bytes"), rows)] if rows else h.p("There are no files.")
