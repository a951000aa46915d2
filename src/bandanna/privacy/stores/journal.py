"""Journals beside an agent's saves: a release in a journal stays released, whichever save is loaded later."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bandanna.errors import BandannaError, ConflictingRelease
from bandanna.privacy.stores.base import LedgerEntry, MemoryStore, Result
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.storage.encoding import Encoding

# One journal


NOTES = "agent", "terms", "siblings", "writer", "state", "calibrations"


class JournalFile(SQLiteStore):
    """A ledger's file that belongs to one agent and notes the newest state of its policy."""

    _undone = True  # a release that fails never was

    def count(self) -> int:
        return int(self._run_query("select coalesce(max(number), 0) from entries")[0][0])

    def newest(self) -> LedgerEntry:
        ((task, batch),) = self._run_query("select task, batch from entries order by number desc limit 1")
        entry = self.find(task, batch)
        assert entry is not None
        return entry

    def notes(self) -> dict[str, Any]:
        rows = [str(key) for (key,) in self._run_query("select key from meta where key like 'kept %'")]
        return {key: self.note(key) for key in (*NOTES, *rows)}

    def note(self, key: str) -> Any:
        with self._errors():
            for (text,) in self._run_query("select value from meta where key = ?", key):
                return self._encoding.loads(text)
        return None

    def write(self, key: str, value: Any) -> None:
        self.alone(lambda: self._write(key, self._encoding.dumps(value)))

    def _write(self, key: str, text: str) -> None:
        old = self._run_query("select value from meta where key = ?", key)
        with self._together():
            self._sql.execute("insert or replace into meta values (?, ?)", (key, text))
            replaced = [["note", key, before] for (before,) in old]
            self._account(plus=[["note", key, text]], minus=replaced)

    def lacks(self, entries: Sequence[LedgerEntry]) -> Sequence[LedgerEntry]:
        """Return the entries that the journal lacks; it has a first part of them."""
        mine = self.entries()
        same = [one.fingerprint for one in mine] == [one.fingerprint for one in entries[: len(mine)]]
        if not same or len(mine) > len(entries):
            raise ConflictingRelease(f"{self.path} has releases that this agent does not know: load the agent anew")
        return entries[len(mine) :]

    def clear(self) -> None:
        """Delete everything but the secret."""
        self.alone(self._clear)

    def _clear(self) -> None:
        with self._together():
            for table in ("entries", "members", "tallies", "events"):
                self._sql.execute(f"delete from {table}")
            self._sql.execute("delete from meta where key not in ('secret', 'sum')")
            self._sql.execute("update meta set value = zeroblob(32) where key = 'sum'")

    def catch_up(self, entries: Sequence[LedgerEntry], notes: dict[str, Any]) -> None:
        """Bring the journal to exactly these entries; it has a first part of them."""
        self.alone(lambda: self._catch_up(entries, notes))

    def _catch_up(self, entries: Sequence[LedgerEntry], notes: dict[str, Any]) -> None:
        for entry in self.lacks(entries):
            self.commit(entry)
        for key, value in notes.items():
            self.write(key, value)


# All journals of an agent


class ReplicatedJournal(MemoryStore):
    """The ledger store of an agent: in memory, and in the journals at all paths where the agent was saved.

    A release is one transaction: the expense, the noisy result and the policy's new state become durable together. The
    owner lets one thread use it at a time, and calls `settle` after an interrupted call.
    """

    def __init__(self, *, agent: str, terms: Any, secret: bytes, encoding: Encoding) -> None:
        super().__init__()
        self._agent, self._secret, self._encoding = agent, secret, encoding
        self._terms = {"of": terms, "secret": hashlib.sha256(secret).hexdigest()}  # of every journal, from the first on
        self._writer = secrets.token_hex(16)  # distinguishes releases of this run from those of another process
        self._states: dict[int, Any] = {}  # what was noted as the state, by the number of releases
        self._files: dict[Path, JournalFile] = {}
        self._pending: LedgerEntry | None = None
        self._coming: Any = None

    @classmethod
    def load(
        cls, path: Path, *, agent: str, terms: Any, secret: bytes, encoding: Encoding
    ) -> tuple[ReplicatedJournal, dict[str, Any]]:
        """Load the journals of an agent saved at `path`, bring all up to the newest, and return its notes."""
        made, first = (
            cls(agent=agent, terms=terms, secret=secret, encoding=encoding),
            _open_journal(path, agent, encoding),
        )
        others = {Path(name) for name in _list_sibling_paths(first)} - {first.path}
        found = [JournalFile(other, create=False, encoding=encoding) for other in sorted(others) if other.is_file()]
        files = [first, *(file for file in found if file.note("agent") == agent)]  # a path may be another's by now
        for file in files:
            made._bind(file)
        newest = max(files, key=JournalFile.count)
        entries, notes = newest.entries(), newest.notes()
        for file in files:
            if file.lacks(entries):
                file.catch_up(entries, notes)
        for entry in entries:
            MemoryStore.commit(made, entry)
        made._states = {len(entries): notes["state"]}
        made._files = {file.path: file for file in files}
        return made, notes

    def attach(self, save: Path, notes: dict[str, Any]) -> None:
        """Write every release to the journal of a save too, from the first one on."""
        path = find_journal_path(save)
        if path in self._files and path.is_file() and self._files[path].note("agent") == self._agent:
            return
        file = JournalFile(path, encoding=self._encoding)
        self._files.pop(path, None)  # that file is gone
        siblings = [str(one) for one in (*self._files, path)]
        own = {"agent": self._agent, "terms": self._terms, "siblings": siblings, "writer": self._writer}

        def begin() -> None:
            self._claim(file, save)
            file.catch_up(self.entries(), notes | own | {"saved": save.exists()})

        file.alone(begin)
        self.alone(lambda: self._write({"siblings": siblings}))
        self._files[path] = file  # now that each knows of all

    def saved(self, save: Path) -> None:
        file = self._files[find_journal_path(save)]
        if file.note("saved") is False:
            file.write("saved", True)

    def _claim(self, file: JournalFile, save: Path) -> None:
        """Refuse a foreign journal; take over one of a first save that was interrupted."""
        if file.note("agent") in (None, self._agent):
            return
        if file.note("saved") is not False or save.exists():
            raise BandannaError(
                f"{file.path} is the journal of another agent: load it, save elsewhere, or remove it with its save"
            )
        file.clear()

    def _bind(self, file: JournalFile) -> None:
        if file.note("terms") != self._terms:
            raise BandannaError(f"{file.path} was made for another policy, budget or key than the save's")

    def state(self) -> Any:
        return self._states.get(self.count())

    def record_state(self, notes: dict[str, Any]) -> None:
        """Note the newest state, as part of the release that is being made."""
        self._coming = notes["state"]
        self._write(notes | {"writer": self._writer})

    def _write(self, notes: dict[str, Any]) -> None:
        for file in self._files.values():
            for key, value in notes.items():
                file.write(key, value)

    def alone(self, work: Callable[[], Result]) -> Result:
        """Run one transaction in all journals, which is undone if the work raises."""
        self._pending = None
        result = self._in_each(sorted(self._files), work)  # in one order: no two processes wait for each other
        if self._pending is not None:
            entry, self._pending = self._pending, None
            self._remember(entry, self._coming)
        return result

    def _in_each(self, paths: Sequence[Path], work: Callable[[], Result]) -> Result:
        if not paths:
            return work()
        file = self._files[paths[0]]

        def inside() -> Result:
            if (file.note("agent"), file.count()) != (self._agent, self.count()):
                raise ConflictingRelease(
                    f"{file.path} has a release by another process that runs this agent too; nothing was released "
                    "here. Load the agent anew, and run it once"
                )
            return self._in_each(paths[1:], work)

        return file.alone(inside)

    def _remember(self, entry: LedgerEntry, state: Any) -> None:
        """Count the entry and its state in one step: an interrupt finds both or neither."""
        count = self.count()
        self._states = {count: self._states.get(count), count + 1: state}
        super().commit(entry)

    def settle(self) -> None:
        """Bring memory up to the journals after an interruption."""
        self._pending = None
        files = [self._files[path] for path in sorted(self._files) if not self._files[path].read_only]
        for file in files:
            file.alone(partial(self._adopt, file))
        newest = max(files, key=JournalFile.count, default=None)
        if newest is not None and newest.count() == self.count():
            for file in files:
                if file.count() < self.count():
                    file.catch_up(self.entries(), newest.notes())

    def _adopt(self, file: JournalFile) -> None:
        """Take over a release that this run has written but, interrupted, does not know."""
        if file.count() == self.count() + 1 and file.note("writer") == self._writer:
            self._remember(file.newest(), file.note("state"))

    def entries(self) -> list[LedgerEntry]:
        return super().entries() + ([self._pending] if self._pending is not None else [])

    def find(self, task: str, batch: str) -> LedgerEntry | None:
        if self._pending is not None and (self._pending.task, self._pending.batch) == (task, batch):
            return self._pending
        return super().find(task, batch)

    def commit(self, entry: LedgerEntry) -> None:
        """Add an entry to all journals, as part of `alone`; in memory when they have it."""
        if self.find(entry.task, entry.batch) is not None or self._pending is not None:
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        for file in self._files.values():
            file.commit(entry)
        self._pending, self._coming = entry, self.state()

    def keep(self, task: str, batch: str, release: Any) -> None:
        entry = self._pending
        if entry is None or (entry.task, entry.batch) != (task, batch) or entry.release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is not being released")
        for file in self._files.values():
            file.keep(task, batch, release)
        self._pending = replace(entry, release=(release,))


def find_journal_path(save: Path) -> Path:
    """Return the path of the journal beside a save, with links to its folder resolved."""
    return save.absolute().parent.resolve() / (save.name + ".journal")


def refuse_journal(save: Path) -> None:
    """Refuse a journal beside a save without privacy: it belongs to an agent with a budget."""
    path = find_journal_path(save)
    if os.path.lexists(path):
        raise BandannaError(f"{path} belongs to a save with a promise, and {save.name} promises nothing: one is astray")


def _open_journal(path: Path, agent: str, encoding: Encoding) -> JournalFile:
    if not os.path.lexists(path):
        raise BandannaError(
            f"{path} does not exist: it belongs to the save and knows what was released; keep them together, and with "
            f"them {path.name}-journal, if it is there"
        )
    file = JournalFile(path, create=False, encoding=encoding)
    if file.note("agent") != agent:
        raise BandannaError(f"{path} is the journal of another agent")
    return file


def _list_sibling_paths(file: JournalFile) -> list[str]:
    names = file.note("siblings") or []
    if not (isinstance(names, list) and all(isinstance(name, str) and "\0" not in name for name in names)):
        raise BandannaError(f"{file.path} is damaged: its siblings are no paths")
    return names
