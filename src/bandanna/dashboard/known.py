"""What is known of a task at one moment: a value, which pages are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bandanna.dashboard.readings import Reader, Reading
from bandanna.dashboard.series import Point
from bandanna.tasks.document import Task
from bandanna.tasks.exporting import Publication


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role's own word about itself: well, unwell, silent (nobody answers), untold (not to us), or unasked.

    Or unnamed: it is where a document from elsewhere says, which is no reason to call there.
    """

    name: str
    url: str
    state: str = "unasked"


@dataclass(frozen=True, kw_only=True)
class Filling:
    """What a collector tells everybody of its batches: the running one and its slots, and which takes new ones."""

    epoch: int
    round: int
    slots: int
    wanted: int
    open: int | None
    closes_at: float | None


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of a role's metrics: for administrators."""

    role: str
    metric: str
    label: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Known:
    """Everything that was read so far, and what stands against it.

    trouble   why the analyzer cannot be asked now;  warnings: what it said that cannot be, until the process ends
    newest    the publication in force, its signature checked;  since: when it was first seen here
    latest    what it says;  points: of its history, decimated and brief;  ledger: its summary
    counts, statuses   of roles, where an administrator may see them
    asks      where roles may be asked, by their names: nobody else is called, whatever a document says
    """

    place: str
    url: str = ""
    asks: Mapping[str, str] = field(default_factory=dict)
    task: Task | None = None
    reader: Reader | None = None
    facts: Mapping[str, Any] | None = None
    trouble: str = "it was not asked yet"
    warnings: tuple[str, ...] = ()
    newest: Publication | None = None
    since: float = 0.0
    latest: Reading = Reading()
    points: tuple[Point, ...] = ()
    filling: Filling | None = None
    roles: tuple[Role, ...] = ()
    ledger: Mapping[str, Any] | None = None
    counts: tuple[Count, ...] = ()
    statuses: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Of the task; "" while it is not known."""
        return "" if self.task is None else self.task.id

    @property
    def now(self) -> dict[str, Any] | None:
        """As `bandanna task show` has it; None before there is a publication."""
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
