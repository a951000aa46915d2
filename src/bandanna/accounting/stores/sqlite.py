"""Entries in an SQLite file: durable, and exclusive across threads and processes."""

from __future__ import annotations

import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from typing import Any

from bandanna.accounting.encoding import EVENTS
from bandanna.accounting.events import Event
from bandanna.accounting.stores import integrity
from bandanna.accounting.stores.base import Entry, LedgerStore
from bandanna.accounting.stores.integrity import ENTRY, SCHEMA
from bandanna.accounting.stores.transactions import SQLiteFile
from bandanna.core import require
from bandanna.errors import BandannaError, ConflictingRelease
from bandanna.storage.encoding import Encoding

APPLICATION, VERSION = 0x62616E64, 1  # marks the file as ours: "band"
_MARKS = """
select application_id, user_version, (select count(*) from sqlite_master)
from pragma_application_id, pragma_user_version
"""


class SQLiteStore(SQLiteFile, LedgerStore):
    """A store in one file, made with mode 0600. What happens in `alone` is one transaction, synced when it is done.

    Releases may be numbers, texts, arrays, lists, tuples, dictionaries and `Estimate`s.
    """

    def __init__(self, path: str | PathLike[str], *, create: bool = True, encoding: Encoding | None = None) -> None:
        super().__init__(require.path("path", path).absolute(), create=create)
        self._encoding = encoding or Encoding(EVENTS)
        self._known: dict[str, Event] = {}  # decoded events by their text
        with self._errors():
            try:
                self._open(create)
                self._secret = bytes(self._get("secret"))
                self._verify()
            except BaseException:
                self.close()
                raise

    def _open(self, create: bool) -> None:
        """Make the tables in a new file: in one transaction, by one process."""
        if self._version() != VERSION and not self.read_only:
            self.alone(lambda: self._make(create))
        self._sql.execute("pragma journal_mode = truncate")
        self._sql.execute("pragma synchronous = full")
        self._sql.execute("pragma secure_delete = on")  # what is forgotten is overwritten

    def _make(self, create: bool) -> None:
        if self._version() == VERSION:  # another process may have been quicker
            return
        if not create:
            raise BandannaError(f"{self.path} is not a ledger's file of version {VERSION}")
        with self._together():
            for statement in SCHEMA.split(";"):
                self._sql.execute(statement)
            self._sql.execute("insert into meta values ('secret', ?)", (secrets.token_bytes(32),))
            self._sql.execute(f"pragma application_id = {APPLICATION}")
            total = integrity.summed(self._sql, bytes(self._get("secret")))
            self._sql.execute("insert into meta values ('sum', ?)", (total,))
            self._sql.execute(f"pragma user_version = {VERSION}")

    def _version(self) -> int:
        """Of the file's tables; 0 if it is empty. One statement: between two, another process may make the file."""
        ((mark, version, tables),) = self._ask(_MARKS)
        if not tables:
            return 0
        if mark != APPLICATION or version != VERSION:
            raise BandannaError(f"{self.path} is not a ledger's file of version {VERSION}")
        return int(version)

    def _verify(self) -> None:
        """Refuse a file that is not whole."""
        self._sql.execute("begin")
        try:
            wrong = integrity.fault(self._sql)
            if wrong is None and self._get("sum") != integrity.summed(self._sql, self._secret):
                wrong = "its rows do not add up to its checksum"
        finally:
            with suppress(sqlite3.Error):
                self._end("rollback")
        if wrong is not None:
            raise BandannaError(
                f"{self.path} is damaged: {wrong}. If it was moved or copied after a crash, {self.path.name}-journal "
                "belongs to it: put it back beside it"
            )

    def _account(self, *, plus: list[Any], minus: list[Any] | None = None) -> None:
        """Keep the sum of all rows, in the transaction that changes them."""
        total = integrity.shifted(self._get("sum"), self._secret, plus=plus, minus=minus or [])
        self._sql.execute("update meta set value = ? where key = 'sum'", (total,))

    def secret(self) -> bytes:
        """Drawn when the file was made."""
        return self._secret

    def entries(self) -> list[Entry]:
        """In order of commitment."""
        rows = self._ask(ENTRY + " order by number")  # before their members: those of every row are there
        people: dict[int, list[str]] = {}
        for number, member in self._ask("select entry, member from members order by entry, place"):
            people.setdefault(number, []).append(integrity.unpacked(member))
        with self._errors():
            return [self._entry(row, people.get(row[0], [])) for row in rows]

    def find(self, task: str, batch: str) -> Entry | None:
        """The entry or None."""
        for row in self._ask(ENTRY + " where task = ? and batch = ?", task, batch):
            members = self._ask("select member from members where entry = ? order by place", row[0])
            with self._errors():
                return self._entry(row, [integrity.unpacked(member) for (member,) in members])
        return None

    def _entry(self, row: tuple[Any, ...], members: list[str]) -> Entry:
        _, task, batch, event, fingerprint, release = row
        return Entry(
            task=task,
            batch=batch,
            event=self._event(event),
            fingerprint=fingerprint,
            members=tuple(members),
            release=None if release is None else (self._encoding.loads(release),),
        )

    def _event(self, text: str) -> Event:
        if text not in self._known:
            self._known[text] = self._encoding.loads(text)
        return self._known[text]

    def commit(self, entry: Entry) -> None:
        """Refuses an id that is taken."""
        self.alone(lambda: self._insert(entry))

    def _insert(self, entry: Entry) -> None:
        text = self._encoding.dumps(entry.event)
        release = None if entry.release is None else self._encoding.dumps(entry.release[0])
        if self._ask("select 1 from entries where task = ? and batch = ?", entry.task, entry.batch):
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        with self._together():
            self._sql.execute("insert or ignore into events (event) values (?)", (text,))
            ((event,),) = self._ask("select id from events where event = ?", text)
            row = entry.task, entry.batch, event, entry.fingerprint, release
            number = self._sql.execute(
                "insert into entries (task, batch, event, fingerprint, release) values (?, ?, ?, ?, ?)", row
            ).lastrowid
            assert number is not None
            members = map(integrity.packed, entry.members)
            people = ((number, place, entry.task, member) for place, member in enumerate(members))
            self._sql.executemany("insert into members values (?, ?, ?, ?)", people)
            self._sql.execute(
                "insert into tallies values (?, ?, 1) on conflict do update set count = count + 1", (entry.task, event)
            )
            rows = [integrity.of_entry(number, entry.task, entry.batch, text, entry.fingerprint, entry.members)]
            self._account(plus=rows + ([integrity.of_release(number, release)] if release is not None else []))

    def keep(self, task: str, batch: str, release: Any) -> None:
        """Refuses to replace a release."""
        self.alone(lambda: self._store(task, batch, self._encoding.dumps(release)))

    def _store(self, task: str, batch: str, text: str) -> None:
        rows = self._ask(ENTRY + " where task = ? and batch = ?", task, batch)
        if not rows:
            raise LookupError(f"task {task!r}, batch {batch!r} is not committed")
        number, *_, release = rows[0]
        if release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        with self._together():
            self._sql.execute("update entries set release = ? where number = ?", (text, number))
            self._account(plus=[integrity.of_release(number, text)])

    def tasks(self) -> dict[str, Counter[Event]]:
        """Kept up to date in a table."""
        tasks: dict[str, Counter[Event]] = {}
        query = "select task, events.event, count from tallies join events on events.id = tallies.event"
        with self._errors():
            for task, event, count in self._ask(query):
                tasks.setdefault(task, Counter())[self._event(event)] = count
        return tasks

    def named(self, task: str) -> bool | None:
        """Looked up in an index."""
        query = "select exists (select 1 from members where task = ?), exists (select 1 from tallies where task = ?)"
        ((named, begun),) = self._ask(query, task, task)
        return bool(named) if begun else None

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        """Looked up in an index."""
        query = "select count(*) from members where task = ? and member = ?"
        return {person: self._ask(query, task, integrity.packed(person))[0][0] for person in people}

    def _get(self, key: str) -> Any:
        for (value,) in self._ask("select value from meta where key = ?", key):
            return value
        raise BandannaError(f"{self.path} has no {key!r}: the file is damaged")
