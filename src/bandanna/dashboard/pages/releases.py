"""A page of a task's history, and a publication's own."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.frame import fact, frame, part, pill, short, table
from bandanna.dashboard.words import band, number


def releases(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """Newest first."""
    root = f"/tasks/{document['id']}"
    rows = [
        (
            h.a(str(each["number"]), href=f"{root}/releases/{each['number']}"),
            each["outcome"],
            str(each["epoch"]),
            str(each["round"]),
            number(each["spent"]),
            each["status"],
            short(each["chain"]),
        )
        for each in document["rows"]
    ]
    columns = ("publication", "outcome", "batch", "round", "epsilon spent", "status", "chain")
    meanings = [h.li(h.strong(name), f": {words}.") for name, words in document["meanings"].items()]
    return frame(
        f"Releases of {document['title']}",
        h.h1("Releases"),
        part(
            "lines",
            "Publications",
            table("Publications, newest first", columns, rows, left=(0, 1, 5, 6)),
            _pages(document, root),
        ),
        part("meanings", "What became of a batch", h.ul(meanings)),
        twin=f"{root}/releases.json?page={document['page']}",
        trail=[("Overview", "/"), (document["title"], root)],
        admin=admin,
    )


def _pages(document: dict[str, Any], root: str) -> Node:
    page, pages = document["page"], document["pages"]
    newer = h.a("Newer", href=f"{root}/releases?page={page - 1}", rel="prev") if page > 1 else None
    older = h.a("Older", href=f"{root}/releases?page={page + 1}", rel="next") if page < pages else None
    return h.nav(newer, h.span(f"Page {number(page)} of {number(pages)}"), older, aria_label="Pages", class_="pages")


def release(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """What was released, with its noise."""
    root, own = f"/tasks/{document['id']}", document["own"]
    place, newest = document["publication"], document["newest"]
    spent = f"{document['spent']:.4g}" if isinstance(document["spent"], int | float) else "\u2013"
    around = h.nav(
        h.a("The one before", href=f"{root}/releases/{place - 1}", rel="prev") if place > 0 else None,
        h.span(f"Publication {number(place)}"),
        h.a("The next", href=f"{root}/releases/{place + 1}", rel="next") if place < newest else None,
        aria_label="Publications",
        class_="pages",
    )
    return frame(
        f"Publication {place} of {document['title']}",
        h.h1(f"Publication {place}"),
        around,
        part(
            "said",
            "What it says",
            h.dl(
                fact("Status", pill(document["status"])),
                fact("Awaited batch", f"{document['epoch']}, round {document['round']}"),
                fact("Epsilon spent", spent, f"of {document['budget']}"),
                fact("Users in releases", number(document["users"])),
                class_="facts",
            ),
            h.p("Signed by the task's analyzer, and checked. Chain: ", h.code(document["chain"])),
            h.p("It follows upon: ", h.code(document["previous"])) if document["previous"] else None,
        ),
        part("own", "What the batch before it has added", *_own(own, document)),
        part("sums", "Sums so far", _sums(document)),
        part("theta", "Estimates", *_listed(document["theta"], "parameter", "Estimates", document["left"])),
        part("plays", "Arms played", *_listed(document["plays"], "arm", "How often each arm was played", None)),
        twin=f"{root}/releases/{place}.json",
        trail=[("Overview", "/"), (document["title"], root), ("Releases", f"{root}/releases")],
        admin=admin,
    )


def _own(own: dict[str, Any] | None, document: dict[str, Any]) -> list[Node]:
    if own is None:
        return [h.p("Not known: nothing was released before it, or it does not follow from what is published.")]
    words = f"{number(own['users'])} users."
    if own["reward"] is None:
        return [h.p(words, " ", document["reward"]["note"])]
    return [h.p(words, f" Sum of their rewards: {band(own['reward'])}, off by two standard deviations of the noise.")]


def _sums(document: dict[str, Any]) -> Node:
    rows = [
        (name, band(found["sum"], 5), found["note"])
        for name, found in (("rewards", document["reward"]), ("estimated regret", document["regret"]))
    ]
    return table("Sums so far", ("of", "sum", "how it is known"), rows, left=(0, 2))


def _listed(found: dict[str, Any], column: str, title: str, left: list[str] | None) -> list[Node]:
    kept = None if left is None else h.p(f"Arms that may still be the best: {', '.join(left)}.")
    if not found["rows"]:
        return [kept or h.p("None are published.")]
    rows = [(each["name"], band(each)) for each in found["rows"]]
    return [h.p(found["note"]), table(title, (column, "estimate"), rows), kept]
