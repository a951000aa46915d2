"""A task: how far it is, what was released of it, what that cost, and how its roles are."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.estimates import plays, regret, reward, theta
from bandanna.dashboard.pages.frame import counted, fact, frame, part, pill, short, table, warnings
from bandanna.dashboard.pages.privacy import privacy, tree
from bandanna.dashboard.words import band, number

_UNNAMED = (
    "The task was read from its analyzer, and addresses in it are no reason to call there: name those that you know"
    " (--ask ADDRESS), or give the task's own directory."
)


def task(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The page."""
    root = f"/tasks/{document['id']}"
    return frame(
        document["title"],
        h.h1(document["title"]),
        _about(document),
        warnings(document["warnings"], document["trouble"]),
        _now(document, root),
        h.div(reward(document), regret(document), theta(document), plays(document), class_="grid"),
        privacy(document),
        tree(document),
        _roles(document),
        _inside(document),
        twin=f"{root}.json",
        trail=[("Overview", "/")],
        events=f"{root}/events",
        admin=admin,
    )


def _about(document: dict[str, Any]) -> Node:
    now = document["now"]
    return h.p(
        f"{document['algorithm']} \u00b7 {document['trust']} model \u00b7 task ",
        short(document["id"]),
        " ",
        pill(now["status"]) if now else None,
        [" ", h.span("a test: protects nobody", class_="pill bad")] if document["test"] else None,
        id="about",
        data_live=True,
    )


def _now(document: dict[str, Any], root: str) -> Node:
    now, released = document["now"], document["released"]
    if now is None:
        return part("now", "Now", h.p("Nothing was read from the analyzer yet."))
    mean, lost = document["estimates"]["reward"]["mean"], document["estimates"]["regret"]["sum"]
    spent = f"{now['spent']:.4g}" if isinstance(now["spent"], int | float) else "\u2013"
    users = None if released["horizon"] is None else f"of {number(released['horizon'])}"
    return part(
        "now",
        "Now",
        h.p(document["sentence"]),
        _batch(document["batch"]),
        h.dl(
            fact("Publication", str(now["publication"]), f"seen here since {document['since']}"),
            fact("Users in releases", number(released["users"]), users),
            fact("Mean reward", band(mean), None if mean else "not released"),
            fact("Estimated regret", band(lost, 3), None if lost else "not estimated"),
            fact("Epsilon spent", spent, f"of {document['privacy']['budget']}"),
            class_="facts",
        ),
        h.p(h.a("All releases", href=f"{root}/releases")),
        h.ul([h.li(each) for each in document["notes"]], class_="notes") if document["notes"] else None,
    )


def _batch(batch: dict[str, Any] | None) -> Node:
    if batch is None:
        return h.p("No batch is awaited.")
    name = f"Batch {batch['epoch']}"
    if batch["rounds"] > 1:
        name += f", round {batch['round']} of {batch['rounds']} (counted from 0)"
    rule = f" It {batch['closes']}."
    if batch["closes_at"]:
        rule = f" It {batch['closes']}, at {batch['closes_at']} by its collector's clock."
    following = batch["next"]
    after = f" Batch {following['epoch']}, of {counted(following['wanted'], 'slot')}, follows." if following else ""
    wanted = counted(batch["wanted"], "slot")
    if batch["slots"] is None:
        return h.p(f"{name} has {wanted}; how many are open is not told.{rule}{after}")
    filled = min(batch["slots"], batch["wanted"])
    return [
        h.p(f"{name}: {number(batch['slots'])} of {wanted} are open.{rule}{after}", id="batch-words"),
        h.progress(f"{filled} of {wanted}", max=batch["wanted"], value=filled, aria_labelledby="batch-words"),
    ]


def _roles(document: dict[str, Any]) -> Node:
    rows = [(each["name"], pill(each["state"]), h.code(each["url"])) for each in document["roles"]]
    shown = table("Health of the roles", ("role", "state", "address"), rows, left=(0, 1, 2))
    unnamed = any(each["state"] == "unnamed" for each in document["roles"])
    return part("roles", "Roles", shown, h.p(_UNNAMED) if unnamed else None)


def _inside(document: dict[str, Any]) -> Node:
    """What is not public."""
    found = document.get("admin")
    if found is None:
        return None
    counts = [
        (each["role"], each["metric"], each["label"] or "\u2013", number(each["value"], 7)) for each in found["counts"]
    ]
    statuses = [(each["role"], h.code(each["status"])) for each in found["statuses"]]
    told = h.p("Tokens of roles were not given: a task's folder with its secrets has them.")
    if statuses:
        told = table("Status of the roles", ("role", "status"), statuses, left=(0, 1))
    return part(
        "inside",
        "For administrators",
        h.p("Not public: counts of requests and answers, and why some were refused."),
        table("Refusals and answers, by reason", ("role", "what", "reason or result", "times"), counts, left=(0, 1, 2)),
        told,
    )
