"""Disks that are full, and databases of last week: refused, told, recovered; never a second noise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import bandanna as bd
from bandanna.deployment.http.requests import to_refusal
from bandanna.errors import BandannaError
from bandanna.storage.database.base import StorageError

from ..inside import a_task
from .machine import KINDS, check_history
from .people import People
from .test_points import begun, finish, work
from .town import GRACE, Town


@contextmanager
def full(town: Town, role: str) -> Iterator[None]:
    rows = town.alive[role]["rows"]
    with rows.transaction() as transaction:
        transaction.execute("create table filler (body blob)")
        sql = rows._writer._sql
    ((pages,),) = sql.execute("pragma page_count").fetchall()
    ((most,),) = sql.execute("pragma max_page_count").fetchall()
    sql.execute(f"pragma max_page_count = {pages}")
    for size in (2000, 500, 100, 20):
        with suppress(StorageError):
            for _ in range(1000):
                with rows.transaction() as transaction:
                    transaction.execute("insert into filler values (?)", bytes(size))
    try:
        yield
    finally:
        sql.execute(f"pragma max_page_count = {most}")
        with rows.transaction() as transaction:
            transaction.execute("drop table filler")


@pytest.mark.parametrize(("kind", "role"), [("central", "analyzer"), ("two mixers", "shuffler")])
def test_a_collector_with_a_full_disk_acknowledges_nothing_and_recovers(kind: str, role: str, tmp_path: Path) -> None:
    name, arguments, mixers = KINDS[kind]
    policy = bd.make(name, **{**arguments, "batch": 100, "horizon": 200})
    town = Town(*a_task(policy, mixers=mixers, seed=None, close="grace", grace=GRACE), tmp_path)
    work(town)
    people = People(town)
    people.come(final=True)
    with full(town, role):
        late = [people.come(final=True) for _ in range(99)]
        refused = [each for each in late if each.outbox]
        assert refused
        work(town)
    for each in refused:
        people.send(each)
    work(town)
    assert town.alive["analyzer"]["learner"].published.number == 1
    people.check()
    assert town.deaths == 0


@pytest.mark.parametrize("kind", ["one mixer", "two mixers"])
def test_an_analyzer_with_a_full_disk_releases_nothing_and_keeps_the_share(kind: str, tmp_path: Path) -> None:
    town, people = begun(kind, tmp_path, 4)
    with full(town, "analyzer"):
        work(town, 3)
        assert town.alive["analyzer"]["learner"].published.number == 0
        assert town.alive["shuffler"]["collector"].waiting()
    work(town)
    assert town.alive["analyzer"]["learner"].published.number == 1
    finish(town, people)
    assert town.deaths == 0


def test_a_full_disk_is_told_as_come_again() -> None:
    told = to_refusal(StorageError("no room"))
    assert (told.status, told.reason, told.headers) == (503, "storage", [(b"retry-after", b"1")])


def copied(town: Town, role: str, folder: Path) -> Path:
    town.kill(role)
    shutil.copy(folder / f"{role}.db", folder / f"{role}.old")
    town.start(role)
    return folder / f"{role}.old"


def rolled_back(town: Town, role: str, folder: Path) -> None:
    town.kill(role)
    for ending in ("-wal", "-shm"):
        (folder / f"{role}.db{ending}").unlink(missing_ok=True)
    shutil.copy(folder / f"{role}.old", folder / f"{role}.db")
    town.start(role)


@pytest.mark.parametrize("kind", ["central", "one mixer", "two mixers", "tree"])
def test_a_rolled_back_analyzer_releases_nothing_twice_and_can_be_restored(kind: str, tmp_path: Path) -> None:
    town, people = begun(kind, tmp_path)
    copied(town, "analyzer", tmp_path)
    work(town, 1)
    for _ in range(4):
        people.come(final=True)
    work(town)
    seen = dict(town.documents)
    assert max(seen) == 0 or 1 in seen
    town.kill("analyzer")
    shutil.copy(tmp_path / "analyzer.db", tmp_path / "analyzer.new")
    town.start("analyzer")
    rolled_back(town, "analyzer", tmp_path)
    town.step("analyzer")  # asks the registrar
    for _ in range(8):
        with suppress(BandannaError):  # "the analyzer has gone back"
            people.come(final=True)
            work(town, 1)
    assert town.alive["analyzer"]["learner"].rolled_back
    assert town.alive["analyzer"]["learner"].published is None  # it shows nothing, not even what it knows
    shutil.copy(tmp_path / "analyzer.new", tmp_path / "analyzer.old")
    rolled_back(town, "analyzer", tmp_path)
    finish(town, people)


@pytest.mark.parametrize("role", ["shuffler", "helper"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_another_role_that_was_rolled_back(role: str, when: str, tmp_path: Path) -> None:
    town, people = begun("two mixers", tmp_path)
    if when == "before":
        copied(town, role, tmp_path)
    for _ in range(4):
        people.come(final=True)
    if when == "after":
        copied(town, role, tmp_path)
        work(town, 1)
    work(town)
    assert town.alive["analyzer"]["learner"].published.number == 1
    rolled_back(town, role, tmp_path)
    finish(town, people)


def test_a_rolled_back_registrar_cosigns_nothing_until_its_newest_database_is_back(tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path)
    copied(town, "registrar", tmp_path)
    for _ in range(8):
        people.come(final=True)
        work(town, 1)
    work(town)
    number = town.alive["analyzer"]["learner"].number
    assert number >= 2
    newest = tmp_path / "registrar.new"
    town.kill("registrar")
    shutil.copy(tmp_path / "registrar.db", newest)
    rolled_back(town, "registrar", tmp_path)
    town.kill("analyzer")
    town.start("analyzer")
    town.step("analyzer")
    assert town.alive["registrar"]["notary"].behind
    assert town.alive["analyzer"]["learner"].pending is not None
    assert not town.alive["analyzer"]["learner"].rolled_back
    shutil.copy(newest, tmp_path / "registrar.old")
    rolled_back(town, "registrar", tmp_path)
    work(town)
    assert town.alive["analyzer"]["learner"].number >= number
    finish(town, people)


def test_a_shuffler_that_lacks_a_batch_of_a_stream_stops(tmp_path: Path) -> None:
    town, people = begun("tree", tmp_path)
    copied(town, "shuffler", tmp_path)
    for _ in range(8):
        people.come(final=True)
        work(town, 1)
    number = town.alive["analyzer"]["learner"].published.number
    assert number >= 2
    rolled_back(town, "shuffler", tmp_path)
    town.now += GRACE
    with pytest.raises(BandannaError, match="restore the database"):
        town.step("shuffler")
    assert town.alive["analyzer"]["learner"].published.number == number
    check_history(town)
