"""Databases in one process: values, transactions, readers and writers, and the tables of a role."""

from __future__ import annotations

import math
import sqlite3
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, StorageError, open_database

from ..trouble import Interrupt, in_a_fork
from .conftest import Opening, running

ADD = "insert into things (whole, word) values (?, ?)"
WORDS = "select word from things order by id"

VALUES = {
    "whole": [0, -1, 2**31, 2**63 - 1, -(2**63), None],
    "body": [b"", b"\0", bytes(range(256)), b"\0" * 4000, None],
    "real": [0.1, -0.0, 5e-324, math.pi * 1e300, math.inf, -math.inf, None],
    "word": ["", "a'b\"c\\d?$1%s;--{x}", "Ω 🂡", "x" * 2000, "null", None],
}


def bits(value: Any) -> Any:
    """Return bytes that distinguish 0.0 from -0.0, and 1 from 1.0."""
    return struct.pack("d", value) if isinstance(value, float) else (type(value), value)


@pytest.mark.parametrize("how", ["execute", "many", "many with a tail"])
@pytest.mark.parametrize("column", VALUES)
def test_values_are_read_as_they_were_written(database: Database, column: str, how: str) -> None:
    values = VALUES[column]
    sql = f"insert into things ({column}) values (?)"
    with database.transaction() as transaction:
        if how == "execute":
            for value in values:
                transaction.execute(sql, value)
        else:
            transaction.many(sql + (" on conflict do nothing" if "tail" in how else ""), [(value,) for value in values])
    with database.reading() as transaction:
        got = [value for (value,) in transaction.execute(f"select {column} from things order by id")]
    assert list(map(bits, got)) == list(map(bits, values))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 32, 41, 200])
def test_many_rows_are_read_in_their_order(database: Database, count: int) -> None:
    rows = [(number - 3, bytes([number]), None if number % 3 else 0.5) for number in range(count)]
    sql = "insert into things (whole, body, real) values (?, ?, ?)"
    with database.transaction() as transaction:
        transaction.many(sql, rows)
    for bad in ((2**63, b"", None), (0, b"", math.nan), (np.int64(1), b"", None), (0, b"")):
        with pytest.raises((InvalidArgument, StorageError)), database.transaction() as transaction:
            transaction.many(sql, [*rows, bad, *rows])
    with database.reading() as transaction:
        assert transaction.execute("select whole, body, real from things order by id") == rows


def test_rows_and_aggregates_are_plain_python_values(database: Database) -> None:
    with database.transaction() as transaction:
        ((first,),) = transaction.execute("insert into things (whole, word) values (?, ?) returning id", True, "?")
        transaction.many(
            "insert into things (whole, real, word) values (?, ?, ?)", [(False, 1.0, "b"), (2**62, 2.0, "c")]
        )
        rows = transaction.execute("select sum(whole), count(*), sum(real), max(word) from things where word <> '?'")
        assert transaction.execute("select whole, body from things where word = '?' and id = ?", first) == [(1, None)]
        assert transaction.execute("update things set whole = 3 where id = ?", first) == []
    assert rows == [(2**62, 2, 3.0, "c")]
    assert [type(value) for value in rows[0]] == [int, int, float, str]


@pytest.mark.parametrize(
    "value", [math.nan, 2**63, -(2**63) - 1, "a\0b", "\ud800", np.int64(1), np.float64(1), [1], bytearray(b"x"), 1j]
)
def test_a_value_that_a_dialect_would_change_is_refused(database: Database, value: Any) -> None:
    with database.transaction() as transaction:
        with pytest.raises(InvalidArgument, match="value to store"):
            transaction.execute("insert into things (whole) values (?)", value)
        with pytest.raises(InvalidArgument, match="value to store"):
            transaction.many("insert into things (whole) values (?)", [(1,), (value,)])
        transaction.execute(ADD, 1, "fine")  # nothing has happened, and the transaction goes on
    with database.reading() as transaction:
        assert transaction.execute(WORDS) == [("fine",)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, BandannaError])
def test_a_transaction_whose_body_raises_is_undone(database: Database, error: type[BaseException]) -> None:

    def half() -> None:
        with database.transaction() as transaction:
            transaction.execute(ADD, 1, "a")
            transaction.many(ADD, [(2, "b"), (3, "c")])
            raise error

    with pytest.raises(error):
        half()
    with database.transaction() as transaction:
        assert transaction.execute(WORDS) == []
        transaction.execute(ADD, 4, "d")
    with database.reading() as transaction:
        assert transaction.execute(WORDS) == [("d",)]


def test_a_failed_statement_undoes_the_others_even_if_the_error_is_caught(database: Database) -> None:

    def half(failing: str) -> None:
        with database.transaction() as transaction:
            transaction.execute(ADD, 1, "a")
            with pytest.raises(StorageError):
                transaction.execute(ADD, 2, "a") if failing == "execute" else transaction.many(ADD, [(2, "a")])
            with pytest.raises(StorageError, match="does nothing more"):
                transaction.execute(ADD, 3, "b")

    for failing in ("execute", "many"):
        with pytest.raises(StorageError, match="this transaction has failed"):
            half(failing)
    with database.transaction() as transaction:
        assert transaction.execute(WORDS) == []
        transaction.execute(ADD, 1, "a")  # and the next one works


def test_a_value_that_does_not_fit_among_many_is_refused(opened: Opening) -> None:
    database = opened("create table strict (n integer check (n < 5))")
    for rows in ([(1,), (7,)], [(1,), ("word" * 9, "two")]):
        with pytest.raises(StorageError), database.transaction() as transaction:
            transaction.many("insert into strict (n) values (?)", rows)
    with database.transaction() as transaction:
        transaction.many("insert into strict values (?)", [(1,), (2,)])
        transaction.many("update strict set n = n + ? where n = ?", [(2, 1), (2, 2)])
        transaction.many("insert into strict (n) values (?)", [])
        assert transaction.execute("select n from strict order by n") == [(3,), (4,)]


def test_a_reader_sees_nothing_uncommitted(database: Database, opened: Opening) -> None:
    other = opened()
    steps: list[Any] = []

    def read() -> None:
        for one in (database, other):
            with one.reading() as transaction:
                steps.append(transaction.execute(WORDS))

    with database.transaction() as transaction:
        transaction.execute(ADD, 1, "a")
        in_a_thread(read)
    in_a_thread(read)
    with other.reading() as early:
        assert early.execute(WORDS) == [("a",)]
        with database.transaction() as transaction:
            transaction.execute(ADD, 2, "b")
        assert early.execute(WORDS) == [("a",)]  # as it was
    assert steps == [[], [], [("a",)], [("a",)]]


def test_readers_cannot_write(database: Database) -> None:
    with pytest.raises(StorageError), database.reading() as transaction:
        transaction.execute(ADD, 1, "a")
    with database.reading() as transaction:
        assert transaction.execute(WORDS) == []


def test_threads_write_one_after_the_other(database: Database, opened: Opening) -> None:
    databases = [database, opened()]
    with database.transaction() as transaction:
        transaction.execute(ADD, 0, "count")

    def count(one: Database) -> None:
        for _ in range(15):
            with one.transaction() as transaction:
                ((n,),) = transaction.execute("select whole from things where word = 'count'")
                transaction.execute("update things set whole = ? where word = 'count'", n + 1)

    threads = [threading.Thread(target=count, args=(databases[i % 2],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as transaction:
        assert transaction.execute("select whole from things") == [(60,)]


def test_a_transaction_inside_another_of_the_same_thread_is_refused(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.execute(ADD, 1, "a")
        for inner in (database.transaction, database.reading):
            with pytest.raises(BandannaError, match="inside a transaction"), inner():
                pass
        transaction.execute(ADD, 2, "b")
    with database.reading() as transaction:
        assert len(transaction.execute(WORDS)) == 2
    with pytest.raises(BandannaError, match="over"):
        transaction.execute(WORDS)


def test_a_forked_process_cannot_use_a_database_of_its_parent(database: Database) -> None:

    def write() -> None:
        with database.transaction():
            pass

    def read() -> None:
        with database.reading():
            pass

    with database.transaction() as transaction:
        transaction.execute(ADD, 1, "a")
        assert in_a_fork(write, read, database.claim, database.close) == [*["BandannaError"] * 3, "done"]
        transaction.execute(ADD, 2, "b")
    with database.reading() as transaction:
        assert transaction.execute(WORDS) == [("a",), ("b",)]


def test_a_closed_database_stays_closed(database: Database) -> None:
    database.close()
    database.close()
    for use in (database.transaction, database.reading):
        with pytest.raises(BandannaError, match="closed"), use():
            pass
    with pytest.raises(BandannaError, match="closed"):
        database.claim()


def test_an_interrupt_at_any_line_leaves_no_part_of_a_transaction_and_no_lock(database: Database) -> None:
    k, done = 0, 0
    while True:
        k += 1
        trouble = Interrupt(k)
        try:
            with trouble, database.transaction() as transaction:
                transaction.execute(ADD, k, f"a{k}")
                transaction.many(ADD, [(k, f"b{k}")])
        except KeyboardInterrupt:
            pass
        with database.transaction() as transaction:
            assert transaction.execute("select count(*) from things where whole = ?", k)[0][0] in (0, 2)
            transaction.execute(ADD, -k, None)
            done += 1
        if not trouble.fired:
            break
    assert k > 20
    with database.reading() as transaction:
        assert transaction.execute("select count(*) from things where whole < 0") == [(done,)]
        assert transaction.execute("select count(*) from things where whole = ?", k) == [(2,)]


def in_a_thread(work: Any) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


FIRST = "create table a (id {serial}, n {bigint}); insert into a (n) values (1); -- one; is enough\n"
SECOND = "create table b (word text default 'x;y'); insert into b (word) values ('{kept}'); update a set n = n + 1;"
FAILS = "create table d (n {bigint}); insert into d values (1); insert into nowhere values (1)"


def state(database: Database, *tables: str) -> list[Sequence[object]]:
    with database.reading() as transaction:
        found = [transaction.execute("select version, role from about")]
        return found + [transaction.execute(f"select * from {table}") for table in tables]


def test_an_empty_database_gets_all_tables_once(opened: Opening) -> None:
    first = opened(FIRST + SECOND)
    assert state(first, "a", "b") == [[(1, "things")], [(1, 2)], [("{kept}",)]]
    with first.transaction() as transaction:
        transaction.execute("insert into a (n) values (?)", 10)
    assert state(opened(FIRST + SECOND), "a") == [[(1, "things")], [(1, 2), (2, 10)]]


@pytest.mark.parametrize("version", [0, 2])
def test_a_database_of_another_version_is_refused(opened: Opening, version: int) -> None:
    with opened(FIRST).transaction() as transaction:
        transaction.execute("update about set version = ?", version)
    with pytest.raises(BandannaError, match=f"has tables of version {version}; this program reads version 1"):
        opened(FIRST)


def test_a_database_of_another_role_is_refused(opened: Opening) -> None:
    database = opened(FIRST)
    if database.dialect == "postgres":  # where roles have schemas, and live side by side
        assert state(opened("create table b (n {bigint})", role="other"), "b") == [[(1, "other")], []]
        with database.transaction() as transaction:
            transaction.execute("update about set role = 'other'")
        with pytest.raises(BandannaError, match="belongs to the role 'other', not to 'things'"):
            opened(FIRST)
    else:
        with pytest.raises(BandannaError, match="belongs to the role 'things', not to 'other'"):
            opened(FIRST, role="other")
        assert state(database, "a") == [[(1, "things")], [(1, 1)]]


def test_a_schema_is_made_completely_or_not_at_all(opened: Opening) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        opened(FIRST + FAILS)
    database = opened(FIRST)
    assert state(database, "a") == [[(1, "things")], [(1, 1)]]
    with pytest.raises(StorageError), database.reading() as transaction:
        transaction.execute("select * from d")


def test_a_role_without_tables_has_a_database(opened: Opening) -> None:
    for _ in range(2):
        assert state(opened("")) == [[(1, "things")]]


def test_two_processes_can_make_the_tables_at_once(url: str, opened: Opening) -> None:
    program = "tell('here'); wait(); database(); tell('made')"
    with running(program, url, FIRST) as one, running(program, url, FIRST) as two:
        assert (one.hear(), two.hear()) == ("here", "here")
        one.go_on()
        two.go_on()
        assert (one.hear(), two.hear()) == ("made", "made")
    assert state(opened(FIRST), "a") == [[(1, "things")], [(1, 1)]]


def test_unknown_types_are_refused_before_anything_is_done(opened: Opening) -> None:
    with pytest.raises(InvalidArgument, match=r"\{bigint\}.*got .\{bigit\}"):
        opened(FIRST + "create table b (n {bigit})")
    assert state(opened(FIRST), "a") == [[(1, "things")], [(1, 1)]]


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as sql:
        sql.execute("create table secrets (n)")
    sql.close()
    with pytest.raises(BandannaError, match="tables of another program"):
        open_database(str(tmp_path / "other.db"), role="things", schema=FIRST)
    (tmp_path / "letter").write_text("Dear reader, " * 100)
    with pytest.raises(StorageError, match="is not a database"):
        open_database(str(tmp_path / "letter"), role="things", schema=FIRST)
    assert (tmp_path / "letter").read_text() == "Dear reader, " * 100


@pytest.mark.parametrize("role", ["", "Things", "1", "a-b", "x" * 41, 'a"; drop schema public; --', None])
def test_a_role_has_a_plain_name(role: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="role"):
        open_database(str(tmp_path / "x"), role=role, schema="")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "url", ["", "mysql://u:secret@h/d", "sqlite://x", "sqlite:/x", "postgresql:/u", 3, None, "a\0b"]
)
def test_an_invalid_url_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(InvalidArgument, match="url") as caught:
        open_database(url, role="things", schema="")
    assert "secret" not in str(caught.value)


def test_a_schema_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        open_database(str(tmp_path / "x"), role="things", schema=[FIRST])  # type: ignore[arg-type]


def test_relative_and_absolute_paths_open_the_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("one.db", "sqlite:///two.db", f"sqlite:///{tmp_path}/three.db", str(tmp_path / "four?%20.db")):
        open_database(url, role="things", schema="").close()
    assert {file.name for file in tmp_path.glob("*.db")} == {"one.db", "two.db", "three.db", "four?%20.db"}
