"""The interface of ledger stores, and a store in memory."""

from __future__ import annotations

import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bandanna.errors import BandannaError, ConflictingRelease
from bandanna.privacy.events import Event

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One committed expense. `release` is a one-tuple with the noisy result, None before it is stored."""

    task: str
    batch: str
    event: Event
    fingerprint: str
    members: tuple[str, ...] = ()
    release: tuple[Any] | None = None


class LedgerStore(ABC):
    """The interface of a store for a ledger's entries.

    Every method is durable when it returns; inside `alone`, which makes check-and-commit one step, a store may wait
    until its end. The last three methods summarise the entries and may be overridden.
    """

    @abstractmethod
    def alone(self, work: Callable[[], Result]) -> Result:
        """Do some work with exclusive access across all threads and processes that share the store; re-entrant.

        A signal may raise between any two lines. Its remains must not block the next call.
        """

    @abstractmethod
    def secret(self) -> bytes:
        """Return the store's random key, without which fingerprints of small data could be guessed."""

    @abstractmethod
    def entries(self) -> list[LedgerEntry]:
        """Return all entries, in order of commitment."""

    @abstractmethod
    def find(self, task: str, batch: str) -> LedgerEntry | None:
        """Return the entry of a batch, or None."""

    @abstractmethod
    def commit(self, entry: LedgerEntry) -> None:
        """Record an expense under a new id."""

    @abstractmethod
    def keep(self, task: str, batch: str, release: Any) -> None:
        """Store the release of a committed entry, once."""

    def tasks(self) -> dict[str, Counter[Event]]:
        """Return a copy of the number of committed batches per task and event."""
        tasks: dict[str, Counter[Event]] = {}
        for entry in self.entries():
            tasks.setdefault(entry.task, Counter())[entry.event] += 1
        return tasks

    def named(self, task: str) -> bool | None:
        """Return whether the task's batches name their members; None before its first batch."""
        named = [bool(entry.members) for entry in self.entries() if entry.task == task]
        return any(named) if named else None

    def appearances(self, task: str, users: Iterable[str]) -> dict[str, int]:
        """Return in how many batches of the task each of these users is."""
        counts = Counter(user for entry in self.entries() if entry.task == task for user in entry.members)
        return {user: counts[user] for user in users}


class TableStore(LedgerStore):
    """The reading half of a store in SQL tables; each event is one row, decoded once.

    Subclasses state the tables' prefix and the column of the tallies.
    """

    _prefix, _tally = "", "count"
    _known: dict[str, Event]  # decoded events by their text

    @abstractmethod
    def _run_query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""

    @abstractmethod
    def _read(self, text: str) -> Any:
        """Decode a stored value; raise `BandannaError` if it cannot be read."""

    @abstractmethod
    def _unpack(self, stored: Any) -> str:
        """Return a member from its stored form."""

    @property
    def _select(self) -> str:
        entries, events = f"{self._prefix}entries", f"{self._prefix}events"
        columns = f"number, task, batch, {events}.event, fingerprint, release"
        return f"select {columns} from {entries} join {events} on {events}.id = {entries}.event"

    def entries(self) -> list[LedgerEntry]:
        rows = self._run_query(f"{self._select} order by number")  # before their members: those of every row are there
        members: dict[int, list[str]] = {}
        for number, member in self._run_query(f"select entry, member from {self._prefix}members order by entry, place"):
            members.setdefault(number, []).append(self._unpack(member))
        return [self._entry(row, members.get(row[0], [])) for row in rows]

    def find(self, task: str, batch: str) -> LedgerEntry | None:
        for row in self._run_query(f"{self._select} where task = ? and batch = ?", task, batch):
            members = self._run_query(
                f"select member from {self._prefix}members where entry = ? order by place", row[0]
            )
            return self._entry(row, [self._unpack(member) for (member,) in members])
        return None

    def _entry(self, row: tuple[Any, ...], members: list[str]) -> LedgerEntry:
        _, task, batch, event, fingerprint, release = row
        return LedgerEntry(
            task=task,
            batch=batch,
            event=self._event(event),
            fingerprint=fingerprint,
            members=tuple(members),
            release=None if release is None else (self._read(release),),
        )

    def _event(self, text: str) -> Event:
        if text not in self._known:
            self._known[text] = self._read(text)
        return self._known[text]

    def tasks(self) -> dict[str, Counter[Event]]:
        tasks: dict[str, Counter[Event]] = {}
        tallies, events = f"{self._prefix}tallies", f"{self._prefix}events"
        query = f"select task, {events}.event, {self._tally} from {tallies} join {events}"
        for task, event, count in self._run_query(f"{query} on {events}.id = {tallies}.event"):
            tasks.setdefault(task, Counter())[self._event(event)] = count
        return tasks


@dataclass(kw_only=True)
class _TaskCounts:
    tasks: dict[str, Counter[Event]] = field(default_factory=dict)
    members: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, entry: LedgerEntry) -> None:
        self.tasks.setdefault(entry.task, Counter())[entry.event] += 1
        self.members.setdefault(entry.task, Counter()).update(entry.members)


class MemoryStore(LedgerStore):
    """A store in memory. It is refused in a forked process, because both would spend the budget."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], LedgerEntry] = {}
        self._summary: _TaskCounts | None = None  # counted when it is needed
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._secret = secrets.token_bytes(32)

    def alone(self, work: Callable[[], Result]) -> Result:
        if os.getpid() != self._pid:  # where the lock may be held by a thread that does not exist
            raise BandannaError("a ledger in memory works only in the process that made it: use a store in a file")
        with self._lock:
            return work()

    def secret(self) -> bytes:
        return self._secret

    def count(self) -> int:
        return len(self._entries)

    def entries(self) -> list[LedgerEntry]:
        return list(self._entries.values())

    def find(self, task: str, batch: str) -> LedgerEntry | None:
        return self._entries.get((task, batch))

    def commit(self, entry: LedgerEntry) -> None:
        with self._lock:
            if (entry.task, entry.batch) in self._entries:
                raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
            summary, self._summary = self._counted(), None  # an interrupt from here on leaves it to be counted anew
            self._entries[entry.task, entry.batch] = entry
            summary.add(entry)
            self._summary = summary

    def keep(self, task: str, batch: str, release: Any) -> None:
        entry = self._entries[task, batch]
        if entry.release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        self._entries[task, batch] = replace(entry, release=(release,))

    def tasks(self) -> dict[str, Counter[Event]]:
        with self._lock:
            return {task: Counter(batches) for task, batches in self._counted().tasks.items()}

    def named(self, task: str) -> bool | None:
        with self._lock:
            members = self._counted().members.get(task)
            return None if members is None else bool(members)

    def appearances(self, task: str, users: Iterable[str]) -> dict[str, int]:
        with self._lock:
            counts = self._counted().members.get(task, Counter())
            return {user: counts[user] for user in users}

    def _counted(self) -> _TaskCounts:
        if self._summary is None:
            summary = _TaskCounts()
            for entry in self._entries.values():
                summary.add(entry)
            self._summary = summary
        return self._summary
