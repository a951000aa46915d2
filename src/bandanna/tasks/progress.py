"""How far a running task is, as its analyzer has signed it."""

from __future__ import annotations

from typing import Any

from bandanna.errors import BandannaError
from bandanna.tasks.document import Task
from bandanna.tasks.exporting import newest
from bandanna.tasks.finding import NotThere, is_url


def progress(task: Task, place: str) -> dict[str, Any] | None:
    """Status, publication, awaited batch and round, and what was spent.

    None unless a place is an address, and one that tells: a copy of the document alone does not.
    """
    if not is_url(place):
        return None
    base = place.rstrip("/")
    try:
        content = newest(task, base).content
    except NotThere:
        return None
    except BandannaError as error:
        raise BandannaError(f"{base} does not tell how far the task is: {error}") from error
    names = ("status", "number", "epoch", "round", "spent")
    return {"publication" if name == "number" else name: content.get(name) for name in names}


def sentence(now: dict[str, Any]) -> str:
    """The same for people."""
    spent = "nothing promised, nothing spent" if now["spent"] is None else f"epsilon = {now['spent']:.4g} spent"
    awaited = f"batch {now['epoch']}, round {now['round']}"
    where = f"awaiting {awaited}" if now["status"] == "running" else "nothing more is released"
    return f"Now: {now['status']}, publication {now['publication']}, {where}; {spent}."
