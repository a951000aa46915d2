"""What every store of a ledger can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from bandanna.accounting.events import Event

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One committed expense; `release` is None until the noisy result is stored, then a one-tuple with it."""

    task: str
    batch: str
    event: Event
    fingerprint: str
    members: tuple[str, ...] = ()
    release: tuple[Any] | None = None


class LedgerStore(ABC):
    """Where entries live. Every method is durable when it returns; `alone` makes check-and-commit one step.

    Inside `alone`, a store may make everything durable at once, when the work is done: nobody has seen the release
    before. The last three methods are summaries of the entries, which a store may keep instead of counting anew.
    """

    @abstractmethod
    def alone(self, work: Callable[[], Result]) -> Result:
        """Do some work with exclusive access, across all threads and processes that share the store; re-entrant.

        A signal may raise between any two lines of Python: whatever it leaves behind must not be in the way of the
        next call.
        """

    @abstractmethod
    def secret(self) -> bytes:
        """A random key made with the store: fingerprints of small data must not be guessable."""

    @abstractmethod
    def entries(self) -> list[Entry]:
        """All entries, in the order of their commitment."""

    @abstractmethod
    def find(self, task: str, batch: str) -> Entry | None:
        """The entry under an id."""

    @abstractmethod
    def commit(self, entry: Entry) -> None:
        """Record an expense under a new id."""

    @abstractmethod
    def keep(self, task: str, batch: str, release: Any) -> None:
        """Store the release of a committed entry, once."""

    def tasks(self) -> dict[str, Counter[Event]]:
        """How many batches of each event every task has committed; the caller may change the counters."""
        tasks: dict[str, Counter[Event]] = {}
        for entry in self.entries():
            tasks.setdefault(entry.task, Counter())[entry.event] += 1
        return tasks

    def named(self, task: str) -> bool | None:
        """Whether the task's batches name their members; None before its first batch."""
        named = [bool(entry.members) for entry in self.entries() if entry.task == task]
        return any(named) if named else None

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        """In how many batches of the task each of these people has been."""
        seen = Counter(person for entry in self.entries() if entry.task == task for person in entry.members)
        return {person: seen[person] for person in people}
