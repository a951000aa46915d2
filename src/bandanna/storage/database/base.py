"""Databases of roles: transactions of one writer, snapshots of many readers, one serving process.

A serving process holds a claim: a lock, and a generation. Claiming a database adds 1 to its generation, under the lock.
A process that was stopped, or whose lock was lost, finds another generation at its next transaction and is fenced: it
writes nothing, reads nothing, and ends.

A database has one `DatabaseConnection` to write, which one thread has at a time, and one for each simultaneous reader.
A signal may raise between any two lines: only `with` takes locks, and a transaction left open is undone before the next
one begins.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage import files

# Errors


class StorageError(BandannaError):
    """The database failed. Nothing of the transaction is stored, unless the message says that it may be."""


class FencedError(StorageError):
    """Another process has taken over the database, so this one writes nothing more and has to end.

    Its memory may be old, so it must answer no request.
    """


# Portable SQL


_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|[?;]|\{\w*\}""")
_TYPES = frozenset({int, bool, float, str, bytes, type(None)})
_ALLOWED = "None, bytes, a text without NUL and half characters, a 64-bit integer or a float that is not NaN"


def split_statements(script: str, types: Mapping[str, str]) -> list[str]:
    """Return a script's statements with the dialect's types."""

    def replace_part(found: re.Match[str]) -> str:
        part = found[0]
        if part == ";":
            return "\0"
        if part[0] != "{":
            return "" if part.startswith("--") else part
        if part[1:-1] not in types:
            allowed = "a script with no placeholders but " + ", ".join(f"{{{name}}}" for name in types)
            raise InvalidArgument("schema", part, allowed)
        return types[part[1:-1]]

    return [statement.strip() for statement in _PARTS.sub(replace_part, script).split("\0") if statement.strip()]


@lru_cache(maxsize=512)
def number_parameters(sql: str) -> str:
    """Return the statement with $1, $2, ... for question marks outside of texts and names."""
    numbers = itertools.count(1)
    return _PARTS.sub(lambda found: f"${next(numbers)}" if found[0] == "?" else found[0], sql)


def check_values(values: Sequence[Any]) -> None:
    """Refuse values that some dialect would change."""
    for value in values:
        kind = type(value)
        fits = kind in _TYPES and value == value  # not NaN
        if kind is int:
            fits = -(1 << 63) <= value < 1 << 63
        elif kind is str:  # a lone surrogate has no encoding
            fits = "\0" not in value and (value.isascii() or value.encode(errors="replace").decode() == value)
        if not fits:
            raise InvalidArgument("value to store", value, _ALLOWED)


def check_rows(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return rows; refuse values that some dialect would change."""
    listed = list(rows)
    lengths = {len(row) for row in listed}
    for column in zip(*listed, strict=True) if len(lengths) == 1 else listed:  # by columns: most are of one kind
        kinds = set(map(type, column))
        if kinds == {int}:
            check_values((min(column), max(column)))
        elif kinds != {bytes}:
            check_values(column)
    return listed


# Transactions and claims


Row = tuple[Any, ...]
SELECT_GENERATION = "select generation from claim where one = 1"


class DatabaseConnection(ABC):
    """One connection; every error of the driver is raised as StorageError."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether the connection is broken for good."""

    @abstractmethod
    def begin(self, *, writing: bool, claimed: bool = False) -> int | None:
        """Undo a transaction that was left open and begin one, to write alone among all processes or to read.

        If `claimed`, the first statement reads the claim's generation, which is returned.
        """

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement and return its rows."""

    @abstractmethod
    def many(self, sql: str, rows: list[Sequence[Any]]) -> None:
        """Run one statement per row."""

    @abstractmethod
    def commit(self) -> None:
        """Commit durably; undo the transaction if that fails, unless the connection is lost."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo everything since `begin`."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; never raise."""


class Transaction:
    """Statements that run together or not at all. After a failure, no more are accepted."""

    def __init__(self, link: DatabaseConnection, dialect: str) -> None:
        self.dialect = dialect
        self._link, self._over, self._failure = link, False, ""

    def execute(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement with `?` for its values and return all rows. Blobs are bytes."""
        check_values(values)
        with self._noting_failure():
            return self._link.execute(sql, values)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for many rows; `insert into t (a, b) values (?, ?)` is the fastest."""
        listed = check_rows(rows)
        with self._noting_failure():
            if listed:
                self._link.many(sql, listed)

    @contextmanager
    def _noting_failure(self) -> Generator[None]:
        self._check_usable()
        try:
            yield
        except StorageError as error:
            self._failure = str(error)
            raise

    def _check_usable(self) -> None:
        if self._over:
            raise BandannaError("this transaction is over: begin another one")
        if self._failure:
            raise StorageError(f"this transaction has failed and does nothing more: {self._failure}")


class Database(ABC):
    """The tables of one role, for all threads of one process. A forked process opens it anew."""

    dialect: ClassVar[str]
    patience: ClassVar[float] = 30.0  # seconds to wait for another process's transaction
    claiming: ClassVar[float] = 5.0  # seconds to wait until the server has noticed that a serving process is dead

    def __init__(self, name: str) -> None:
        self.name = name  # for messages: no password
        self._pid = os.getpid()
        self._write_lock, self._owner = threading.Lock(), 0  # the thread that writes
        self._writer: DatabaseConnection | None = None
        self._idle: list[DatabaseConnection] = []  # to read
        self._links: set[DatabaseConnection] = set()  # all of them
        self._generation: int | None = None  # of the claim; None: this process does not serve
        self.fenced = False  # whether another process has taken over: for ever
        self._finish = weakref.finalize(self, _close_all, self._links, self._pid)

    @abstractmethod
    def _connect(self, *, writing: bool) -> DatabaseConnection:
        """Open a new connection."""

    @abstractmethod
    def _take_lock(self) -> None:
        """Take the lock of the serving process; raise BandannaError if another has it."""

    def claim(self) -> None:
        """Make this process the only one that serves the database, until `close` or its own end.

        The claim's generation grows by 1, which fences an earlier serving process even if it only slept.
        """
        self._check_usable("claim")
        if self.claimed:
            return self.check_claim()
        self._take_lock()
        with self.transaction() as rows:
            ((before,),) = rows.execute(SELECT_GENERATION)
            holder = f"{socket.gethostname()} {os.getpid()}"
            rows.execute("update claim set generation = ?, holder = ? where one = 1", before + 1, holder)
        self._generation = before + 1

    @property
    def claimed(self) -> bool:
        """Whether this process has claimed the database; it may have been fenced since."""
        return self._generation is not None

    def check_claim(self) -> None:
        """Raise FencedError if another process has claimed the database after this one did.

        Call it before sending anything without a transaction: messages, and answers from memory.
        """
        if not self.claimed:
            return
        with self.reading() as rows:
            self._compare_generation(int(rows.execute(SELECT_GENERATION)[0][0]))

    def _compare_generation(self, generation: int | None) -> None:
        """Fence this process permanently unless the claim is its own."""
        if generation != self._generation:
            self.fenced = True
            self._check_fence()

    def _check_fence(self) -> None:
        if self.fenced:
            raise FencedError(f"{self.name} was taken over by another process: this one has to end")

    def scrub(self) -> bool:
        """Overwrite deleted data, also in logs; return False if that must wait for others."""
        return False

    def close(self) -> None:
        """Close all connections, undo open transactions and give up the claim."""
        self._finish()

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        """Begin to write: alone among all threads and processes, durable at the end, undone if the body raises."""
        self._check_usable("transaction")
        with self._write_lock:
            self._owner = threading.get_ident()
            try:
                # With a claim, a lost connection is not replaced silently, because the process's memory may be old: its
                # transaction fails, the process reads its memory anew, and the next transaction takes the lock again.
                if self.claimed and self._writer is not None and self._writer.lost:
                    raise StorageError(f"{self.name} failed: the session that held the claim was lost; repeat")
                self._writer = link = self._begin(self._writer, writing=True)
                yield from self._run(link)
            finally:
                if self.claimed and self._writer is not None and (self._writer.lost or self.fenced):
                    link, self._writer = self._writer, None
                    self._drop(link)
                self._owner = 0

    @contextmanager
    def reading(self) -> Generator[Transaction]:
        """Begin to read the state at the first statement, without waiting for writers."""
        self._check_usable("reading")
        link, reusable = None, False
        try:
            with suppress(IndexError):
                link = self._idle.pop()
            link = self._begin(link, writing=False)
            try:
                yield from self._run(link)
            except Exception:
                reusable = True
                raise
            reusable = True
        finally:
            if link is not None:
                if reusable and self._finish.alive and not link.lost:
                    self._idle.append(link)
                else:  # a signal may have interrupted it
                    self._drop(link)

    def _begin(self, link: DatabaseConnection | None, *, writing: bool) -> DatabaseConnection:
        """Return a connection in a transaction; replace one that was lost while idle."""
        if link is not None and not link.lost:
            try:
                return self._begin_on(link, writing=writing)
            except StorageError:
                if not link.lost or (writing and self.claimed):
                    raise
        if link is not None:
            self._drop(link)
        link = self._connect(writing=writing)
        self._links.add(link)
        if not self._finish.alive:  # `close` ran meanwhile and may not have seen this connection
            self._drop(link)
            raise StorageError(f"{self.name} is closed")
        return self._begin_on(link, writing=writing)

    def _begin_on(self, link: DatabaseConnection, *, writing: bool) -> DatabaseConnection:
        claimed = writing and self.claimed
        generation = link.begin(writing=writing, claimed=claimed)
        if claimed:
            try:
                self._compare_generation(generation)
            except FencedError:
                with suppress(StorageError):
                    link.rollback()
                raise
        return link

    def _drop(self, link: DatabaseConnection) -> None:
        link.close()
        self._links.discard(link)

    def _run(self, link: DatabaseConnection) -> Generator[Transaction]:
        transaction = Transaction(link, self.dialect)
        try:
            yield transaction
            transaction._check_usable()  # a failure that the body has caught is one all the same
            transaction._over = True
            link.commit()
        except BaseException:
            transaction._over = True
            with suppress(StorageError):  # the cause is raised
                link.rollback()
            raise

    def _check_usable(self, operation: str) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError(f"{self.name} was opened by another process: open it anew in this one")
        if not self._finish.alive:
            raise BandannaError(f"{self.name} is closed")
        self._check_fence()
        if self._write_lock.locked() and self._owner == threading.get_ident():  # the owner may be old
            raise BandannaError(f"{operation} of {self.name} inside a transaction of the same thread: use that one")


def _close_all(links: set[DatabaseConnection], pid: int) -> None:
    if os.getpid() == pid:  # connections belong to the process that made them
        for link in list(links):
            link.close()


# Lock files


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """A lock that is a file, held by one process and released by its end.

    The file stays: removing it would let two processes hold two files of one name.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def acquire(self) -> bool:
        """Take the lock; return False if another process has it."""
        if self._handle >= 0:
            return True
        files.check_regular_file(self._path)
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with suppress(OSError):
                os.close(handle)


# Tables of a role


VERSION = 1  # of the tables of every role
_ROLE = re.compile("[a-z][a-z0-9_]{0,39}", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_OWN_TABLES = """
create table about (role text not null, version {bigint} not null);
create table claim (one {bigint} primary key, generation {bigint} not null, holder text not null);
insert into claim (one, generation, holder) values (1, 0, '')
"""


def open_database(url: str, *, role: str, schema: str) -> Database:
    """Open the tables of a role, made in an empty database.

    Parameters
    ----------
    url
        A path or sqlite:///path for an SQLite file, or postgresql://..., where each role has its schema
        `bandanna_<role>`.
    role
        A database of another role is refused.
    schema
        Statements separated by ";", in SQL of both dialects, with {blob}, {serial} (a counting primary key), {bigint}
        and {real} for types.
    """
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        allowed = "at most 40 small letters, digits and underscores that begin with a letter"
        raise InvalidArgument("role", role, allowed)
    if not isinstance(schema, str):
        raise InvalidArgument("schema", schema, "a text of SQL statements")
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if scheme is None or (scheme[1] == "sqlite" and url.startswith("sqlite:///")):
        from bandanna.storage.database import sqlite

        path = url if scheme is None else url.removeprefix("sqlite:///")
        database: Database = sqlite.SQLiteDatabase(validation.path("url", path).absolute())
        types, tables, before = sqlite.COLUMN_TYPES, sqlite.SELECT_TABLES, ""
    elif scheme[1] in ("postgresql", "postgres") and url.startswith(f"{scheme[1]}://"):
        from bandanna.storage.database import postgres

        database = postgres.PostgresDatabase(url, role=role)
        types, tables = postgres.COLUMN_TYPES, postgres.SELECT_TABLES
        before = f"create schema if not exists {database.schema}"
    else:  # the message shows no password
        allowed = "a path, sqlite:///path (sqlite:////path from the root), or postgresql://user@host/database"
        raise InvalidArgument("url", f"{scheme[0]}...", allowed)
    try:
        _make_tables(database, role, schema, types=types, tables=tables, before=before)
    except BaseException:
        database.close()
        raise
    return database


def _make_tables(
    database: Database, role: str, schema: str, *, types: Mapping[str, str], tables: str, before: str
) -> None:
    """Make a role's tables in one transaction; refuse those of another role or version.

    `tables` queries the database's table names; `before` runs first in a new database.
    """
    script = split_statements(schema, types)  # before anything is changed
    with database.reading() as transaction:
        if _has_tables(transaction, database.name, role, tables):
            return
    with database.transaction() as transaction:
        if _has_tables(transaction, database.name, role, tables):  # made by another process in the meantime
            return
        for statement in (before, *split_statements(_OWN_TABLES, types), *script):
            if statement:
                transaction.execute(statement)
        transaction.execute("insert into about (role, version) values (?, ?)", role, VERSION)


def _has_tables(transaction: Transaction, name: str, role: str, tables: str) -> bool:
    names = {table for (table,) in transaction.execute(tables)}
    if not names:
        return False
    rows = transaction.execute("select role, version from about") if "about" in names else []
    if len(rows) != 1:
        raise BandannaError(f"{name} contains tables of another program: choose another database")
    ((found, version),) = rows
    if found != role:
        raise BandannaError(f"{name} belongs to the role {found!r}, not to {role!r}: give every role its own database")
    if version != VERSION:
        raise BandannaError(f"{name} has tables of version {version}; this program reads version {VERSION}")
    return True
