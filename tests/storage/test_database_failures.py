"""Databases in trouble raise one kind of error that says what to do, and work again when it is over."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bandanna.errors import BandannaError, MissingExtra
from bandanna.storage.database.base import Database, FencedError, StorageError, open_database

from ..postgres import account, server
from ..trouble import in_a_fork
from .conftest import TABLE, Opening, running

ADD = "insert into things (whole, word) values (?, ?)"
COUNT = "select count(*) from things"

FULL = """
import resource
one = database()
with one.transaction() as transaction:
    transaction.execute("insert into things (whole) values (0)")
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
written = 0
try:
    for written in range(1000):
        with one.transaction() as transaction:
            transaction.many("insert into things (whole, body) values (?, ?)", [(written, bytes(1000))] * 10)
except StorageError as error:
    tell(str(error))
with one.reading() as transaction:
    tell(transaction.execute("select count(*) from things") == [(1 + 10 * written,)])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
with one.transaction() as transaction:
    transaction.many("insert into things (whole, body) values (?, ?)", [(-1, bytes(1000))] * 1000)
with one.reading() as transaction:
    tell(transaction.execute("select count(*) from things") == [(1 + 10 * written + 1000,)])
"""


def write(database: Database, word: str) -> None:
    with database.transaction() as transaction:
        transaction.execute(ADD, 1, word)


def words(database: Database) -> list[str]:
    with database.reading() as transaction:
        return [word for (word,) in transaction.execute("select word from things order by id")]


def test_a_transaction_on_a_full_disk_is_undone_and_works_again_with_room(tmp_path: Path) -> None:
    with running(FULL, str(tmp_path / "x.db"), TABLE) as other:
        told = other.hear()
        assert "x.db failed: " in told
        assert "then repeat" in told
        assert (other.hear(), other.hear()) == ("True", "True")


def test_a_failing_statement_raises_a_storage_error_and_the_next_transaction_works(database: Database) -> None:
    write(database, "a")
    with pytest.raises(StorageError, match=r"(?i)unique"):
        write(database, "a")
    with pytest.raises(StorageError, match="nowhere"), database.reading() as transaction:
        transaction.execute("select * from nowhere")
    with pytest.raises(StorageError), database.transaction() as transaction:
        transaction.execute(ADD, 1)  # a value is missing
    write(database, "b")
    assert words(database) == ["a", "b"]


def test_a_read_only_folder_raises_a_storage_error_until_it_is_repaired(tmp_path: Path) -> None:
    nobody = account()  # root may write anywhere: then it is somebody else who tries
    open_database(str(tmp_path / "other.db"), role="things", schema=TABLE).close()  # all modules are loaded

    def attempt() -> None:
        if nobody:
            os.setgroups([])
            os.setgid(nobody["group"])
            os.setuid(nobody["user"])
        database = open_database(str(place / "x.db"), role="things", schema=TABLE)
        with database.transaction() as transaction:
            transaction.execute(ADD, 1, None)

    def refused() -> None:
        with pytest.raises(StorageError, match=r"x\.db failed: .*; .*folder"):
            attempt()

    with tempfile.TemporaryDirectory() as name:  # which others can reach, unlike pytest's
        place = Path(name)
        if nobody:
            os.chown(place, nobody["user"], nobody["group"])
        assert in_a_fork(attempt) == ["done"]
        place.chmod(0o555)
        assert in_a_fork(refused) == ["done"]
        place.chmod(0o755)
        assert in_a_fork(attempt) == ["done"]


def test_a_path_that_is_a_folder_a_link_or_in_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name, told in {
        "file/x.db": "Not a directory",
        "missing/x.db": "No such file",
        "link": "a symbolic link",
        "": "is a folder",
    }.items():
        with pytest.raises(BandannaError, match=told):
            open_database(str(tmp_path / name), role="things", schema=TABLE)
    assert (tmp_path / "file").read_text() == ""


def test_a_writer_waits_for_a_limited_time_and_can_write_later(
    database: Database, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "patience", 0.1)
    impatient = opened()
    with database.transaction() as transaction:
        transaction.execute(ADD, 1, "a")
        with pytest.raises(StorageError, match="for too long"):
            write(impatient, "b")
        assert words(impatient) == []
    write(impatient, "c")
    assert words(database) == ["a", "c"]


def test_a_database_file_that_is_replaced_is_not_written(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "x.db"), role="things", schema=TABLE)
    write(database, "a")
    (tmp_path / "x.db").rename(tmp_path / "y.db")
    with pytest.raises(StorageError, match="No such file"):
        write(database, "b")
    (tmp_path / "x.db").write_bytes((tmp_path / "y.db").read_bytes())
    with pytest.raises(StorageError, match="was replaced while it was open"):
        write(database, "b")
    (tmp_path / "y.db").replace(tmp_path / "x.db")
    write(database, "c")
    assert words(database) == ["a", "c"]
    database.close()


# PostgreSQL


def test_after_a_restart_of_the_server_committed_rows_are_there_and_clients_connect_anew() -> None:
    postgres = server()
    database = open_database(postgres.fresh(), role="things", schema=TABLE)
    database.claim()
    write(database, "a")
    assert words(database) == ["a"]
    with postgres.stopped():
        with pytest.raises(StorageError, match="make sure that the server runs"):
            write(database, "b")
        with pytest.raises(StorageError):
            words(database)
    write(database, "c")  # as if nothing had been
    assert words(database) == ["a", "c"]

    def interrupted() -> None:
        with database.transaction() as transaction:
            transaction.execute(ADD, 1, "d")
            postgres.restart()

    with pytest.raises(StorageError):
        interrupted()
    assert words(database) == ["a", "c"]
    postgres.restart()
    assert words(database) == ["a", "c"]  # a link that was lost while nobody used it
    database.close()


def test_a_lost_claim_is_taken_again_or_fences_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    postgres = server()
    url = postgres.fresh()
    first, second = (open_database(url, role="things", schema=TABLE) for _ in range(2))
    first.claim()
    write(first, "a")
    postgres.restart()
    second.claim()
    with pytest.raises(StorageError, match="connects anew"):
        write(first, "b")
    with monkeypatch.context() as hurried:
        hurried.setattr(Database, "claiming", 0.2)
        with pytest.raises(FencedError, match="taken over by another process"):
            write(first, "b")
    write(second, "c")
    second.close()
    with pytest.raises(FencedError, match="taken over by another process"):
        write(first, "d")  # nobody serves, and what it remembers is old
    third = open_database(url, role="things", schema=TABLE)
    third.claim()
    assert words(third) == ["a", "c"]
    third.close()
    first.close()


def test_a_session_that_was_lost_while_idle_is_replaced() -> None:
    postgres = server()
    database = open_database(postgres.fresh(), role="things", schema=TABLE)
    database.claim()
    write(database, "a")
    postgres.restart()
    with pytest.raises(StorageError):
        write(database, "b")  # so that whoever wanted to write reads what is there
    assert words(database) == ["a"]
    write(database, "c")
    assert words(database) == ["a", "c"]
    database.close()


def test_a_commit_without_an_answer_is_reported_as_unknown() -> None:
    postgres = server()
    database = open_database(postgres.fresh(), role="things", schema=TABLE)

    def cut() -> None:
        with database.transaction() as transaction:
            transaction.execute(ADD, 1, "a")
            transaction._link._sql.pgconn.finish()  # the cable

    with pytest.raises(StorageError, match="whether it was committed is not known"):
        cut()
    assert words(database) == []
    database.close()


def test_a_read_only_server_raises_a_storage_error() -> None:
    url = server().fresh()
    name = url.partition("@/")[2].partition("?")[0]
    with psycopg.connect(server().url("postgres"), autocommit=True) as sql:
        sql.execute(f"alter database {name} set default_transaction_read_only = on")
        with pytest.raises(StorageError, match="it is read-only"):
            open_database(url, role="things", schema=TABLE)
        sql.execute(f"alter database {name} reset default_transaction_read_only")
    database = open_database(url, role="things", schema=TABLE)
    write(database, "a")
    database.close()


def test_a_server_that_cannot_be_reached_raises_a_storage_error() -> None:
    for url in (
        "postgresql://me:secret@127.0.0.1:1/x",
        server().url("nowhere"),
        f"postgresql://me:secret@/x?host={server().folder}",
        "postgresql://me:secret@/x?hots=1",
    ):
        with pytest.raises(StorageError) as caught:
            open_database(url, role="things", schema=TABLE)
        assert "secret" not in str(caught.value)


def test_without_psycopg_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "bandanna.storage.database.postgres", raising=False)
    monkeypatch.delattr(importlib.import_module("bandanna.storage.database"), "postgres", raising=False)
    with pytest.raises(MissingExtra, match=r"bandanna\[postgres\]"):
        open_database("postgresql:///x", role="things", schema="")


def test_a_connection_that_is_made_while_the_database_is_closed_is_closed_too(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened()
    connect, made = database._connect, list[Any]()

    def connect_while_closing(*, writing: bool) -> Any:
        made.append(connect(writing=writing))
        database.close()
        return made[-1]

    monkeypatch.setattr(database, "_connect", connect_while_closing)
    database._idle.clear()
    with pytest.raises(StorageError, match="is closed"), database.reading() as transaction:
        transaction.execute("select 1")
    (link,) = made
    with pytest.raises(StorageError):
        link.begin(writing=False)


def test_a_session_in_use_is_disconnected_before_it_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq would work on freed memory otherwise, and a role that is stopped would crash or never end."""
    working, freed = set[int](), list[bool]()
    execute, close = psycopg.Connection.execute, psycopg.Connection.close

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        working.add(id(self))
        try:
            return execute(self, *given, **named)
        finally:
            working.discard(id(self))

    def closed(self: Any) -> None:
        freed.append(id(self) in working)
        close(self)

    monkeypatch.setattr(psycopg.Connection, "execute", watched)
    monkeypatch.setattr(psycopg.Connection, "close", closed)
    database = open_database(server().fresh(), role="things", schema=TABLE)
    write(database, "a")
    told = list[str]()

    def wait() -> None:
        with pytest.raises(StorageError) as caught, database.reading() as transaction:
            transaction.execute("select pg_sleep(3600)")
        told.append(str(caught.value))

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 600
    while len(working) < len(threads) and time.monotonic() < end:
        time.sleep(0.01)
    assert len(working) == len(threads)
    database.close()
    for thread in threads:
        thread.join(timeout=600)
    assert len(told) == len(threads)
    assert len(freed) > len(threads)
    assert not any(freed)
