"""One journal: a ledger's file that belongs to an agent, and notes that are kept in the same transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.accounting.stores import integrity
from bandanna.accounting.stores.base import Entry
from bandanna.accounting.stores.sqlite import SQLiteStore
from bandanna.errors import ConflictingRelease

NOTES = "agent", "terms", "siblings", "writer", "state", "calibrations"  # whose, for what, where else, how to go on


class Journal(SQLiteStore):
    """One journal: a ledger's file that belongs to an agent and knows the newest state of its policy."""

    _undone = True  # a release that fails never was

    def count(self) -> int:
        """How many releases it holds."""
        return int(self._ask("select coalesce(max(number), 0) from entries")[0][0])

    def newest(self) -> Entry:
        """The newest of its releases."""
        ((task, batch),) = self._ask("select task, batch from entries order by number desc limit 1")
        entry = self.find(task, batch)
        assert entry is not None
        return entry

    def notes(self) -> dict[str, Any]:
        """All that was noted; None where nothing was."""
        rows = [str(key) for (key,) in self._ask("select key from meta where key like 'kept %'")]
        return {key: self.note(key) for key in (*NOTES, *rows)}

    def note(self, key: str) -> Any:
        """What was noted under a key, or None."""
        with self._errors():
            for (text,) in self._ask("select value from meta where key = ?", key):
                return self._encoding.loads(text)
        return None

    def write(self, key: str, value: Any) -> None:
        """Note a value."""
        self.alone(lambda: self._write(key, self._encoding.dumps(value)))

    def _write(self, key: str, text: str) -> None:
        old = self._ask("select value from meta where key = ?", key)
        with self._together():
            self._sql.execute("insert or replace into meta values (?, ?)", (key, text))
            replaced = [integrity.of_note(key, before) for (before,) in old]
            self._account(plus=[integrity.of_note(key, text)], minus=replaced)

    def lacks(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Which of these entries it does not have, of which it has a first part."""
        mine = self.entries()
        same = [one.fingerprint for one in mine] == [one.fingerprint for one in entries[: len(mine)]]
        if not same or len(mine) > len(entries):
            raise ConflictingRelease(f"{self.path} has releases that this agent does not know: load the agent anew")
        return entries[len(mine) :]

    def clear(self) -> None:
        """Forget everything but the secret."""
        self.alone(self._clear)

    def _clear(self) -> None:
        with self._together():
            for table in ("entries", "members", "tallies", "events"):
                self._sql.execute(f"delete from {table}")
            self._sql.execute("delete from meta where key not in ('secret', 'sum')")
            self._sql.execute("update meta set value = zeroblob(32) where key = 'sum'")

    def catch_up(self, entries: Sequence[Entry], notes: dict[str, Any]) -> None:
        """Bring it to exactly these entries, of which it has a first part."""
        self.alone(lambda: self._catch_up(entries, notes))

    def _catch_up(self, entries: Sequence[Entry], notes: dict[str, Any]) -> None:
        for entry in self.lacks(entries):
            self.commit(entry)
        for key, value in notes.items():
            self.write(key, value)
