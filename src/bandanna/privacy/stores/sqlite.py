"""A ledger store in an SQLite file; a keyed sum over all rows shows whether the file is whole."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

from bandanna import validation
from bandanna.errors import BandannaError, ConflictingRelease, Unreadable
from bandanna.privacy.events import EVENTS, Event
from bandanna.privacy.stores.base import LedgerEntry, Result, TableStore
from bandanna.storage import files
from bandanna.storage.encoding import Encoding

# Keyed sum of all rows


SCHEMA = """
create table meta (key text primary key, value blob) without rowid;
create table events (id integer primary key, event text unique not null);
create table entries (
    number integer primary key, task text not null, batch text not null, event integer not null,
    fingerprint text not null, release text, unique (task, batch));
create table members (
    entry integer, place integer, task text not null, member text not null, primary key (entry, place)) without rowid;
create index people on members (task, member);
create table tallies (task text, event integer, count integer, primary key (task, event)) without rowid;
"""
SELECT_ENTRY = """
select number, task, batch, events.event, fingerprint, release
from entries join events on events.id = entries.event
"""
_HASH = re.compile("[0-9a-f]{64}", re.ASCII)
_SIZE = 32  # bytes of a hash
_INTEGRITY_CHECKS = {  # queries that must find nothing
    "an entry without its event": "select 1 from entries where event not in (select id from events)",
    "members of no entry": "select 1 from members where entry not in (select number from entries)",
    "members of another task than their entry": """
        select 1 from members join entries on entry = number where members.task is not entries.task""",
    "members that are missing": "select 1 from members group by entry having count(*) != max(place) + 1",
    "tallies that are not those of the entries": """
        select 1 from (select task, event, count(*) from entries group by task, event except select * from tallies)
        union all
        select 1 from (select * from tallies except select task, event, count(*) from entries group by task, event)""",
    "values of a wrong type": """
        select 1 from entries where typeof(task) != 'text' or typeof(batch) != 'text' or typeof(fingerprint) != 'text'
            or typeof(release) not in ('text', 'null')
        union all select 1 from members where typeof(task) != 'text'
            or typeof(member) != case when length(member) = 32 and typeof(member) = 'blob' then 'blob' else 'text' end
        union all select 1 from events where typeof(event) != 'text'
        union all select 1 from meta where typeof(key) != 'text'
            or typeof(value) != case when key in ('secret', 'sum') then 'blob' else 'text' end""",
}


def pack_member(member: str) -> str | bytes:
    """Return a member as stored: a hash of 64 hexadecimal digits as its 32 bytes."""
    return bytes.fromhex(member) if _HASH.fullmatch(member) else member


def unpack_member(stored: str | bytes) -> str:
    """Return the inverse of `pack_member`."""
    return stored.hex() if isinstance(stored, bytes) else stored


def shift_sum(total: bytes, secret: bytes, *, plus: Iterable[list[Any]] = (), minus: Iterable[list[Any]] = ()) -> bytes:
    """Return the sum after rows were added and taken away.

    The file states the sum of all rows' keyed hashes modulo 2^256. It differs for a file with a flipped bit, or with
    pages from before and after a transaction.
    """
    number = int.from_bytes(total)
    number += sum(_hash(secret, row) for row in plus) - sum(_hash(secret, row) for row in minus)
    return (number % (1 << 8 * _SIZE)).to_bytes(_SIZE)


def sum_rows(sql: sqlite3.Connection, secret: bytes) -> bytes:
    """Return the sum of all rows in the file."""
    return shift_sum(bytes(_SIZE), secret, plus=_rows(sql))


def find_fault(sql: sqlite3.Connection) -> str | None:
    """Check the integrity of the tables. Return the first fault as text, or None."""
    (first,) = sql.execute("pragma integrity_check(1)").fetchone()
    if first != "ok":
        return str(first)
    if _tables(sql) != _expected_tables():
        return "its tables are not those of a ledger"
    return next((fault for fault, query in _INTEGRITY_CHECKS.items() if sql.execute(query).fetchone()), None)


def _tables(sql: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(sql.execute("select type, name, tbl_name, sql from sqlite_master"))


@lru_cache(maxsize=1)
def _expected_tables() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as sql:
        sql.executescript(SCHEMA)
        return _tables(sql)


def _rows(sql: sqlite3.Connection) -> Iterator[list[Any]]:
    query = "select entry, member from members order by entry, place"
    grouped = groupby(sql.execute(query), lambda row: row[0])
    members = {entry: [unpack_member(member) for _, member in rows] for entry, rows in grouped}
    for number, task, batch, event, fingerprint, release in sql.execute(SELECT_ENTRY):
        yield ["entry", number, task, batch, event, fingerprint, *members.get(number, ())]
        if release is not None:
            yield ["release", number, release]
    for key, value in sql.execute("select key, value from meta where key not in ('secret', 'sum')"):
        yield ["note", key, value]


def _hash(secret: bytes, row: list[Any]) -> int:
    return int.from_bytes(hmac.digest(secret, json.dumps(row).encode(), hashlib.sha256))


# The file


_PATIENCE = 30.0  # seconds to wait for another process's lock


class SQLiteFile:
    """A file, created with mode 0600 if `create`, and a connection to it: one transaction at a time, whole or undone.

    A signal may raise between any two lines. So only `with` takes locks, and an open transaction is undone before the
    next one begins.
    """

    _undone = False  # whether a transaction whose work raises is undone; or what was done stays, as in other stores

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._pid, self._guard, self._begun = os.getpid(), threading.RLock(), threading.Lock()
        self._whole = True  # False while something is half written
        with self._errors():
            if create and not os.path.lexists(self.path):
                files.create_private_file(self.path)
            elif not os.path.lexists(self.path):
                raise BandannaError(f"{self.path} does not exist")
            self.read_only = not files.secure_private_file(self.path)
            for other in find_companion_files(self.path):
                with suppress(FileNotFoundError):  # another process has just ended its transaction
                    files.secure_private_file(other)
            self._connect()

    def _connect(self) -> None:
        address = f"{self.path.as_uri()}?mode={'ro' if self.read_only else 'rw'}"
        self._sql = sqlite3.connect(
            address, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        self.close = weakref.finalize(self, self._sql.close)

    def alone(self, work: Callable[[], Result]) -> Result:
        self._at_home()
        if self.read_only:
            raise BandannaError(f"{self.path} can only be read where it is: nothing was released or spent")
        with self._guard:
            if self._begun.locked():  # by this thread, which has the guard: inside a transaction of its own
                return work()
            with self._begun:
                self._begin()
                try:
                    result = work()
                except BaseException:
                    with suppress(sqlite3.Error):  # the cause is what was raised
                        self._end("commit" if self._whole and not self._undone else "rollback")
                    raise
                with self._errors():
                    self._end("commit")
                return result

    def _begin(self) -> None:
        with self._errors():
            if self._sql.in_transaction:  # an interrupt has left it; nothing of it was seen
                self._sql.execute("rollback")
            self._whole = True
            self._sql.execute("begin immediate")

    def _end(self, how: str) -> None:
        try:
            self._sql.execute(how)
        finally:
            with suppress(sqlite3.Error):
                if self._sql.in_transaction:  # that failed: others need not wait until we use the file again
                    self._sql.execute("rollback")

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self._errors():
            self._whole = False
            yield
            self._whole = True

    def _run_query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        self._at_home()
        with self._guard, self._errors():
            return self._sql.execute(query, values).fetchall()

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError(f"{self.path} was opened by another process: open it anew in this one")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError, Unreadable) as error:
            reason = str(getattr(error, "strerror", None) or error)  # a text, since the error refers to this frame
            raise BandannaError(f"{self.path} cannot be used as a ledger's file: {reason}") from error


def find_companion_files(path: Path) -> list[Path]:
    """Return the files that SQLite keeps beside a ledger's file; non-empty ones belong to it."""
    return [other for end in ("-journal", "-wal", "-shm") if os.path.lexists(other := path.with_name(path.name + end))]


# The store


APPLICATION_ID, VERSION = 0x62616E64, 1  # marks the file as ours: "band"
_SELECT_MARKS = """
select application_id, user_version, (select count(*) from sqlite_master)
from pragma_application_id, pragma_user_version
"""


class SQLiteStore(SQLiteFile, TableStore):
    """A store in one file, created with mode 0600. Work in `alone` is one transaction, synced at its end.

    Releases may be numbers, texts, arrays, lists, tuples, dictionaries and `Estimate`s.

    Parameters
    ----------
    path
        The file.
    create
        Whether to create a file that does not exist.
    encoding
        The format of events and releases; by default with the kinds listed in `events.EVENTS`.
    """

    def __init__(self, path: str | PathLike[str], *, create: bool = True, encoding: Encoding | None = None) -> None:
        super().__init__(validation.path("path", path).absolute(), create=create)
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
            self._sql.execute(f"pragma application_id = {APPLICATION_ID}")
            total = sum_rows(self._sql, bytes(self._get("secret")))
            self._sql.execute("insert into meta values ('sum', ?)", (total,))
            self._sql.execute(f"pragma user_version = {VERSION}")

    def _version(self) -> int:
        """Return the version of the file's tables; 0 if it is empty.

        A single statement reads it, because another process may make the file between two.
        """
        ((mark, version, tables),) = self._run_query(_SELECT_MARKS)
        if not tables:
            return 0
        if mark != APPLICATION_ID or version != VERSION:
            raise BandannaError(f"{self.path} is not a ledger's file of version {VERSION}")
        return int(version)

    def _verify(self) -> None:
        self._sql.execute("begin")
        try:
            wrong = find_fault(self._sql)
            if wrong is None and self._get("sum") != sum_rows(self._sql, self._secret):
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
        total = shift_sum(self._get("sum"), self._secret, plus=plus, minus=minus or [])
        self._sql.execute("update meta set value = ? where key = 'sum'", (total,))

    def secret(self) -> bytes:
        return self._secret

    def _read(self, text: str) -> Any:
        with self._errors():
            return self._encoding.loads(text)

    def _unpack(self, stored: Any) -> str:
        return unpack_member(stored)

    def commit(self, entry: LedgerEntry) -> None:
        self.alone(lambda: self._insert(entry))

    def _insert(self, entry: LedgerEntry) -> None:
        text = self._encoding.dumps(entry.event)
        release = None if entry.release is None else self._encoding.dumps(entry.release[0])
        if self._run_query("select 1 from entries where task = ? and batch = ?", entry.task, entry.batch):
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        with self._together():
            self._sql.execute("insert or ignore into events (event) values (?)", (text,))
            ((event,),) = self._run_query("select id from events where event = ?", text)
            row = entry.task, entry.batch, event, entry.fingerprint, release
            number = self._sql.execute(
                "insert into entries (task, batch, event, fingerprint, release) values (?, ?, ?, ?, ?)", row
            ).lastrowid
            assert number is not None
            members = enumerate(map(pack_member, entry.members))
            listed = ((number, place, entry.task, member) for place, member in members)
            self._sql.executemany("insert into members values (?, ?, ?, ?)", listed)
            self._sql.execute(
                "insert into tallies values (?, ?, 1) on conflict do update set count = count + 1", (entry.task, event)
            )
            rows = [["entry", number, entry.task, entry.batch, text, entry.fingerprint, *entry.members]]
            self._account(plus=rows + ([["release", number, release]] if release is not None else []))

    def keep(self, task: str, batch: str, release: Any) -> None:
        self.alone(lambda: self._store(task, batch, self._encoding.dumps(release)))

    def _store(self, task: str, batch: str, text: str) -> None:
        rows = self._run_query(f"{self._select} where task = ? and batch = ?", task, batch)
        if not rows:
            raise LookupError(f"task {task!r}, batch {batch!r} is not committed")
        number, *_, release = rows[0]
        if release is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        with self._together():
            self._sql.execute("update entries set release = ? where number = ?", (text, number))
            self._account(plus=[["release", number, text]])

    def named(self, task: str) -> bool | None:
        query = "select exists (select 1 from members where task = ?), exists (select 1 from tallies where task = ?)"
        ((named, begun),) = self._run_query(query, task, task)
        return bool(named) if begun else None

    def appearances(self, task: str, users: Iterable[str]) -> dict[str, int]:
        query = "select count(*) from members where task = ? and member = ?"
        return {user: self._run_query(query, task, pack_member(user))[0][0] for user in users}

    def _get(self, key: str) -> Any:
        for (value,) in self._run_query("select value from meta where key = ?", key):
            return value
        raise BandannaError(f"{self.path} has no {key!r}: the file is damaged")
