"""The interface of a party's database: transactions of one writer, snapshots of many readers, one serving process.

A serving process holds a claim: a lock, and a generation that only it has. Claiming a database adds 1 to its
generation, under the lock. A process that was stopped, or whose lock was lost, finds another generation at its next
transaction and is fenced: it writes nothing, reads nothing, and ends.

A `DatabaseConnection` is one connection of a dialect. A database has one to write, which one thread has at a time, and
as many to read as there are readers at once. A signal may raise between any two lines: locks that only `with` takes
keep threads apart, and a transaction that was left open is undone before the next one begins.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage import files

# Errors


class StorageError(BandannaError):
    """The database failed: nothing of the transaction is stored, unless the message says that it may be.

    Once the cause is gone, the next transaction works again.
    """


class FencedError(StorageError):
    """Another process has taken over the database: this one writes nothing more, and has to end.

    Its memory may be old, so it must answer nobody. Clients ask again, and reach the process that serves now.
    """


# Portable SQL


_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|[?;]|\{\w*\}""")
_KINDS = frozenset({int, bool, float, str, bytes, type(None)})
_ALLOWED = "None, text without NUL, bytes, 64-bit integers and floats that are numbers; plain ones, no arrays"


def split_statements(script: str, types: Mapping[str, str]) -> list[str]:
    """Return the statements of a script, with `{blob}` and others replaced by the dialect's types."""

    def placed(found: re.Match[str]) -> str:
        part = found[0]
        if part == ";":
            return "\0"
        if part[0] != "{":
            return "" if part.startswith("--") else part
        if part[1:-1] not in types:
            raise InvalidArgument("schema", part, "the placeholders " + ", ".join(f"{{{name}}}" for name in types))
        return types[part[1:-1]]

    return [one.strip() for one in _PARTS.sub(placed, script).split("\0") if one.strip()]


@lru_cache(maxsize=512)
def number_parameters(sql: str) -> str:
    """Return the statement with $1, $2, ... for its question marks; those in texts and names stay."""
    count = 0

    def placed(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] != "?":
            return found[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(placed, sql)


def check_values(values: Sequence[Any]) -> None:
    """Refuse values that some dialect would store as something else."""
    for value in values:
        kind = type(value)
        if kind not in _KINDS or value != value:  # NaN
            raise InvalidArgument("value to store", value, _ALLOWED)
        if kind is int and not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgument("value to store", value, _ALLOWED)
        if kind is str and ("\0" in value or _has_lone_surrogate(value)):
            raise InvalidArgument("value to store", value, _ALLOWED)


def check_rows(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return rows; refuse values that some dialect would store as something else."""
    listed = list(rows)
    lengths = {len(row) for row in listed}
    for column in zip(*listed, strict=True) if len(lengths) == 1 else listed:  # by columns: most are of one kind
        kinds = set(map(type, column))
        if kinds == {int}:
            check_values((min(column), max(column)))
        elif kinds != {bytes}:
            check_values(column)
    return listed


def _has_lone_surrogate(text: str) -> bool:
    """Return whether a text holds half a character (a lone surrogate), which no encoding has."""
    return not text.isascii() and text.encode(errors="replace").decode() != text


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
        """Begin a transaction; first undo one that was left open.

        Parameters
        ----------
        writing
            Whether to write: alone among all processes.
        claimed
            Whether to read the claim as the first statement.

        Returns
        -------
        int | None
            The generation of the claim, if it was read.
        """

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Run one statement and return its rows."""

    @abstractmethod
    def many(self, sql: str, rows: list[Sequence[Any]]) -> None:
        """Run one statement for each of these rows."""

    @abstractmethod
    def commit(self) -> None:
        """Commit: durable when it returns; undone when it raises, unless the connection is lost."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo everything since `begin`."""

    @abstractmethod
    def close(self) -> None:
        """Close; never raises."""


class Transaction:
    """Statements that are done together or not at all. After one has failed, none of them is done."""

    def __init__(self, link: DatabaseConnection, dialect: str) -> None:
        self.dialect = dialect
        self._link, self._over, self._failure = link, False, ""

    def execute(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement with `?` for its values and return all rows. Blobs are bytes."""
        check_values(values)
        self._usable()
        try:
            return self._link.execute(sql, values)
        except StorageError as error:
            self._failure = str(error)
            raise

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run the same statement for many rows; `insert into t (a, b) values (?, ?)` is the fastest."""
        listed = check_rows(rows)
        self._usable()
        if not listed:
            return
        try:
            self._link.many(sql, listed)
        except StorageError as error:
            self._failure = str(error)
            raise

    def _usable(self) -> None:
        if self._over:
            raise BandannaError("this transaction is over: begin another one")
        if self._failure:
            raise StorageError(f"this transaction has failed and does nothing more: {self._failure}")


class Database(ABC):
    """The tables of one party; see `open_database`. For many threads of one process; a forked one opens it anew."""

    dialect: ClassVar[str]
    patience: ClassVar[float] = 30.0  # seconds to wait for another process's transaction
    claiming: ClassVar[float] = 5.0  # seconds to wait until a server has noticed that who served before is dead

    def __init__(self, name: str) -> None:
        self.name = name  # for messages: no password
        self._pid = os.getpid()
        self._alone, self._owner = threading.Lock(), 0  # who writes
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
    def _take(self) -> None:
        """Take the lock of the serving process; raise BandannaError if another process has it."""

    def claim(self) -> None:
        """Make this process the only one that serves the database, until `close` or its own end.

        The generation of the claim grows by 1, so an earlier serving process is fenced, even if it only slept.
        """
        self._usable("claim")
        if self.claimed:
            return self.check_claim()
        self._take()
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
        """Raise FencedError if another process has claimed the database; do nothing if this one never claimed it.

        Call it before a serving process sends anything without a transaction: messages, and answers from memory.
        """
        if not self.claimed:
            return
        with self.reading() as rows:
            self._compare(int(rows.execute(SELECT_GENERATION)[0][0]))

    def _compare(self, generation: int | None) -> None:
        """Fence this process, for good, unless the claim is its own."""
        if generation != self._generation:
            self.fenced = True
            raise FencedError(f"{self.name} was taken over by another process: this one has to end")

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin to write: alone among all threads and processes, durable at the end, undone if the body raises."""
        return self._transaction()

    def reading(self) -> AbstractContextManager[Transaction]:
        """Begin to read: the database as it was at the first statement; waits for no writer."""
        return self._reading()

    def scrub(self) -> bool:
        """Overwrite deleted data in logs, too; return False if that must wait, for readers or for the server."""
        return False

    def close(self) -> None:
        """Close all connections and give up the claim. Open transactions are undone."""
        self._finish()

    @contextmanager
    def _transaction(self) -> Generator[Transaction]:
        self._usable("transaction")
        with self._alone:
            self._owner = threading.get_ident()
            try:
                link = self._begun_to_write()
                yield from self._during(link)
            finally:
                if self.claimed and self._writer is not None and (self._writer.lost or self.fenced):
                    self._forget_writer()
                self._owner = 0

    @contextmanager
    def _reading(self) -> Generator[Transaction]:
        self._usable("reading")
        link, whole = None, False
        try:
            with suppress(IndexError):
                link = self._idle.pop()
            link = self._begun(link, writing=False)
            try:
                yield from self._during(link)
            except Exception:
                whole = True
                raise
            whole = True
        finally:
            if link is not None:
                self._give_back(link, whole=whole)

    def _give_back(self, link: DatabaseConnection, *, whole: bool) -> None:
        """Keep the connection for the next reader, unless a signal may have interrupted it."""
        if whole and self._finish.alive and not link.lost:
            self._idle.append(link)
        else:
            self._drop(link)

    def _begun_to_write(self) -> DatabaseConnection:
        """Return the writing connection, in a transaction of the process that holds the claim.

        With a claim, a lost connection is not replaced silently: the process's memory may be old. So its transaction
        fails, the process reads its memory anew as after every failure, and the next transaction takes the lock again.
        """
        if self.claimed and self._writer is not None and self._writer.lost:
            raise StorageError(f"{self.name} failed: the session that held the claim was lost; repeat")
        self._writer = link = self._begun(self._writer, writing=True)
        return link

    def _forget_writer(self) -> None:
        link, self._writer = self._writer, None
        if link is not None:
            self._drop(link)

    def _begun(self, link: DatabaseConnection | None, *, writing: bool) -> DatabaseConnection:
        """Return a connection in a transaction; replace one that was lost while nobody used it."""
        claimed = writing and self.claimed
        if link is not None and not link.lost:
            try:
                return self._compared(link, link.begin(writing=writing, claimed=claimed), claimed=claimed)
            except StorageError:
                if not link.lost or claimed:
                    raise
        if link is not None:
            self._drop(link)
        link = self._connect(writing=writing)
        self._links.add(link)
        return self._compared(link, link.begin(writing=writing, claimed=claimed), claimed=claimed)

    def _compared(self, link: DatabaseConnection, generation: int | None, *, claimed: bool) -> DatabaseConnection:
        """Return the connection if its transaction is of this process's generation; else undo the transaction."""
        if claimed:
            try:
                self._compare(generation)
            except FencedError:
                with suppress(StorageError):
                    link.rollback()
                raise
        return link

    def _drop(self, link: DatabaseConnection) -> None:
        link.close()
        self._links.discard(link)

    def _during(self, link: DatabaseConnection) -> Generator[Transaction]:
        transaction = Transaction(link, self.dialect)
        try:
            yield transaction
            transaction._usable()  # a failure that the body has caught is one all the same
            transaction._over = True
            link.commit()
        except BaseException:
            transaction._over = True
            with suppress(StorageError):  # the cause is what was raised
                link.rollback()
            raise

    def _usable(self, what: str) -> None:
        self._at_home()
        if self.fenced:
            raise FencedError(f"{self.name} was taken over by another process: this one has to end")
        if self._alone.locked() and self._owner == threading.get_ident():  # an interrupt may leave the owner's name
            raise BandannaError(f"{what} of {self.name} inside a transaction of the same thread: use that one")

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError(f"{self.name} was opened by another process: open it anew in this one")
        if not self._finish.alive:
            raise BandannaError(f"{self.name} is closed")


def _close_all(links: set[DatabaseConnection], pid: int) -> None:
    if os.getpid() == pid:  # links belong to who made them
        for link in list(links):
            link.close()


# Lock files


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """A lock that is a file, held by one process and released by its end.

    The file stays when the lock is free: removing it would let two processes hold two files of one name.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def taken(self) -> bool:
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

    def free(self) -> None:
        """Release the lock if this process has it."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with contextlib.suppress(OSError):
                os.close(handle)
