"""The twins of the list of tasks, and of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.dashboard.documents.tree import tree_of
from bandanna.dashboard.known import Known
from bandanna.dashboard.readings import Named, Reading
from bandanna.dashboard.readings.base import finite
from bandanna.dashboard.words import budget, closing, moment
from bandanna.tasks.document import Task
from bandanna.tasks.page import expectation
from bandanna.tasks.progress import sentence
from bandanna.wire.plan import Batch

ROWS = 60  # parameters or arms on a page


def listed(watched: Sequence[Known]) -> list[dict[str, Any]]:
    """One line for every task, or for the place where one should be."""
    return [_line(known) for known in watched]


def _line(known: Known) -> dict[str, Any]:
    now, batch = known.now, _batch(known)
    return {
        "place": known.place,
        "id": known.id or None,
        "title": _title(known),
        "trouble": known.trouble,
        "warnings": len(known.warnings),
        "status": None if now is None else now["status"],
        "publication": None if now is None else now["publication"],
        "spent": None if now is None else now["spent"],
        "batch": batch,
        "roles": [{"role": each.name, "state": each.state} for each in known.roles],
    }


def _title(known: Known) -> str:
    return known.place if known.task is None else str(known.task.content["title"])


def task_of(known: Known, *, admin: bool) -> dict[str, Any]:
    """A whole task; `admin`: with what is not public."""
    task = known.task
    assert task is not None
    reading, now = known.latest, known.now
    document: dict[str, Any] = {
        "id": known.id,
        "title": _title(known),
        "place": known.place,
        "algorithm": str(task.content["algorithm"]),
        "trust": task.trust,
        "test": bool(task.content["test"]),
        "trouble": known.trouble,
        "warnings": list(known.warnings),
        "now": now,
        "sentence": None if now is None else _sentence(now),
        "since": moment(known.since) if now is not None else None,
        "batch": _batch(known),
        "released": _released(known, reading),
        "estimates": _estimates(known, reading),
        "series": _series(known),
        "forecast": expectation(task),
        "expected": task.content["expected"],
        "privacy": _privacy(known, task),
        "tree": tree_of(task, known),
        "roles": [vars_of(each) for each in known.roles],
        "notes": list(known.facts["notes"]) if known.facts is not None else [],
    }
    if admin:
        document["admin"] = {
            "counts": [vars_of(each) for each in known.counts],
            "statuses": [{"role": role, "status": text} for role, text in known.statuses],
        }
    return document


def vars_of(value: Any) -> dict[str, Any]:
    """A flat value's fields."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _sentence(now: dict[str, Any]) -> str:
    try:
        return sentence(now)
    except (TypeError, ValueError):  # somebody else has written it
        return "What it says of itself cannot be read."


def _batch(known: Known) -> dict[str, Any] | None:
    """The running batch: what is announced of it, and what its collector tells."""
    task, announced = known.task, _announced(known)
    if task is None or not announced or known.newest is None:
        return None
    running, told = announced[0], known.filling
    same = told is not None and told.epoch == running.epoch
    return {
        "epoch": running.epoch,
        "round": known.newest.content.get("round"),
        "rounds": len(running.rounds),
        "wanted": running.slots,
        "slots": told.slots if same and told is not None else None,
        "closes": closing(task, running.slots),
        "closes_at": moment(told.closes_at) if same and told is not None else None,
        "next": None if len(announced) < 2 else {"epoch": announced[1].epoch, "wanted": announced[1].slots},
    }


def _announced(known: Known) -> list[Batch]:
    if known.newest is None or known.newest.content.get("status") != "running":
        return []
    try:
        return [Batch.from_dict(each) for each in known.newest.content["batches"]]
    except Exception:  # somebody else has written it, and the page has a warning
        return []


def _released(known: Known, reading: Reading) -> dict[str, Any]:
    horizon = known.task.policy.horizon if known.task is not None else None
    return {
        "publications": 0 if known.newest is None else known.newest.number + 1,
        "shown": len(known.points),
        "users": reading.users,
        "horizon": horizon,
    }


def _estimates(known: Known, reading: Reading) -> dict[str, Any]:
    notes = known.reader.notes if known.reader is not None else None
    users = reading.users or 0
    reward = None if reading.reward is None else reading.reward.plain()
    mean = None
    if reward is not None and users:
        mean = {name: None if value is None else value / users for name, value in reward.items()}
    return {
        "reward": {"note": notes.reward if notes else "", "sum": reward, "mean": mean},
        "regret": {
            "note": notes.regret if notes else "",
            "sum": None if reading.regret is None else reading.regret.plain(),
        },
        "theta": {"note": notes.theta if notes else "", **_rows(reading.theta)},
        "plays": {"note": notes.plays if notes else "", **_rows(reading.plays)},
        "left": None if reading.left is None else list(reading.left[:ROWS]),
    }


def _rows(named: Sequence[Named]) -> dict[str, Any]:
    rows = [{"name": each.name, **each.band.plain()} for each in named[:ROWS]]
    return {"rows": rows, "more": max(0, len(named) - ROWS)}


def _series(known: Known) -> list[dict[str, Any]]:
    """What is drawn over time: as many points as were kept, whatever the length of the history."""
    return [_point(point.number, point.spent, point.reading) for point in known.points]


def _point(number: int, spent: float | None, reading: Reading) -> dict[str, Any]:
    users, reward, regret = reading.users, reading.reward, reading.regret
    return {
        "publication": number,
        "users": users,
        "spent": finite(spent),
        "mean": finite(reward.value / users) if reward is not None and users else None,
        "mean_half": finite(reward.half / users) if reward is not None and reward.half is not None and users else None,
        "regret": None if regret is None or not users else finite(regret.value),
        "regret_half": None if regret is None or not users else finite(regret.half),
    }


def _privacy(known: Known, task: Task) -> dict[str, Any]:
    spends = task.policy.privacy
    words, epsilon = budget(spends.budget if spends.noisy else None)
    ledger, told = known.ledger or {}, known.facts or {}
    prices = [
        {"event": str(each.get("event"))[:400], "entries": each.get("entries")}
        for each in ledger.get("prices", [])[:20]
        if isinstance(each, dict) and type(each.get("entries")) is int
    ]
    return {
        "budget": words,
        "epsilon": epsilon,
        "spent": None if known.now is None else known.now["spent"],
        "participations": spends.participations,
        "promise": told.get("promise"),
        "sight": told.get("sight", []),
        "entries": ledger.get("entries") if type(ledger.get("entries")) is int else None,
        "prices": prices,
    }
