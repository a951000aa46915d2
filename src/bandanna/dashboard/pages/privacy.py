"""Parts of a task's page about its promise: what was spent, who sees what, and the tree of batches."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard import charts
from bandanna.dashboard.charts import Line
from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.estimates import across, curve
from bandanna.dashboard.pages.frame import numbers, part, table
from bandanna.dashboard.words import number


def privacy(document: dict[str, Any]) -> Node:
    """The ledger against the budget, and the guarantee in sentences."""
    found = document["privacy"]
    spent, limit = found["spent"], found["epsilon"]
    told = isinstance(spent, int | float)
    words = f"The budget of one person: {found['budget']}."
    if told:
        words += f" Spent by whoever took part most, at most: epsilon = {spent:.4g}."
    often = "1 batch" if found["participations"] == 1 else f"{number(found['participations'])} batches"
    entries = "" if found["entries"] is None else f" Entries so far: {number(found['entries'])}."
    sight = [(each["role"], each["sees"], each["left"]) for each in found["sight"]]
    return part(
        "privacy",
        "Privacy",
        h.p(words, id="spent-words"),
        h.progress(f"{spent:.4g} of {limit:g}", max=limit, value=min(spent, limit), aria_labelledby="spent-words")
        if told and limit
        else None,
        h.p(f"A person is in at most {often}, and the ledger adds up what those cost.{entries}"),
        _spent(document, words, limit),
        h.h3("What is promised"),
        h.p(found["promise"] or "The document's own words are not shown: they could not be checked."),
        table("Who sees what", ("role", "sees", "left against it"), sight, left=(0, 1, 2)) if sight else None,
        _prices(found["prices"]),
    )


def _spent(document: dict[str, Any], words: str, limit: float | None) -> Node:
    drawn = curve(document, "spent")
    if len(drawn) < 2:
        return None
    lines = [Line(points=drawn, kind="three")]
    if limit:
        ends = drawn[0][0], drawn[-1][0]
        lines.append(Line(points=[(end, limit, None) for end in ends], kind="limit"))
    return [
        charts.lines("spent-chart", "Epsilon spent, and the budget", words, lines, across=across(document)),
        h.p("Line: epsilon spent; dashed: the budget.", class_="quiet") if limit else None,
    ]


def _prices(prices: list[dict[str, Any]]) -> Node:
    if not prices:
        return None
    rows = [(h.code(each["event"]), number(each["entries"])) for each in prices]
    return numbers("prices", "What was paid for", table("Prices in the ledger", ("event", "times"), rows))


def tree(document: dict[str, Any]) -> Node:
    """Of concurrent shufflers."""
    found = document["tree"]
    if found is None:
        return None
    full = [f"{number(each['full'])} of {number(each['batches'])}" for each in found["levels"]]
    levels = list(zip(found["levels"], full, strict=True))
    words = "; ".join(f"level {each['level']}: {many} batches are full" for each, many in levels)
    rows = [(str(each["level"]), number(each["users"]), many, f"{100 * each['filled']:.0f} %") for each, many in levels]
    title = "Batches of each level inside the one above that fills"
    return part(
        "tree",
        "Tree of batches",
        charts.tree("tree-chart", title, words, found["levels"]),
        h.p("Every user is in one batch of each level; those inside the batch above that fills are drawn."),
        h.p("Dark: full, and released. Lighter: it fills. Empty: to come."),
        table("Levels", ("level", "users in a batch", "full", "the next is filled by"), rows),
    )
