"""The first page: tasks that are watched."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.markup import Node, h
from bandanna.dashboard.pages.frame import frame, pill
from bandanna.dashboard.words import number


def index(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The list of tasks."""
    main = h.h1("Bandanna"), _tasks(document["tasks"])
    return frame("Overview", *main, twin="/index.json", events="/events", admin=admin)


def _tasks(tasks: list[dict[str, Any]]) -> Node:
    inside: Node = [_task(each) for each in tasks] or h.p("No task is watched.")
    return h.section(
        h.h2("Tasks", id="tasks-heading"), h.div(inside, class_="list"), id="tasks", aria_labelledby="tasks-heading",
        data_live=True,
    )  # fmt: skip


def _task(task: dict[str, Any]) -> Node:
    title, batch = task["title"], task["batch"]
    heading = h.h3(
        h.a(title, href=f"/tasks/{task['id']}") if task["id"] else title,
        [" ", pill(task["status"])] if task["status"] else None,
    )
    if task["trouble"]:
        words = f"No news from the analyzer: {task['trouble']}. It is asked again."
        return h.article(heading, h.p(words, class_="bad"))
    sick = [each["role"] for each in task["roles"] if each["state"] in ("unwell", "silent")]
    said = "Nothing is published yet."
    if task["publication"] is not None:
        said = f"Publication {number(task['publication'])}"
        said += f", epsilon = {task['spent']:.4g} spent." if isinstance(task["spent"], int | float) else "."
    return h.article(
        heading,
        h.p(said),
        h.p(_filling(batch)) if batch else None,
        h.p(f"Not well: {', '.join(sick)}.", class_="bad") if sick else None,
        h.p(f"Warnings: {task['warnings']}; see its page.", class_="bad") if task["warnings"] else None,
    )


def _filling(batch: dict[str, Any]) -> str:
    if batch["slots"] is None:
        return f"Batch {batch['epoch']} has {number(batch['wanted'])} slots; how many are open is not told."
    return f"Batch {batch['epoch']}: {number(batch['slots'])} of {number(batch['wanted'])} slots are open."
