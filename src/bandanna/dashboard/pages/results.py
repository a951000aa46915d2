"""Results of an experiment: regret over time and against epsilon, what each curve promised, files to fetch."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard import charts
from bandanna.dashboard.charts import Line
from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.folder import kind_of, legend, page_of, two_errors
from bandanna.dashboard.pages.frame import numbers, part, table
from bandanna.dashboard.words import band, number

_FIGURE = "The figure that the experiment has drawn: mean regret over time of every curve."


def results(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The page."""
    return page_of(
        document,
        h.div(_over_time(document), _against_epsilon(document), class_="grid"),
        noun="Experiment",
        done=f"{number(document['blocks'])} blocks",
        rows=part("table", "Every curve", _table(document["rows"])) if document["rows"] else None,
        figure=_FIGURE,
        admin=admin,
    )


def _regret(point: dict[str, Any]) -> str:
    return band({"value": point["regret"], "half": two_errors(point)})


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
                (float(each["round"]), each["regret"], two_errors(each))
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
        Line(
            points=[(each["epsilon"], each["regret"], two_errors(each)) for each in group["points"]],
            kind=kind_of(place),
        )
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
