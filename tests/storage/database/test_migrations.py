"""Databases that are empty, of this version, of another one, and of somebody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, StorageError, open_database

from .conftest import Opening
from .processes import running

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


def test_a_schema_is_made_as_a_whole(opened: Opening) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        opened(FIRST + FAILS)
    database = opened(FIRST)
    assert state(database, "a") == [[(1, "things")], [(1, 1)]]
    with pytest.raises(StorageError), database.reading() as transaction:
        transaction.execute("select * from d")


def test_a_role_without_tables_has_a_database(opened: Opening) -> None:
    for _ in range(2):
        assert state(opened("")) == [[(1, "things")]]


def test_two_processes_make_it_at_once(url: str, opened: Opening) -> None:
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


def test_files_of_others_are_refused(tmp_path: Path) -> None:
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


def test_a_schema_is_one_script(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        open_database(str(tmp_path / "x"), role="things", schema=[FIRST])  # type: ignore[arg-type]


def test_relative_and_absolute_paths_open_the_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("one.db", "sqlite:///two.db", f"sqlite:///{tmp_path}/three.db", str(tmp_path / "four?%20.db")):
        open_database(url, role="things", schema="").close()
    assert {file.name for file in tmp_path.glob("*.db")} == {"one.db", "two.db", "three.db", "four?%20.db"}
