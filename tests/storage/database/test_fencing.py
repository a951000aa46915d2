"""A process that another one has replaced: it writes nothing more, whatever it remembers and whenever it wakes up."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from bandanna.storage.database.base import Database, FencedError, StorageError

from .conftest import Opening

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
def test_a_lock_file_that_was_removed(tmp_path: Path, opened: Opening) -> None:
    sleeper, other = opened(), opened()
    sleeper.claim()
    (tmp_path / "things.db-served").unlink()
    other.claim()
    with pytest.raises(FencedError), sleeper.transaction():
        pass
    with other.transaction() as rows:
        rows.execute("insert into things (whole) values (1)")


def test_being_fenced_is_a_failure_of_the_store() -> None:
    error = pickle.loads(pickle.dumps(FencedError("taken over")))
    assert isinstance(error, StorageError)
    assert str(error) == "taken over"
