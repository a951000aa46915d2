"""A study: reward against epsilon on real data, beside what is earned without privacy, and files to fetch."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard import charts
from bandanna.dashboard.charts import Line
from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.folder import kind_of, legend, page_of, two_errors
from bandanna.dashboard.pages.frame import numbers, part, table
from bandanna.dashboard.words import band, number

_FIGURE = "The figure that the study has drawn: reward against epsilon, a curve for each trust model."


def study(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The page."""
    return page_of(
        document,
        _against_epsilon(document),
        noun="Study",
        done=f"{number(len(document['rows']))} rows",
        rows=part("table", "Every row", _table(document["rows"])) if document["rows"] else None,
        figure=_FIGURE,
        admin=admin,
    )


def _reward(point: dict[str, Any]) -> str:
    return band({"value": point["reward"], "half": two_errors(point)}, 3)


def _against_epsilon(document: dict[str, Any]) -> Node:
    curves, levels = document["curves_shown"], document["levels"]
    if not curves:
        return part("reward", "Reward against epsilon", h.p("No private rows yet."))
    drawn = [
        Line(
            points=[(each["epsilon"], each["reward"], two_errors(each)) for each in curve["points"]],
            kind=kind_of(place),
        )
        for place, curve in enumerate(curves)
    ]
    ends = [point["epsilon"] for curve in curves for point in curve["points"]]
    drawn += [
        Line(points=[(end, each["reward"], None) for end in (min(ends), max(ends))], kind="level") for each in levels
    ]
    rows = [(curve["group"], number(each["epsilon"]), _reward(each)) for curve in curves for each in curve["points"]]
    rows += [(f"{each['name']}, no privacy", "\u2013", _reward(each)) for each in levels]
    words = "; ".join(f"{name}, epsilon {epsilon}: {reward}" for name, epsilon, reward in rows[:20])
    columns = ("algorithm and trust model", "epsilon", "reward")
    without = ", ".join(f"{each['name']} ({number(each['reward'], 3)})" for each in levels)
    return part(
        "reward",
        "Reward against epsilon",
        charts.lines("reward-chart", "Mean reward against epsilon", words, drawn, across="epsilon", log=True),
        legend([curve["group"] for curve in curves]),
        h.p(f"Level lines, without privacy: {without}.") if without else None,
        h.p("Mean over the seeds; epsilon is what is really guaranteed. Band: two standard errors."),
        numbers("reward-numbers", "The numbers", table("Reward against epsilon", columns, rows)),
    )


def _table(rows: list[dict[str, Any]]) -> Node:
    cells = [
        (
            row["algorithm"],
            row["trust"],
            "none" if row["epsilon"] is None else number(row["epsilon"]),
            "\u2013" if row["epsilon"] is None else number(row["stated_epsilon"]),
            band({"value": row["mean_reward"], "half": row["stderr"]}, 3),
            number(row["n_seeds"]) if row["n_seeds"] else "\u2013",
            number(row["accepted"]),
            number(row["horizon"]),
        )
        for row in rows
    ]
    columns = ("algorithm", "trust", "epsilon", "true", "reward \u00b1 s.e.", "seeds", "accepted", "events or rounds")
    return table("Mean rewards, and what was promised", columns, cells, left=(0, 1))
