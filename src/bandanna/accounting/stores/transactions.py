"""An SQLite file under threads, processes and signals: one transaction at a time, whole or undone."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bandanna.accounting.stores.base import Result
from bandanna.errors import BandannaError, Unreadable
from bandanna.storage import files

_PATIENCE = 30.0  # seconds to wait for another process's lock


class SQLiteFile:
    """A file, made with mode 0600 if it may be, and a connection to it.

    A signal may raise between any two lines. So threads are kept apart by locks that only `with` takes, which no signal
    splits, and a transaction that was left open is undone before the next one begins.
    """

    _undone = False  # whether a transaction whose work raises is undone; or what was done stays, as in other stores

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._pid, self._guard, self._begun = os.getpid(), threading.RLock(), threading.Lock()
        self._whole = True  # False while something is half written
        with self._errors():
            if create and not os.path.lexists(self.path):
                files.make(self.path)
            elif not os.path.lexists(self.path):
                raise BandannaError(f"{self.path} does not exist")
            self.read_only = not files.secure(self.path)
            for other in companions(self.path):
                with suppress(FileNotFoundError):  # another process has just ended its transaction
                    files.secure(other)
            self._connect()

    def _connect(self) -> None:
        address = f"{self.path.as_uri()}?mode={'ro' if self.read_only else 'rw'}"
        self._sql = sqlite3.connect(
            address, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        self.close = weakref.finalize(self, self._sql.close)

    def alone(self, work: Callable[[], Result]) -> Result:
        """A write transaction around some work, waiting for other threads and processes; re-entrant."""
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
        """Statements of which none stays without the others: if one fails, the transaction is undone."""
        with self._errors():
            self._whole = False
            yield
            self._whole = True

    def _ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        self._at_home()
        with self._guard, self._errors():
            return self._sql.execute(query, values).fetchall()

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError(f"{self.path} was opened by another process: open it anew in this one")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of SQLite and of the file, as ours."""
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeError, Unreadable) as error:
            raise BandannaError(f"{self.path} cannot be used as a ledger's file: {error}") from error


def companions(path: Path) -> list[Path]:
    """The files that SQLite keeps beside a ledger's file: while they are not empty they belong to it."""
    return [other for end in ("-journal", "-wal", "-shm") if os.path.lexists(other := path.with_name(path.name + end))]
