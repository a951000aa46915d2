"""A ledger inside the caller's transaction: expense, release and the caller's rows are one; also see test_ledger."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball, Estimate
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import EVENTS, CompositionEvent, GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerEntry
from bandanna.privacy.stores.database import LEDGER_SCHEMA, TransactionStore
from bandanna.storage.database.base import Database, open_database
from bandanna.storage.encoding import Encoding

from ..nursery import nursery
from ..postgres import server

EVENT = GaussianEvent(std=4.0, sensitivity=1.0, grid=0.1)
BUDGET = ApproxDP(epsilon=1.6, delta=1e-5)  # two tasks
SNAPSHOTS = "create table snapshots (batch {bigint} primary key, body {blob} not null)"
SCHEMA = LEDGER_SCHEMA + SNAPSHOTS


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "analyzer.db") if request.param == "sqlite" else server().fresh()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url, role="analyzer", schema=SCHEMA)
    yield opened
    opened.close()


def released(database: Database, batch: int = 1, *, task: str = "t", value: float = 0.1, fail: bool = False) -> Any:
    """One batch: expense, release and snapshot in one transaction."""
    with database.transaction() as transaction:
        ledger = Ledger(budget=BUDGET, store=TransactionStore(transaction))
        members = [f"m{batch}", f"{batch:064x}"]
        answer = ledger.release(
            EVENT, task=task, batch=batch, data=b"%d" % batch, draw=lambda: np.array([value, 1 / 3]), members=members
        )
        transaction.execute("insert into snapshots (batch, body) values (?, ?) on conflict do nothing", batch, b"new")
        if fail:
            raise RuntimeError("before the commit")
    return answer


def held(database: Database) -> tuple[list[tuple[str, bool]], int]:
    """Batches and whether they are released; and how many snapshots there are."""
    with database.reading() as transaction:
        entries = [(one.batch, one.release is not None) for one in TransactionStore(transaction).entries()]
        return entries, transaction.execute("select count(*) from snapshots")[0][0]


def test_an_expense_is_undone_with_its_transaction(database: Database) -> None:
    with pytest.raises(RuntimeError, match="before the commit"):
        released(database, fail=True)
    assert held(database) == ([], 0)
    np.testing.assert_array_equal(released(database, value=0.7), [0.7, 1 / 3])  # it was seen by nobody
    assert held(database) == ([("1", True)], 1)
    with pytest.raises(RuntimeError):
        released(database, 2, fail=True)
    assert held(database) == ([("1", True)], 1)


def test_another_transaction_returns_the_stored_release(database: Database, url: str) -> None:
    first = released(database)
    np.testing.assert_array_equal(released(database, value=9.0), first)
    again = open_database(url, role="analyzer", schema=SCHEMA)
    np.testing.assert_array_equal(released(again, value=9.0), first)
    released(again, 2)
    released(again, 1, task="u")
    with pytest.raises(BudgetExceeded):
        released(again, 1, task="v")
    with pytest.raises(ConflictingRelease), again.transaction() as transaction:
        Ledger(budget=BUDGET, store=TransactionStore(transaction)).release(
            EVENT, task="t", batch=1, data=b"other", draw=lambda: 1.0, members=["m1"]
        )
    assert held(database) == ([("1", True), ("2", True), ("1", True)], 2)
    again.close()


def test_the_secret_of_the_tables_stays(database: Database) -> None:
    with pytest.raises(RuntimeError):
        released(database, fail=True)
    with database.reading() as transaction:
        assert transaction.execute("select count(*) from ledger_secrets") == [(0,)]
    released(database)
    found = []
    for _ in range(2):
        with database.transaction() as transaction:
            found.append(TransactionStore(transaction).secret())
    assert found[0] == found[1]
    assert len(found[0]) == 32


def test_long_events_odd_names_and_large_releases_are_stored(database: Database) -> None:
    rng = np.random.default_rng(5)
    stds = rng.uniform(1, 2, size=400)
    event = CompositionEvent(events=tuple(GaussianEvent(std=std, sensitivity=1.0) for std in stds))
    total = rng.standard_normal(20_000) * 10.0 ** rng.integers(-300, 300, size=20_000)
    members = ("", "a'b?", "\ud800", "ÄÖ\0", "f" * 64, "F" * 64, "0" * 63, "x" * 500)
    entry = LedgerEntry(task="t\x1fÄ%s$1", batch="?;'", event=event, fingerprint="f", members=members)
    with database.transaction() as transaction:
        store = TransactionStore(transaction)
        store.commit(entry)
        store.keep(entry.task, entry.batch, Estimate(total=total, count=3, variance=0.7))
    with database.reading() as transaction:
        store = TransactionStore(transaction)
        (found,) = store.entries()
        assert (found.task, found.batch, found.event, found.members) == (entry.task, entry.batch, event, members)
        assert found.release[0].total.tobytes() == total.tobytes()
        assert store.appearances(entry.task, [*members, "z"]) == {**dict.fromkeys(members, 1), "z": 0}
        assert store.tasks() == {entry.task: Counter({event: 1})}


def test_releases_of_a_declared_kind_are_stored(database: Database) -> None:
    with database.transaction() as transaction:
        store = TransactionStore(transaction, encoding=Encoding(EVENTS | {"Ball": Ball}))
        store.commit(LedgerEntry(task="t", batch="1", event=EVENT, fingerprint="f", release=(Ball(dim=2, bound=1.5),)))
        assert store.find("t", "1").release == (Ball(dim=2, bound=1.5),)
        with pytest.raises(BandannaError, match=r"does not know.*Ball"):
            TransactionStore(transaction).find("t", "1")


def test_many_people_are_asked_about_at_once(database: Database) -> None:
    people = [f"p{i}" for i in range(1203)]
    with database.transaction() as transaction:
        store = TransactionStore(transaction)
        for batch in range(3):
            members = tuple(people[batch::2])
            store.commit(LedgerEntry(task="t", batch=str(batch), event=EVENT, fingerprint="f", members=members))
        seen = store.appearances("t", iter([*people, "nobody"]))
    expected = Counter(person for batch in range(3) for person in people[batch::2])
    assert seen == {person: expected[person] for person in [*people, "nobody"]}


def test_queries_use_an_index(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "x.db"), role="analyzer", schema=SCHEMA)
    with database.transaction() as transaction:
        asked: list[tuple[str, tuple[Any, ...]]] = []
        store = TransactionStore(transaction)
        execute = store._ask
        store._ask = lambda sql, *values: asked.append((sql, values)) or execute(sql, *values)
        Ledger(budget=BUDGET, store=store).release(
            EVENT, task="t", batch=1, data=b"x", draw=lambda: 1.0, members=["a", "b"]
        )
        plans = [
            row[-1]
            for sql, values in asked
            if not sql.startswith("insert into ledger_events")  # rare: a new price
            for row in transaction.execute(f"explain query plan {sql}", *values)
        ]
    database.close()
    assert len(asked) > 8
    assert {plan for plan in plans if plan.startswith("SCAN")} <= {"SCAN ledger_tallies"}  # a row for each price


# A process that is killed between the expense and the release

DYING = """
import signal
import sys
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.database import LEDGER_SCHEMA, TransactionStore
from bandanna.storage.database.base import open_database

database = open_database(sys.argv[1], role="analyzer", schema=LEDGER_SCHEMA + sys.argv[2])
with database.transaction() as transaction:
    store = TransactionStore(transaction)
    def commit(entry, commit=store.commit):
        commit(entry)
        {mutation}
    store.commit = commit
    def draw():
        print("committed, not kept", flush=True)
        signal.pause()
    ledger = Ledger(budget=ApproxDP(epsilon=1.6, delta=1e-5), store=store)
    event = GaussianEvent(std=4.0, sensitivity=1.0, grid=0.1)
    ledger.release(event, task="t", batch=1, data=b"1", draw=draw, members=["m1", f"{1:064x}"])
"""


def killed(url: str, mutation: str, place: Path) -> None:
    """A process that dies when its expense is in the tables, and its release is not."""
    program = place / "dying.py"
    program.write_text(DYING.replace("{mutation}", mutation))
    command = [sys.executable, str(program), url, SNAPSHOTS]
    with (place / "errors").open("w") as errors:
        process = nursery().start(command, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert process.stdout.readline() == b"committed, not kept\n", (place / "errors").read_text()
    finally:
        process.kill()
        process.communicate(60)


def test_an_expense_without_its_release_does_not_survive_its_process(
    database: Database, url: str, tmp_path: Path
) -> None:
    killed(url, "pass", tmp_path)
    assert held(database) == ([], 0)
    np.testing.assert_array_equal(released(database, value=0.4), [0.4, 1 / 3])
    assert held(database) == ([("1", True)], 1)


def test_the_test_above_sees_an_early_commit(database: Database, url: str, tmp_path: Path) -> None:
    killed(url, "transaction._link.commit()", tmp_path)
    assert held(database) == ([("1", False)], 0)
    np.testing.assert_array_equal(released(database, value=0.4), [0.4, 1 / 3])  # repeated, and spent once
    assert held(database) == ([("1", True)], 1)
