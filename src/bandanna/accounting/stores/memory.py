"""Entries in memory."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from bandanna.accounting.events import Event
from bandanna.accounting.stores.base import Entry, LedgerStore
from bandanna.errors import ConflictingRelease


class MemoryStore(LedgerStore):
    """A store that lives as long as the process."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._tasks: dict[str, Counter[Event]] = {}
        self._people: dict[str, Counter[str]] = {}
        self._lock = threading.RLock()
        self._secret = secrets.token_bytes(32)

    def lock(self) -> AbstractContextManager[Any]:
        """A re-entrant lock between threads."""
        return self._lock

    def secret(self) -> bytes:
        """Drawn when the store is made."""
        return self._secret

    def entries(self) -> list[Entry]:
        """In order of commitment."""
        return list(self._entries.values())

    def find(self, task: str, batch: str) -> Entry | None:
        """The entry or None."""
        return self._entries.get((task, batch))

    def commit(self, entry: Entry) -> None:
        """Refuses an id that is taken."""
        if (entry.task, entry.batch) in self._entries:
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        self._entries[entry.task, entry.batch] = entry
        self._tasks.setdefault(entry.task, Counter())[entry.event] += 1
        self._people.setdefault(entry.task, Counter()).update(entry.members)

    def keep(self, task: str, batch: str, release: Any) -> None:
        """Refuses to replace a release."""
        entry = self._entries[task, batch]
        if entry.release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        self._entries[task, batch] = replace(entry, release=(release,))

    def tasks(self) -> dict[str, Counter[Event]]:
        """Kept up to date."""
        return {task: Counter(batches) for task, batches in self._tasks.items()}

    def named(self, task: str) -> bool | None:
        """Kept up to date."""
        return bool(self._people[task]) if task in self._people else None

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        """Kept up to date."""
        seen = self._people.get(task, Counter())
        return {person: seen[person] for person in people}
