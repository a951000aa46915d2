"""The driver for SQLite databases."""

from __future__ import annotations

import os
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from bandanna.errors import BandannaError
from bandanna.storage import files
from bandanna.storage.database.base import SELECT_GENERATION, Database, DatabaseConnection, FileLock, Row, StorageError

COLUMN_TYPES = {
    "blob": "blob",
    "serial": "integer primary key autoincrement",  # an id is never used again
    "bigint": "integer",
    "real": "real blob",  # kept as given: a column that is only "real" forgets the sign of zero
}
_INSERT = re.compile(r"insert into [a-z_]+(?: \([a-z_, ]+\))? values (\([?, ]+\))")
_ROWS_PER_STATEMENT = (32, 8)
SELECT_TABLES = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space, then repeat",
    sqlite3.SQLITE_READONLY: "it is read-only: make file and folder writable for this user",
    sqlite3.SQLITE_BUSY: "another process is writing for too long: end it, or repeat later",
    sqlite3.SQLITE_CANTOPEN: "file or folder cannot be opened: make sure that the folder exists and is writable",
    sqlite3.SQLITE_IOERR: "its disk fails or is full: repair that, then repeat",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore a backup, with the -wal file that belongs to it",
    sqlite3.SQLITE_NOTADB: "it is not a database: choose another file",
}


class SQLiteDatabase(Database):
    """One file of mode 0600, and SQLite's files beside it (-wal, -shm)."""

    dialect: ClassVar[str] = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._lock = FileLock(path.with_name(path.name + "-served"))
        self._release = weakref.finalize(self, self._lock.release)
        with _translate_errors(self.name):
            files.create_private_file(path)
            files.secure_private_file(path)
            for end in ("-wal", "-shm"):
                with suppress(FileNotFoundError):  # or another process has just closed it
                    files.secure_private_file(path.with_name(path.name + end))

    def _take_lock(self) -> None:
        with _translate_errors(self.name):
            if not self._lock.acquire():
                raise BandannaError(f"{self.name} is served by another process: stop it first")

    def scrub(self) -> bool:
        """Move the log into the file, where deleted rows are overwritten, and empty it."""
        self._check_usable("scrub")
        with self._write_lock:
            return isinstance(self._writer, SQLiteConnection) and self._writer.empty_log()

    def close(self) -> None:
        """Close all connections; the log moves into the file, if no other process has it open."""
        super().close()
        self._release()

    def _connect(self, *, writing: bool) -> DatabaseConnection:
        with _translate_errors(self.name):
            files.check_regular_file(self.path)
            return SQLiteConnection(self.path, writing=writing, patience=self.patience)


class SQLiteConnection(DatabaseConnection):
    """A connection that threads may use one after the other."""

    lost = False  # a file is never lost

    def __init__(self, path: Path, *, writing: bool, patience: float) -> None:
        self._name, self._path = str(path), path
        self._identity = _file_identity(path)
        self._sql = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=128,
        )
        try:
            self._set_wal_mode(patience)
            self._sql.execute("pragma synchronous = full")
            self._sql.execute("pragma secure_delete = on")  # deleted data is overwritten
            self._sql.execute("pragma foreign_keys = on")
            if not writing:
                self._sql.execute("pragma query_only = on")
        except BaseException:
            self._sql.close()
            raise

    def _set_wal_mode(self, patience: float) -> None:
        """Switch to the write-ahead log; repeat while another process does so, because SQLite does not wait here."""
        until = time.monotonic() + patience
        while True:
            try:
                ((mode,),) = self._sql.execute("pragma journal_mode = wal").fetchall()
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.01)
        if mode != "wal":
            raise StorageError(f"{self._name} cannot have a write-ahead log on this disk: move it to a local disk")

    def begin(self, *, writing: bool, claimed: bool = False) -> int | None:
        """Begin a transaction; a writer waits for other writers, a reader for none."""
        with _translate_errors(self._name):
            if _file_identity(self._path) != self._identity:  # writes would be lost
                raise StorageError(f"{self._name} was replaced while it was open: put it back, or restart")
            if self._sql.in_transaction:  # an interrupt has left it
                self._sql.execute("rollback")
            self._sql.execute("begin immediate" if writing else "begin")
            return int(self._sql.execute(SELECT_GENERATION).fetchone()[0]) if claimed else None

    def execute(self, sql: str, values: Sequence[Any]) -> list[Row]:
        try:
            return self._sql.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _storage_error(self._name, error) from error

    def many(self, sql: str, rows: list[Sequence[Any]]) -> None:
        """Run one statement for each row; a plain insert takes several at once."""
        place, found = 0, _INSERT.fullmatch(sql)
        width = sql.count("?")
        try:
            if found is not None and all(len(row) == width for row in rows):
                for some in _ROWS_PER_STATEMENT:
                    while len(rows) - place >= some:
                        values = [value for row in rows[place : place + some] for value in row]
                        self._sql.execute(sql + f", {found[1]}" * (some - 1), values)
                        place += some
            self._sql.executemany(sql, rows[place:])
        except sqlite3.Error as error:
            raise _storage_error(self._name, error) from error

    def empty_log(self) -> bool:
        """Empty the log without waiting for readers; return whether that succeeded."""
        with _translate_errors(self._name):
            ((patience,),) = self._sql.execute("pragma busy_timeout").fetchall()
            self._sql.execute("pragma busy_timeout = 0")
            try:
                ((busy, _, _),) = self._sql.execute("pragma wal_checkpoint(truncate)").fetchall()
            finally:
                self._sql.execute(f"pragma busy_timeout = {patience}")
        return not busy

    def commit(self) -> None:
        with _translate_errors(self._name):
            self._sql.execute("commit")

    def rollback(self) -> None:
        with _translate_errors(self._name):
            if self._sql.in_transaction:
                self._sql.execute("rollback")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._sql.close()


def _file_identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _storage_error(name, error) from error


def _storage_error(name: str, error: sqlite3.Error | OSError) -> StorageError:
    code = getattr(error, "sqlite_errorcode", None)
    advice = _ADVICE.get(code & 0xFF) if isinstance(code, int) else None
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return StorageError(f"{name} failed: {reason}" + (f"; {advice}" if advice else ""))
