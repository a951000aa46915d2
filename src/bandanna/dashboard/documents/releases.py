"""The twins of a page of a task's history, and of one publication."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.known import Known
from bandanna.dashboard.readings import Band, Reading
from bandanna.dashboard.readings.base import difference
from bandanna.dashboard.words import budget

PAGE = 50  # lines
OUTCOMES = {
    "begun": "the task began",
    "released": "a batch was released and learned from",
    "burned": "totals were seen and could not be used: paid for, not learned from",
    "exhausted": "the budget refused: nothing was released",
}
_KINDS: dict[str, type] = {"number": int, "epoch": int, "round": int, "outcome": str, "chain": str, "status": str}


def page_of(known: Known, number: int) -> tuple[int, int, int]:
    """How many pages there are, and which publications are on this one: after, most. The newest are on page 1."""
    count = 0 if known.newest is None else known.newest.number + 1
    pages = max(1, -(-count // PAGE))
    last = count - 1 - (min(number, pages) - 1) * PAGE
    first = max(0, last - PAGE + 1)
    return pages, first - 1, last - first + 1


def releases_of(known: Known, lines: list[dict[str, Any]], *, page: int, pages: int) -> dict[str, Any]:
    """Newest first."""
    assert known.task is not None
    rows = [_line(each) for each in reversed(lines[:PAGE])]
    return {
        "id": known.id,
        "title": str(known.task.content["title"]),
        "page": page,
        "pages": pages,
        "rows": [each for each in rows if each is not None],
        "meanings": OUTCOMES,
    }


def _line(told: dict[str, Any]) -> dict[str, Any] | None:
    """Of the types that it has to have; it is not signed, publications are."""
    if not all(type(told.get(name)) is kind for name, kind in _KINDS.items()):
        return None
    spent = told.get("spent")
    line = {name: told[name] if kind is int else str(told[name])[:100] for name, kind in _KINDS.items()}
    return {**line, "spent": spent if isinstance(spent, int | float) else None}


def release_of(
    known: Known, content: dict[str, Any], chain: str, now: Reading, before: Reading | None
) -> dict[str, Any]:
    """One publication: what is known since, and what the batch before it has added."""
    assert known.task is not None
    assert known.reader is not None
    words, _ = budget(known.task.policy.privacy.budget if known.task.policy.privacy.noisy else None)
    notes = known.reader.notes
    return {
        "id": known.id,
        "title": str(known.task.content["title"]),
        "publication": content["number"],
        "newest": 0 if known.newest is None else known.newest.number,
        "status": content.get("status"),
        "epoch": content.get("epoch"),
        "round": content.get("round"),
        "spent": content.get("spent"),
        "budget": words,
        "chain": chain,
        "previous": content["previous"],
        "users": now.users,
        "own": _own(known, now, before),
        "reward": {"note": notes.reward, "sum": _plain(now.reward)},
        "regret": {"note": notes.regret, "sum": _plain(now.regret)},
        "theta": {"note": notes.theta, "rows": [{"name": each.name, **each.band.plain()} for each in now.theta[:200]]},
        "plays": {"note": notes.plays, "rows": [{"name": each.name, **each.band.plain()} for each in now.plays[:200]]},
        "left": None if now.left is None else list(now.left[:200]),
    }


def _own(known: Known, now: Reading, before: Reading | None) -> dict[str, Any] | None:
    """What has been added since the publication before it."""
    if before is None or now.users is None or before.users is None:
        return None
    assert known.reader is not None
    reward = None
    if now.reward is not None and before.reward is not None:
        reward = difference(now.reward, before.reward, independent=known.reader.independent)
    return {"users": now.users - before.users, "reward": _plain(reward)}


def _plain(band: Band | None) -> dict[str, Any] | None:
    return None if band is None else band.plain()
