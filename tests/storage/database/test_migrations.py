"""Databases of this version, of older and newer ones, and of somebody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database import Database, StorageFailed, open_database

from .conftest import Opening
from .processes import running

FIRST = "create table a (id {serial}, n {bigint}); insert into a (n) values (1); -- one; is enough\n"
SECOND = "create table b (word text default 'x;y'); insert into b (word) values ('{kept}'); update a set n = n + 1"
THIRD = "create index c on a (n);"
FAILS = "create table d (n {bigint}); insert into d values (1); insert into nowhere values (1)"


def state(database: Database, *tables: str) -> list[Sequence[object]]:
    """The version, and what is in some tables."""
    with database.reading() as transaction:
        found = [transaction.execute("select version, role from about")]
        return found + [transaction.execute(f"select * from {table}") for table in tables]


def test_a_fresh_database_has_all_steps(opened: Opening) -> None:
    """A step of the migrations is left out, done twice or in another order."""
    assert state(opened(FIRST, SECOND, THIRD), "a", "b") == [[(3, "things")], [(1, 2)], [("{kept}",)]]


def test_an_older_database_is_brought_up(opened: Opening) -> None:
    """A database of an older version loses what it holds, or repeats a step that it has had."""
    first = opened(FIRST)
    with first.transaction() as transaction:
        transaction.execute("insert into a (n) values (?)", 10)
    for _ in range(2):
        assert state(opened(FIRST, SECOND), "a") == [[(2, "things")], [(1, 2), (2, 11)]]
    assert state(opened(FIRST, SECOND, THIRD), "a") == [[(3, "things")], [(1, 2), (2, 11)]]


def test_a_newer_database_is_refused(opened: Opening) -> None:
    """An older program writes into tables that it does not know."""
    opened(FIRST, SECOND)
    with pytest.raises(BandannaError, match="is of version 2; this program knows 1: use the newer program"):
        opened(FIRST)


def test_another_role_is_refused(opened: Opening) -> None:
    """One role's process reads or changes the tables of another one."""
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


def test_a_step_is_done_as_a_whole(opened: Opening) -> None:
    """A migration that fails leaves half of it behind, or its version."""
    with pytest.raises(StorageFailed, match="nowhere"):
        opened(FIRST, FAILS)
    database = opened(FIRST)
    assert state(database, "a") == [[(1, "things")], [(1, 1)]]
    with pytest.raises(StorageFailed), database.reading() as transaction:
        transaction.execute("select * from d")


def test_without_steps(opened: Opening, url: str) -> None:
    """A role without tables cannot have a database, and get tables later."""
    open_database(url, role="things", migrations=[]).close()
    open_database(url, role="things", migrations=[]).close()
    assert state(opened(FIRST), "a") == [[(1, "things")], [(1, 1)]]


def test_two_processes_make_it_at_once(url: str, opened: Opening) -> None:
    """Two processes that open a new database together apply a step twice, or one of them fails."""
    program = "tell('here'); wait(); database(); tell('made')"
    with running(program, url, FIRST) as one, running(program, url, FIRST) as two:
        assert (one.hear(), two.hear()) == ("here", "here")
        one.go_on()
        two.go_on()
        assert (one.hear(), two.hear()) == ("made", "made")
    assert state(opened(FIRST), "a") == [[(1, "things")], [(1, 1)]]


def test_unknown_types_are_refused_before_anything_is_done(opened: Opening) -> None:
    """A script with a misspelt type is done in part."""
    with pytest.raises(InvalidArgument, match=r"\{bigit\}.*\{bigint\}"):
        opened(FIRST, "create table b (n {bigit})")
    assert state(opened(FIRST)) == [[(1, "things")]]


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    """A file with other tables, or one that is no database, gets ours."""
    with sqlite3.connect(tmp_path / "other.db") as sql:
        sql.execute("create table secrets (n)")
    sql.close()
    with pytest.raises(BandannaError, match="other tables than ours"):
        open_database(str(tmp_path / "other.db"), role="things", migrations=[FIRST])
    (tmp_path / "letter").write_text("Dear reader, " * 100)
    with pytest.raises(StorageFailed, match="something else than a database"):
        open_database(str(tmp_path / "letter"), role="things", migrations=[FIRST])
    assert (tmp_path / "letter").read_text() == "Dear reader, " * 100


@pytest.mark.parametrize("role", ["", "Things", "1", "a-b", "x" * 41, 'a"; drop schema public; --', None])
def test_roles_have_plain_names(role: str, tmp_path: Path) -> None:
    """The name of a role can be anything, even SQL."""
    with pytest.raises(InvalidArgument, match="role"):
        open_database(str(tmp_path / "x"), role=role, migrations=[])
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "url", ["", "mysql://u:secret@h/d", "sqlite://x", "sqlite:/x", "postgresql:/u", 3, None, "a\0b"]
)
def test_places_are_checked(url: str) -> None:
    """A place that is not one is taken for one, or a password is shown."""
    with pytest.raises(InvalidArgument, match="url") as caught:
        open_database(url, role="things", migrations=[])
    assert "secret" not in str(caught.value)


def test_a_script_is_not_a_sequence(tmp_path: Path) -> None:
    """Every letter of a script is taken for a migration."""
    with pytest.raises(InvalidArgument, match="migrations"):
        open_database(str(tmp_path / "x"), role="things", migrations=FIRST)


def test_relative_and_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place means another file than it says."""
    monkeypatch.chdir(tmp_path)
    for url in ("one.db", "sqlite:///two.db", f"sqlite:///{tmp_path}/three.db", str(tmp_path / "four?%20.db")):
        open_database(url, role="things", migrations=[]).close()
    assert {file.name for file in tmp_path.glob("*.db")} == {"one.db", "two.db", "three.db", "four?%20.db"}
