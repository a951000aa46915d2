"""Databases of several processes: writers, claims and fences, and the state after a kill."""

from __future__ import annotations

import pickle
import sqlite3
import time
from pathlib import Path

import pytest

from bandanna.errors import BandannaError
from bandanna.storage.database.base import Database, FencedError, StorageError, open_database

from .conftest import TABLE, Opening, running

COUNT = """
one = database()
tell("here"); wait()
for _ in range(25):
    with one.transaction() as transaction:
        ((n,),) = transaction.execute("select whole from things where word = 'count'")
        transaction.execute("update things set whole = ? where word = 'count'", n + 1)
tell("done")
"""
WRITE = """
one = database()
with one.transaction() as transaction:
    transaction.execute("update things set whole = whole + 1 where word = 'count'")
    transaction.many("insert into things (whole, body) values (?, ?)", [(i, bytes(3000)) for i in range(1000)])
    tell("inside")
    {inside}
tell("after"); wait()
"""
CLAIM = """
Database.claiming = 0.2
one = database()
try:
    one.claim()
    tell("claimed")
except BandannaError as error:
    tell(str(error))
wait()
{after}
tell("later"); wait()
"""


@pytest.fixture
def counting(database: Database) -> Database:
    with database.transaction() as transaction:
        transaction.execute("insert into things (whole, word) values (0, 'count')")
    return database


def counted(database: Database) -> list[tuple[int, ...]]:
    with database.reading() as transaction:
        return transaction.execute("select max(case when word = 'count' then whole end), count(*) from things")


def test_processes_write_one_after_the_other(counting: Database, url: str) -> None:
    with running(COUNT, url, TABLE) as one, running(COUNT, url, TABLE) as two:
        assert (one.hear(), two.hear()) == ("here", "here")
        one.go_on()
        two.go_on()
        assert (one.hear(), two.hear()) == ("done", "done")
    assert counted(counting) == [(50, 1)]


def test_a_kill_inside_a_transaction_undoes_it_and_frees_its_lock(counting: Database, url: str) -> None:
    with running(WRITE.format(inside="wait()"), url, TABLE) as other:
        assert other.hear() == "inside"
        assert counted(counting) == [(0, 1)]  # and nobody waits
        other.kill()
    with counting.transaction() as transaction:
        transaction.execute("update things set whole = whole + 10 where word = 'count'")
    assert counted(counting) == [(10, 1)]


def test_a_kill_after_a_transaction_loses_nothing_of_it(counting: Database, url: str, opened: Opening) -> None:
    with running(WRITE.format(inside="pass"), url, TABLE) as other:
        assert (other.hear(), other.hear()) == ("inside", "after")
        other.kill()
    assert counted(counting) == counted(opened()) == [(1, 1001)]


@pytest.mark.parametrize("last", ["kill", "one.close()"])
def test_one_process_serves_a_database_until_it_closes_it_or_dies(
    database: Database, url: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(CLAIM.format(after="" if last == "kill" else last), url, TABLE) as other:
        assert other.hear() == "claimed"
        with monkeypatch.context() as hurried:
            hurried.setattr(Database, "claiming", 0.2)
            with pytest.raises(BandannaError, match=r"things.* is served by another process"):
                database.claim()
        with database.transaction() as transaction:  # which is not forbidden
            transaction.execute("insert into things (whole) values (1)")
        if last == "kill":
            other.kill()
        else:
            other.go_on()
            assert other.hear() == "later"
        database.claim()
    database.claim()  # again: it is ours
    with running(CLAIM.format(after=""), url, TABLE) as other:
        assert "is served by another process" in other.hear()
    with database.transaction() as transaction:
        transaction.execute("insert into things (whole) values (2)")
    assert counted(database) == [(None, 2)]


def test_a_second_database_of_a_process_neither_serves_nor_frees_the_claim(
    database: Database, opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "claiming", 0.2)
    database.claim()
    for _ in range(2):
        other = opened()
        with pytest.raises(BandannaError, match="is served by another process"):
            other.claim()
        other.close()
    database.close()
    monkeypatch.undo()
    opened().claim()


def test_readers_neither_wait_for_a_writer_nor_see_a_count_go_back(counting: Database, url: str) -> None:
    with running(COUNT, url, TABLE) as other:
        assert other.hear() == "here"
        other.go_on()
        seen = []
        until = time.monotonic() + 600
        while not seen or seen[-1] != 25:
            seen.append(counted(counting)[0][0])
            assert time.monotonic() < until
        assert other.hear() == "done"
    assert seen == sorted(seen)


def test_deleted_rows_are_overwritten_in_the_file(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "x.db"), role="things", schema=TABLE)
    secret = b"a report that nobody may read any more" * 3
    with database.transaction() as transaction:
        transaction.many("insert into things (body) values (?)", [(secret,)] * 200)
    with database.transaction() as transaction:
        transaction.execute("delete from things")

    def readable() -> bool:
        return any(secret[:20] in file.read_bytes() for file in tmp_path.iterdir())

    assert readable()
    with database.reading() as transaction:
        transaction.execute("select count(*) from things")
        assert not database.scrub()  # a reader is in the way, and nobody waits
    assert database.scrub()
    assert not readable()
    with database.transaction() as transaction:
        transaction.many("insert into things (body) values (?)", [(secret,)] * 200)
        assert transaction.execute("pragma busy_timeout") == [(30_000,)]
    with database.transaction() as transaction:
        transaction.execute("delete from things")
    database.close()
    assert not readable()


def test_files_are_private_and_commits_are_synced(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "x.db"), role="things", schema=TABLE)
    database.claim()
    with database.transaction() as transaction:
        transaction.execute("insert into things (whole) values (1)")
        assert transaction.execute("pragma synchronous") == [(2,)]
        assert transaction.execute("pragma journal_mode") == [("wal",)]
        assert transaction.execute("pragma secure_delete") == [(1,)]
    files = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert files == dict.fromkeys(["x.db", "x.db-wal", "x.db-shm", "x.db-served"], 0o600)
    database.close()
    assert sqlite3.connect(tmp_path / "x.db").close() is None


GENERATION = "select generation from claim"


def generation(database: Database) -> int:
    with database.reading() as rows:
        return int(rows.execute(GENERATION)[0][0])


def raised(database: Database) -> None:
    with database.transaction() as rows:
        rows.execute("update claim set generation = generation + 1")


def test_every_claim_has_a_generation_of_its_own(opened: Opening) -> None:
    found = []
    for _ in range(3):
        database = opened()
        database.claim()
        database.claim()  # once more: it is ours
        found.append(generation(database))
        database.close()
    assert found == [1, 2, 3]


def test_a_process_of_another_generation_writes_nothing_more(opened: Opening) -> None:
    sleeper, beside = opened(), opened()
    sleeper.claim()
    sleeper.check_claim()
    raised(beside)
    with pytest.raises(FencedError), sleeper.transaction() as rows:
        rows.execute("insert into things (whole) values (1)")
    for attempt in (sleeper.check_claim, sleeper.claim, lambda: generation(sleeper)):
        with pytest.raises(FencedError):
            attempt()
    assert sleeper.fenced
    with beside.transaction() as rows:  # which has no claim, and needs none
        assert rows.execute("select count(*) from things") == [(0,)]
    beside.check_claim()
    assert not beside.fenced


def test_an_answer_from_memory_needs_the_claim(opened: Opening) -> None:
    sleeper, beside = opened(), opened()
    sleeper.claim()
    raised(beside)
    with pytest.raises(FencedError):
        sleeper.check_claim()
    assert sleeper.fenced


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_removed_lock_file_lets_no_second_process_write(tmp_path: Path, opened: Opening) -> None:
    sleeper, other = opened(), opened()
    sleeper.claim()
    (tmp_path / "things.db-served").unlink()
    other.claim()
    with pytest.raises(FencedError), sleeper.transaction():
        pass
    with other.transaction() as rows:
        rows.execute("insert into things (whole) values (1)")


def test_a_fenced_error_is_a_storage_error() -> None:
    error = pickle.loads(pickle.dumps(FencedError("taken over")))
    assert isinstance(error, StorageError)
    assert str(error) == "taken over"
