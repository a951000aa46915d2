"""Parts of a task's page that are drawn from releases: rewards, regret, what is learned, which arms are played."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard import charts
from bandanna.dashboard.charts import Line, Row
from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.frame import numbers, part, table
from bandanna.dashboard.words import band, number

_SHOWN = 12  # rows of the table behind a curve
_UNRELEASED = "How often each arm was played is not released."


def across(document: dict[str, Any]) -> str:
    """What a chart has from left to right: users, where all points know how many there were; else publications."""
    return "users" if all(each["users"] is not None for each in document["series"]) else "publication"


def curve(document: dict[str, Any], value: str, half: str | None = None) -> list[tuple[float, float, float | None]]:
    """A number over time."""
    key = across(document)
    return [
        (float(each[key]), each[value], each[half] if half else None)
        for each in document["series"]
        if each[value] is not None
    ]


def _over_time(document: dict[str, Any], name: str, caption: str, value: str) -> Node:
    """The table behind a curve: some of its points, all of which are in the page's twin."""
    known = [each for each in document["series"] if each[value] is not None]
    step = max(1, -(-len(known) // _SHOWN))
    rows = [
        (str(each["publication"]), number(each["users"]), band({"value": each[value], "half": each[f"{value}_half"]}))
        for each in known[::-step][::-1]
    ]
    return numbers(f"{name}-numbers", "The numbers", table(caption, ("publication", "users", caption), rows))


def reward(document: dict[str, Any]) -> Node:
    """Mean reward so far, with the noise of the releases as a band."""
    found, drawn = document["estimates"]["reward"], curve(document, "mean", "mean_half")
    if found["mean"] is None or not drawn:
        return part("reward", "Rewards", h.p(found["note"]))
    title, words = "Mean reward of a user so far", f"Mean reward of a user so far: {band(found['mean'])}."
    return part(
        "reward",
        "Rewards",
        charts.lines("reward-chart", title, words, [Line(points=drawn)], across=across(document)),
        h.p(words, " ", found["note"], " Band: two standard deviations of the noise."),
        _over_time(document, "reward", "mean reward so far", "mean"),
    )


def regret(document: dict[str, Any]) -> Node:
    """An estimate where there is one, and what was simulated before the task began."""
    found, drawn = document["estimates"]["regret"], curve(document, "regret", "regret_half")
    forecast = h.p(h.strong("Simulated before it began: "), document["forecast"])
    if found["sum"] is None or not drawn:
        return part("regret", "Regret", h.p(found["note"]), forecast)
    title, words = "Estimated regret so far", f"Estimated regret of all users so far: {band(found['sum'], 3)}."
    return part(
        "regret",
        "Regret",
        charts.lines("regret-chart", title, words, [Line(points=drawn, kind="two")], across=across(document)),
        h.p(words, " ", found["note"]),
        _over_time(document, "regret", "estimated regret", "regret"),
        forecast,
    )


def theta(document: dict[str, Any]) -> Node:
    """Parameters or means, and arms that are left."""
    found, left = document["estimates"]["theta"], document["estimates"]["left"]
    kept = None if left is None else h.p(f"Arms that may still be the best: {', '.join(left)}.")
    if not found["rows"]:
        return part("theta", "What is learned", kept or h.p("No parameter is published."))
    drawn = _named("theta", "Estimates", "Each estimate, and how far it may be off.", found, "parameter", bars=False)
    return part("theta", "What is learned", drawn, kept)


def plays(document: dict[str, Any]) -> Node:
    """How often each arm was played, as far as that is released or public."""
    found = document["estimates"]["plays"]
    if not found["rows"]:
        return part("plays", "Arms played", h.p(_UNRELEASED))
    title = "How often each arm was played"
    return part("plays", "Arms played", _named("plays", title, "A bar for each arm.", found, "arm", bars=True))


def _named(name: str, title: str, summary: str, found: dict[str, Any], column: str, *, bars: bool) -> Node:
    rows = [each for each in found["rows"] if each["value"] is not None]
    drawn = [Row(name=each["name"], value=each["value"], half=each["half"]) for each in rows]
    listed = table(title, (column, "estimate"), [(each["name"], band(each)) for each in rows])
    return [
        charts.rows(f"{name}-chart", title, summary, drawn, bars=bars),
        h.p(found["note"]),
        h.p(f"{number(found['more'])} more are not shown.") if found["more"] else None,
        numbers(f"{name}-numbers", "The numbers", listed),
    ]
