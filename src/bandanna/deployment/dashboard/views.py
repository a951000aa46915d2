"""The JSON documents behind pages: tasks, releases and trees of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bandanna.deployment.dashboard.readings import (
    NamedValue,
    PublicationReader,
    PublicationReading,
    ValueBand,
    band_between,
    finite,
)
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.task.description import describe_forecast
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.export import ExportedPublication, describe_progress
from bandanna.policies.base import RunningSumPolicy
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle

# Histories


MOST = 256  # points


@dataclass(frozen=True, kw_only=True)
class HistoryPoint:
    """The part of a publication that the history keeps."""

    number: int
    epoch: int
    chain: str
    previous: str
    spent: float | None
    reading: PublicationReading


class PublicationHistory:
    """Publications 0, s, 2s, ... with s a power of two, and the newest."""

    def __init__(self) -> None:
        self._kept: dict[int, HistoryPoint] = {}
        self._stride = 1

    def missing(self, newest: int) -> Iterator[int]:
        """Return the missing numbers below `newest`, in order."""
        while newest // self._stride >= MOST:
            self._stride *= 2
        self._thin(newest)
        return (number for number in range(0, newest, self._stride) if number not in self._kept)

    def put(self, point: HistoryPoint) -> None:
        """Add a point or replace it."""
        self._kept[point.number] = point
        while max(self._kept) // self._stride >= MOST:
            self._stride *= 2
        self._thin(max(self._kept))

    def _thin(self, newest: int) -> None:
        for number in [each for each in self._kept if each % self._stride and each != newest]:
            del self._kept[number]

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        return tuple(self._kept[number] for number in sorted(self._kept))

    def link(self, number: int) -> HistoryPoint | None:
        return self._kept.get(number)


# The status of a task


@dataclass(frozen=True, kw_only=True)
class RoleState:
    """The state of a role: well, unwell, silent (no answer), unclear (it does not say), unqueried, or unnamed.

    A role is unnamed if only a document from elsewhere gives its address, which the dashboard then does not call.
    """

    name: str
    url: str
    state: str = "unqueried"


@dataclass(frozen=True, kw_only=True)
class BatchStatus:
    """The status of a collector's running batch."""

    epoch: int
    round: int
    slots: int
    wanted: int
    open: int | None
    closes_at: float | None


@dataclass(frozen=True, kw_only=True)
class MetricCount:
    """A number of a role's metrics, for administrators."""

    role: str
    metric: str
    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """Everything that is known about a task."""

    place: str
    url: str = ""
    role_urls: Mapping[str, str] = field(default_factory=dict)  # addresses that may be called, by role
    task: Task | None = None
    reader: PublicationReader | None = None
    facts: Mapping[str, Any] | None = None
    trouble: str = "it was not queried yet"  # why the analyzer does not answer; "" if it does
    warnings: tuple[str, ...] = ()  # contradictions, kept until the process ends
    newest: ExportedPublication | None = None  # in force, and verified
    since: float = 0.0  # when it was first seen here
    latest: PublicationReading = PublicationReading()  # of `newest`
    points: tuple[HistoryPoint, ...] = ()  # of the history, at most 257
    filling: BatchStatus | None = None
    roles: tuple[RoleState, ...] = ()
    ledger: Mapping[str, Any] | None = None  # its summary
    counts: tuple[MetricCount, ...] = ()  # for administrators, as are `statuses`
    statuses: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        return "" if self.task is None else self.task.id

    @property
    def now(self) -> dict[str, Any] | None:
        """The progress as `bandanna task show` has it; None before there is a publication."""
        if self.newest is None:
            return None
        content = self.newest.content
        return {
            "status": content.get("status"),
            "publication": self.newest.number,
            "epoch": content.get("epoch"),
            "round": content.get("round"),
            "spent": content.get("spent"),
        }


# The tree of batches


def build_tree(task: Task, known: TaskStatus) -> dict[str, Any] | None:
    """Return the tree of concurrent shufflers, or None for other tasks.

    Levels are listed from the top down; users of the running batch count as its collector reports them.
    """
    if task.trust != "concurrent" or not isinstance(task.policy, RunningSumPolicy) or not known.points:
        return None
    stream = next(iter(task.policy._calibrated_channels().values())).stream
    if not isinstance(stream, ConcurrentShuffle):
        return None
    tree, users = stream.tree, known.latest.users or 0
    told, running = known.filling, known.points[-1].epoch
    waiting = min(told.slots, tree.sizes[0]) if told is not None and told.epoch == running else 0
    digits = tree.covering(users).tolist()  # full batches of each level beside the full ones above
    levels = []
    for level in reversed(range(tree.levels)):
        size = tree.sizes[level]
        siblings = tree.degrees[level + 1] if level + 1 < tree.levels else tree.batches[level]
        inside = min(users % size + waiting, size)
        levels.append(
            {
                "level": level + 1,
                "users": size,
                "full": users // size,
                "batches": tree.batches[level],
                "siblings": siblings,
                "beside": digits[level],
                "filled": inside / size,
            }
        )
    return {"levels": levels, "users": users}


# History and publications as JSON


PAGE = 50  # lines
OUTCOMES = {
    "begun": "the task began",
    "released": "a batch was released and learned from",
    "burned": "totals were seen and could not be used: paid for, not learned from",
    "exhausted": "the budget refused: nothing was released",
}
_KINDS: dict[str, type] = {"number": int, "epoch": int, "round": int, "outcome": str, "chain": str, "status": str}


def select_page(known: TaskStatus, number: int) -> tuple[int, int, int]:
    """Return the number of pages, and for this page the publication before its first and its length."""
    count = 0 if known.newest is None else known.newest.number + 1
    pages = max(1, -(-count // PAGE))
    last = count - 1 - (min(number, pages) - 1) * PAGE
    first = max(0, last - PAGE + 1)
    return pages, first - 1, last - first + 1


def list_releases(known: TaskStatus, lines: list[dict[str, Any]], *, page: int, pages: int) -> dict[str, Any]:
    """Return a page of the history, newest first."""
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


def _line(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return a line of the unsigned history if its types are right."""
    if not all(type(entry.get(name)) is kind for name, kind in _KINDS.items()):
        return None
    spent = entry.get("spent")
    line = {name: entry[name] if kind is int else str(entry[name])[:100] for name, kind in _KINDS.items()}
    return {**line, "spent": spent if isinstance(spent, int | float) else None}


def show_release(
    known: TaskStatus, content: dict[str, Any], chain: str, now: PublicationReading, before: PublicationReading | None
) -> dict[str, Any]:
    """Return one publication: the sums so far, and what its batch added."""
    assert known.task is not None
    assert known.reader is not None
    words, _ = describe_budget(known.task.policy.privacy.budget if known.task.policy.privacy.noisy else None)
    notes = known.reader.notes
    epoch, ended = content.get("epoch"), content.get("round") == 0 and content.get("status") == "running"
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
        "added_by": epoch - 1 if type(epoch) is int and epoch > 0 and ended else None,
        "own": _added_since(known, now, before),
        "reward": {"note": notes.reward, "sum": _plain(now.reward)},
        "regret": {"note": notes.regret, "sum": _plain(now.regret)},
        "theta": {"note": notes.theta, "rows": [{"name": each.name, **each.band.plain()} for each in now.theta[:200]]},
        "plays": {"note": notes.plays, "rows": [{"name": each.name, **each.band.plain()} for each in now.plays[:200]]},
        "left": None if now.left is None else list(now.left[:200]),
    }


def _added_since(
    known: TaskStatus, now: PublicationReading, before: PublicationReading | None
) -> dict[str, Any] | None:
    if before is None or now.users is None or before.users is None:
        return None
    assert known.reader is not None
    reward = None
    if now.reward is not None and before.reward is not None:
        reward = band_between(now.reward, before.reward, independent=known.reader.independent)
    return {"users": now.users - before.users, "reward": _plain(reward)}


def _plain(band: ValueBand | None) -> dict[str, Any] | None:
    return None if band is None else band.plain()


# Words


_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit that makes it a whole number.

    >>> format_duration(600), format_duration(90), format_duration(1), format_duration(0.5)
    ('10 minutes', '90 seconds', '1 second', '0.5 seconds')
    """
    for length, unit in _UNITS:
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count:,} {unit}{'s' * (count != 1)}"
    return f"{seconds:g} seconds"


def format_time(seconds: float | None) -> str | None:
    """Return a time of the clock in UTC."""
    if seconds is None or not 0 <= seconds < 2e11:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def describe_closing(task: Task) -> str:
    """Return when a full batch closes."""
    if task.content["close"] == "answered":
        return "closes when all of them have reported (a test)"
    grace = float(task.content["grace"])
    return f"closes {format_duration(grace)} after the last of them joins" if grace else "closes when the last joins"


def describe_budget(budget: Budget | None) -> tuple[str, float | None]:
    """Return a budget in words, and its epsilon where it has one."""
    if isinstance(budget, ApproxDP):
        return f"epsilon = {budget.epsilon:g}, delta = {budget.delta:g}", finite(budget.epsilon)
    if isinstance(budget, PureDP):
        return f"epsilon = {budget.epsilon:g}", finite(budget.epsilon)
    if isinstance(budget, ZCDP):
        return f"{budget.rho:g}-zCDP", None
    return ("none (no privacy is promised)" if budget is None else str(budget)), None


def describe_spending(known: TaskStatus, words: str, limit: float | None) -> str:
    """Return how much of a user's budget is used."""
    spent = None if known.now is None else known.now["spent"]
    if not isinstance(spent, int | float):
        return f"Per-user budget: {words}."
    used = (
        f"Per-user budget used: {spent:.4g} of {limit:g}." if limit else f"Per-user budget: {words}. Used: {spent:.4g}."
    )
    task, values = known.task, {point.spent for point in known.points if point.spent}
    if task is not None and task.policy.privacy.participations == 1 and len(values) == 1:
        used += " Each user takes part once, so this stays constant."
    return used


# Tasks as JSON


ROWS = 60  # parameters or arms on a page


def summarize_task(known: TaskStatus) -> dict[str, Any]:
    """Return the line of a task, or of a place without one."""
    now = known.now
    return {
        "place": known.place,
        "id": known.id or None,
        "title": _title(known),
        "trouble": known.trouble,
        "warnings": len(known.warnings),
        "status": None if now is None else now["status"],
        "publication": None if now is None else now["publication"],
        "spent": None if now is None else now["spent"],
        "batch": _batch(known),
        "roles": [{"role": each.name, "state": each.state} for each in known.roles],
    }


def _title(known: TaskStatus) -> str:
    return known.place if known.task is None else str(known.task.content["title"])


def show_task(known: TaskStatus, *, admin: bool) -> dict[str, Any]:
    """Return everything about a task; with `admin`, also what is not public."""
    task = known.task
    assert task is not None
    reading, now, batch = known.latest, known.now, _batch(known)
    try:
        sentence = None if now is None else describe_progress(now)
    except (TypeError, ValueError):  # a stranger wrote it
        sentence = "The analyzer's progress cannot be read."
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
        "sentence": sentence,
        "since": format_time(known.since) if now is not None else None,
        "batch": batch,
        "waiting": batch["wanted"] if batch and now and now["publication"] == 0 else None,
        "released": _released(known, reading),
        "estimates": _estimates(known, reading),
        "series": _series(known),
        "forecast": describe_forecast(task),
        "expected": task.content["expected"],
        "privacy": _privacy(known, task),
        "tree": build_tree(task, known),
        "roles": [flat_fields(each) for each in known.roles],
        "notes": list(known.facts["notes"]) if known.facts is not None else [],
    }
    if admin:
        document["admin"] = {
            "counts": [flat_fields(each) for each in known.counts],
            "statuses": [{"role": role, "status": text} for role, text in known.statuses],
        }
    return document


def flat_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a flat value."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _batch(known: TaskStatus) -> dict[str, Any] | None:
    task, announced = known.task, _announced(known)
    if task is None or not announced or known.newest is None:
        return None
    running = announced[0]
    told = known.filling if known.filling and known.filling.epoch == running.epoch else None
    return {
        "epoch": running.epoch,
        "round": known.newest.content.get("round"),
        "rounds": len(running.rounds),
        "wanted": running.slots,
        "slots": told.slots if told else None,
        "closes": describe_closing(task),
        "closes_at": format_time(told.closes_at) if told else None,
        "next": None if len(announced) < 2 else {"epoch": announced[1].epoch, "wanted": announced[1].slots},
    }


def _announced(known: TaskStatus) -> list[Batch]:
    if known.newest is None or known.newest.content.get("status") != "running":
        return []
    try:
        return [Batch.from_dict(each) for each in known.newest.content["batches"]]
    except Exception:  # a stranger wrote it; the page has a warning
        return []


def _released(known: TaskStatus, reading: PublicationReading) -> dict[str, Any]:
    horizon = known.task.policy.horizon if known.task is not None else None
    return {
        "publications": 0 if known.newest is None else known.newest.number + 1,
        "shown": len(known.points),
        "users": reading.users,
        "horizon": horizon,
    }


def _estimates(known: TaskStatus, reading: PublicationReading) -> dict[str, Any]:
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


def _rows(named: Sequence[NamedValue]) -> dict[str, Any]:
    rows = [{"name": each.name, **each.band.plain()} for each in named[:ROWS]]
    return {"rows": rows, "more": max(0, len(named) - ROWS)}


def _series(known: TaskStatus) -> list[dict[str, Any]]:
    return [_point(point.number, point.spent, point.reading) for point in known.points]


def _point(number: int, spent: float | None, reading: PublicationReading) -> dict[str, Any]:
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


def _privacy(known: TaskStatus, task: Task) -> dict[str, Any]:
    spends = task.policy.privacy
    words, epsilon = describe_budget(spends.budget if spends.noisy else None)
    ledger, told = known.ledger or {}, known.facts or {}
    prices = [
        {"event": str(each.get("event"))[:400], "entries": each.get("entries")}
        for each in ledger.get("prices", [])[:20]
        if isinstance(each, dict) and type(each.get("entries")) is int
    ]
    return {
        "budget": words,
        "words": describe_spending(known, words, epsilon),
        "epsilon": epsilon,
        "spent": None if known.now is None else known.now["spent"],
        "participations": spends.participations,
        "promise": told.get("promise"),
        "sight": told.get("sight", []),
        "entries": ledger.get("entries") if type(ledger.get("entries")) is int else None,
        "prices": prices,
    }
