"""The release journal beside a save: what was released since stays released, whichever save is loaded.

A release is one transaction: the expense, the noisy result and the policy's new state become durable together, before
anybody sees them. If the process dies earlier, nothing was released; if it dies later, everything is there.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bandanna.accounting.events import Event
from bandanna.accounting.stores import integrity
from bandanna.accounting.stores.base import Entry, LedgerStore
from bandanna.accounting.stores.memory import MemoryStore
from bandanna.accounting.stores.sqlite import SQLiteStore
from bandanna.errors import BandannaError, ConflictingRelease
from bandanna.storage.encoding import Encoding

NOTES = "agent", "terms", "siblings", "state", "calibrations"  # whose, for what, where else, and how to go on


class Journal(SQLiteStore):
    """One journal: a ledger's file that belongs to an agent and knows the newest state of its policy."""

    def count(self) -> int:
        """How many releases it holds."""
        with self._errors():
            return int(self._sql.execute("select coalesce(max(number), 0) from entries").fetchone()[0])

    def note(self, key: str) -> Any:
        """What was noted under a key, or None."""
        with self._errors():
            row = self._sql.execute("select value from meta where key = ?", (key,)).fetchone()
            return None if row is None else self._encoding.loads(row[0])

    def write(self, key: str, value: Any) -> None:
        """Note a value."""
        text = self._encoding.dumps(value)
        with self.lock(), self._errors():
            old = self._sql.execute("select value from meta where key = ?", (key,)).fetchall()
            self._sql.execute("insert or replace into meta values (?, ?)", (key, text))
            replaced = [integrity.of_note(key, before) for (before,) in old]
            self._account(plus=[integrity.of_note(key, text)], minus=replaced)

    def abandon(self) -> None:
        """Undo what an interrupt has left open: inside it, nothing that follows would become durable."""
        if self._depth or self._sql.in_transaction:
            self._roll_back()
            self._guard, self._depth = threading.RLock(), 0

    def lacks(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Which of these entries it does not have, of which it has a first part."""
        mine = self.entries()
        same = [one.fingerprint for one in mine] == [one.fingerprint for one in entries[: len(mine)]]
        if not same or len(mine) > len(entries):
            raise ConflictingRelease(f"{self.path} has releases that this agent does not know: load the agent anew")
        return entries[len(mine) :]

    def clear(self) -> None:
        """Forget everything but the secret."""
        with self.lock(), self._errors():
            for table in ("entries", "members", "tallies", "events"):
                self._sql.execute(f"delete from {table}")
            self._sql.execute("delete from meta where key not in ('secret', 'sum')")
            self._sql.execute("update meta set value = zeroblob(32) where key = 'sum'")

    def catch_up(self, entries: Sequence[Entry], notes: dict[str, Any]) -> None:
        """Bring it to exactly these entries, of which it has a first part."""
        with self.lock():
            for entry in self.lacks(entries):
                self.commit(entry)
            for key, value in notes.items():
                self.write(key, value)


class Journals(LedgerStore):
    """The ledger's store of an agent: in memory, and in the journals of all paths at which the agent was saved."""

    def __init__(self, *, agent: str, terms: Any, secret: bytes, encoding: Encoding) -> None:
        self._agent, self._secret, self._encoding = agent, secret, encoding
        self._terms = {"of": terms, "secret": hashlib.sha256(secret).hexdigest()}  # of every journal, from the first on
        self._memory = MemoryStore()
        self._files: dict[Path, Journal] = {}
        self._pending: Entry | None = None
        self._depth = self._count = 0

    @classmethod
    def load(
        cls, path: Path, *, agent: str, terms: Any, secret: bytes, encoding: Encoding
    ) -> tuple[Journals, dict[str, Any]]:
        """The journals of an agent that was saved at `path`, all brought up to the newest, and its notes."""
        made, first = cls(agent=agent, terms=terms, secret=secret, encoding=encoding), _owned(path, agent, encoding)
        others = {Path(name) for name in _names(first)} - {first.path}
        found = [Journal(other, create=False, encoding=encoding) for other in sorted(others) if other.is_file()]
        files = [first, *(file for file in found if file.note("agent") == agent)]  # a path may be another's by now
        for file in files:
            made._bind(file)
        newest = max(files, key=Journal.count)
        entries, notes = newest.entries(), {key: newest.note(key) for key in NOTES}
        for file in files:
            if file.lacks(entries):
                file.catch_up(entries, notes)
        for entry in entries:
            made._memory.commit(entry)
        made._count = len(entries)
        made._files = {file.path: file for file in files}
        return made, notes

    def attach(self, save: Path, notes: dict[str, Any]) -> None:
        """Write every release to the journal of a save too, from the first one on."""
        path = journal_of(save)
        if path in self._files and path.is_file():
            return
        file = Journal(path, encoding=self._encoding)
        with self._memory.lock(), file.lock():
            self._claim(file, save)
            siblings = [str(one) for one in {**self._files, path: file}]
            own = {"agent": self._agent, "terms": self._terms, "siblings": siblings, "saved": save.exists()}
            file.catch_up(self.entries(), notes | own)
            self._files[path] = file
        with self.lock():
            for one in self._files.values():
                one.write("siblings", siblings)

    def saved(self, save: Path) -> None:
        """There is a save beside the journal from now on."""
        file = self._files[journal_of(save)]
        if file.note("saved") is False:
            file.write("saved", True)

    def _claim(self, file: Journal, save: Path) -> None:
        """A journal is ours, or nobody's: of a first save that was interrupted, so that nothing can go on from it."""
        if file.note("agent") in (None, self._agent):
            return
        if file.note("saved") is not False or save.exists():
            raise BandannaError(
                f"{file.path} is the journal of another agent: save elsewhere, or remove it with its save"
            )
        file.clear()

    def _bind(self, file: Journal) -> None:
        """A journal is for one policy and one key, whatever a save says; one of before that was noted is bound now."""
        terms = file.note("terms")
        if terms is None and not file.read_only:
            file.write("terms", self._terms)
        elif terms is not None and terms != self._terms:
            raise BandannaError(f"{file.path} was made for another policy, budget or key than the save's")

    def count(self) -> int:
        """How many releases there are."""
        return self._count

    def advance(self, notes: dict[str, Any]) -> None:
        """Note the newest state, as part of the release that is being made."""
        for file in self._files.values():
            for key, value in notes.items():
                file.write(key, value)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One transaction in all journals: it takes place as a whole, or - if the block raises - not at all."""
        with self._memory.lock():
            self._depth += 1
            begun: list[Journal] = []
            try:
                if self._depth == 1:
                    self._begin(begun)
                yield
                if self._depth == 1:
                    self._end(begun)
            except BaseException:
                self._pending = None if self._depth == 1 else self._pending
                while begun:
                    begun.pop().end(undo=True)
                raise
            finally:
                self._depth -= 1

    def _begin(self, begun: list[Journal]) -> None:
        mine = self.count()
        for path in sorted(self._files):  # in one order, so that two processes do not wait for each other
            self._files[path].abandon()
            self._files[path].begin()
            begun.append(self._files[path])
            if (self._files[path].note("agent"), self._files[path].count()) != (self._agent, mine):
                raise ConflictingRelease(
                    f"{path} has a release by another process that runs this agent too; nothing was released here. "
                    "Load the agent anew, and run it once"
                )

    def _end(self, begun: list[Journal]) -> None:
        while begun:
            begun.pop(0).end()
        if self._pending is not None:
            self._memory.commit(self._pending)
            self._pending, self._count = None, self._count + 1

    def secret(self) -> bytes:
        """The agent's."""
        return self._secret

    def entries(self) -> list[Entry]:
        """In order of commitment."""
        return self._memory.entries() + ([self._pending] if self._pending is not None else [])

    def find(self, task: str, batch: str) -> Entry | None:
        """The entry or None."""
        if self._pending is not None and (self._pending.task, self._pending.batch) == (task, batch):
            return self._pending
        return self._memory.find(task, batch)

    def commit(self, entry: Entry) -> None:
        """In all journals; in memory when they have it."""
        with self.lock():
            if self.find(entry.task, entry.batch) is not None or self._pending is not None:
                raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
            for file in self._files.values():
                file.commit(entry)
            self._pending = entry

    def keep(self, task: str, batch: str, release: Any) -> None:
        """In all journals; in memory when they have it."""
        entry = self._pending
        if entry is None or (entry.task, entry.batch) != (task, batch) or entry.release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is not being released")
        for file in self._files.values():
            file.keep(task, batch, release)
        self._pending = replace(entry, release=(release,))

    def tasks(self) -> dict[str, Counter[Event]]:
        """From memory."""
        return self._memory.tasks()

    def named(self, task: str) -> bool | None:
        """From memory."""
        return self._memory.named(task)

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        """From memory."""
        return self._memory.appearances(task, people)


def journal_of(save: Path) -> Path:
    """The journal stands beside the save; one file has one name, whatever links lead to its folder."""
    return save.absolute().parent.resolve() / (save.name + ".journal")


def refuse_journal(save: Path) -> None:
    """Where nothing is promised there is no journal: one that is there belongs to somebody who promised something."""
    path = journal_of(save)
    if os.path.lexists(path):
        raise BandannaError(f"{path} belongs to a save with a promise, and {save.name} promises nothing: one is astray")


def _owned(path: Path, agent: str, encoding: Encoding) -> Journal:
    if not os.path.lexists(path):
        raise BandannaError(
            f"{path} does not exist: it belongs to the save and knows what was released; keep them together, and with "
            f"them {path.name}-journal, if it is there"
        )
    file = Journal(path, create=False, encoding=encoding)
    if file.note("agent") != agent:
        raise BandannaError(f"{path} is the journal of another agent")
    return file


def _names(file: Journal) -> list[str]:
    """Where the agent keeps further journals."""
    names = file.note("siblings") or []
    if not (isinstance(names, list) and all(isinstance(name, str) and "\0" not in name for name in names)):
        raise BandannaError(f"{file.path} is damaged: its siblings are no paths")
    return names
