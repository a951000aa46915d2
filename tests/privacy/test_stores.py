"""Stores of the ledger: an SQLite file, tables in a transaction, and interrupts at any line."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball, Estimate
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import EVENTS, CompositionEvent, GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerEntry, MemoryStore
from bandanna.privacy.stores.database import LEDGER_SCHEMA, TransactionStore
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.storage import files
from bandanna.storage.database.base import Database, open_database
from bandanna.storage.encoding import Encoding

from ..nursery import nursery
from ..postgres import server
from ..trouble import Disk, Failure, Interrupt, in_a_fork
from .test_ledger import run_threads

EVENT = GaussianEvent(std=4.0, sensitivity=1.0, grid=0.1)
BUDGET = ApproxDP(epsilon=1.6, delta=1e-5)  # two tasks


def release(store: SQLiteStore, batch: int = 1, value: float = 0.1, task: str = "t") -> np.ndarray:
    ledger = Ledger(budget=BUDGET, store=store)
    data = np.full((3, 2), float(batch))
    return ledger.release(EVENT, task=task, batch=batch, data=data, draw=lambda: np.array([value, 1 / 3]))


def test_a_file_is_read_again(tmp_path: Path) -> None:
    first = SQLiteStore(tmp_path / "l")
    drawn = release(first)
    kept, secret = first.entries(), first.secret()
    first.close()
    again = SQLiteStore(tmp_path / "l", create=False)
    assert again.secret() == secret
    assert [one.fingerprint for one in again.entries()] == [one.fingerprint for one in kept]
    np.testing.assert_array_equal(release(again, value=9.0), drawn)  # asked again, nothing is drawn
    release(again, task="u")
    with pytest.raises(BudgetExceeded):
        release(again, task="v")


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "l")
    assert stat.S_IMODE(os.stat(tmp_path / "l").st_mode) == 0o600


def test_two_handles_are_one_store(tmp_path: Path) -> None:
    first, second = SQLiteStore(tmp_path / "l"), SQLiteStore(tmp_path / "l")
    drawn = release(first, value=1.0)
    np.testing.assert_array_equal(release(second, value=2.0), drawn)
    with pytest.raises(ConflictingRelease):
        Ledger(budget=BUDGET, store=second).release(EVENT, task="t", batch=1, data=b"other", draw=lambda: 1.0)


def test_estimates_are_stored_and_come_back_equal(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "l")
    store.commit(LedgerEntry(task="t", batch="1", event=EVENT, fingerprint="f"))
    store.keep("t", "1", Estimate(total=np.array([0.1, -np.inf]), count=3, variance=0.7))
    (kept,) = store.find("t", "1").release
    assert (kept.count, kept.variance, kept.total.tolist()) == (3, 0.7, [0.1, -np.inf])


def test_values_that_cannot_be_stored_are_refused(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "l")
    store.commit(LedgerEntry(task="t", batch="1", event=EVENT, fingerprint="f"))
    with pytest.raises(InvalidArgument, match="object"):
        store.keep("t", "1", object())
    assert store.find("t", "1").release is None


@pytest.mark.parametrize("content", [b"hello, this is a letter" * 50, b"SQLite format 3\0" + b"x" * 200])
def test_files_of_another_kind_are_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "l").write_bytes(content)
    with pytest.raises(BandannaError, match="ledger's file"):
        SQLiteStore(tmp_path / "l")
    assert (tmp_path / "l").read_bytes() == content


def test_another_database_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "l")
    other.execute("create table cats (name text)")
    other.close()
    with pytest.raises(BandannaError, match="not a ledger's file"):
        SQLiteStore(tmp_path / "l")


def test_a_missing_file_is_made_only_with_create(tmp_path: Path) -> None:
    with pytest.raises(BandannaError, match="does not exist"):
        SQLiteStore(tmp_path / "l", create=False)
    assert not (tmp_path / "l").exists()


CHILD = """
import sys, numpy as np, os, signal
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.stores.sqlite import SQLiteStore
ledger = Ledger(budget=ApproxDP(epsilon=1.6, delta=1e-5), store=SQLiteStore(sys.argv[1]))
event = GaussianEvent(std=4.0, sensitivity=1.0, grid=0.1)
ledger.release(event, task="t", batch=1, data=b"1", draw=lambda: np.array([0.5]))
ledger.release(event, task="t", batch=2, data=b"2", draw=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_process_killed_while_drawing_leaves_earlier_releases(tmp_path: Path) -> None:
    program, errors = tmp_path / "child.py", tmp_path / "errors"
    program.write_text(CHILD)
    with errors.open("w") as log:
        done = nursery().start([sys.executable, str(program), str(tmp_path / "l")], stdout=log, stderr=log)
    assert done.wait(600) == -signal.SIGKILL, errors.read_text()
    store = SQLiteStore(tmp_path / "l")
    (kept,) = store.entries()
    assert (kept.batch, kept.release[0].tolist()) == ("1", [0.5])
    ledger = Ledger(budget=BUDGET, store=store)
    assert ledger.release(EVENT, task="t", batch=2, data=b"2", draw=lambda: 7.0) == 7.0


# Several processes at once

OPENER = """
import sys
from bandanna.privacy.stores.sqlite import SQLiteStore
print("ready", flush=True)
for line in open(sys.argv[1]):
    try:
        print(SQLiteStore(line.strip()).secret().hex(), flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""


def test_processes_that_make_one_file_at_once(tmp_path: Path) -> None:
    program, pipes = tmp_path / "opener.py", [tmp_path / f"pipe {place}" for place in range(3)]
    program.write_text(OPENER)
    with ExitStack() as stack:
        errors, openers = stack.enter_context((tmp_path / "errors").open("w")), []
        for pipe in pipes:
            os.mkfifo(pipe)
            command = [sys.executable, str(program), str(pipe)]
            openers.append(nursery().start(command, stdout=subprocess.PIPE, stderr=errors))
            stack.callback(openers[-1].communicate, 120)
            stack.callback(openers[-1].kill)
        assert [opener.stdout.readline() for opener in openers] == [b"ready\n"] * 3
        written = [stack.enter_context(pipe.open("w")) for pipe in pipes]
        for number in range(40):
            for pipe in written:
                pipe.write(f"{tmp_path / str(number)}\n")
            for pipe in written:
                pipe.flush()
            secrets = {opener.stdout.readline().decode().strip() for opener in openers}
            assert secrets == {SQLiteStore(tmp_path / str(number), create=False).secret().hex()}


class Beaten(sqlite3.Connection):
    """A connection before whose k-th statement another process makes the file."""

    left, path = 0, Path()

    def execute(self, *given: object) -> sqlite3.Cursor:
        """After the other, if it is time and no transaction of ours keeps it out."""
        Beaten.left -= 1
        if Beaten.left == 0 and not self.in_transaction:
            SQLiteStore(Beaten.path)
        return super().execute(*given)


def test_a_file_made_by_another_process_meanwhile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Beaten))
    for k in range(1, 40):
        path = tmp_path / str(k)
        Beaten.left, Beaten.path = k, path
        store = SQLiteStore(path)
        release(store)
        assert SQLiteStore(path, create=False).secret() == store.secret()
    assert Beaten.left < 0


def test_a_rollback_journal_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other, genuine = tmp_path / "l", tmp_path / "l-journal", files.check_regular_file
    secret = SQLiteStore(path).secret()

    def looked_at(file: Path) -> None:
        genuine(file)
        if file == other:
            other.unlink()

    monkeypatch.setattr(files, "check_regular_file", looked_at)
    other.touch()
    assert SQLiteStore(path).secret() == secret
    assert not other.exists()


PROBE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("begin immediate")
    print("free")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_opening_a_file_again_keeps_its_locks(tmp_path: Path) -> None:

    def others_find() -> str:
        probe = subprocess.run(
            [sys.executable, "-c", PROBE, tmp_path / "l"], capture_output=True, text=True, check=True
        )
        return probe.stdout.strip()

    store = SQLiteStore(tmp_path / "l")

    def work() -> list[str]:
        before = others_find()
        SQLiteStore(tmp_path / "l").close()
        return [before, others_find()]

    assert store.alone(work) == ["database is locked"] * 2
    assert others_find() == "free"


def test_a_forked_process_opens_the_file_anew(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "l")
    held, done = threading.Event(), threading.Event()
    holder = threading.Thread(target=lambda: store.alone(lambda: (held.set(), done.wait())))
    holder.start()
    held.wait()
    try:
        answers = in_a_fork(store.entries, store.tasks, lambda: release(store), lambda: store.find("t", "1"))
    finally:
        done.set()
        holder.join()
    assert answers == ["BandannaError"] * 4
    release(store)


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


def test_appearances_of_many_users_are_counted_at_once(database: Database) -> None:
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
        statements: list[tuple[str, tuple[Any, ...]]] = []
        store = TransactionStore(transaction)
        execute = store._run_query
        store._run_query = lambda sql, *values: statements.append((sql, values)) or execute(sql, *values)
        Ledger(budget=BUDGET, store=store).release(
            EVENT, task="t", batch=1, data=b"x", draw=lambda: 1.0, members=["a", "b"]
        )
        plans = [
            row[-1]
            for sql, values in statements
            if not sql.startswith("insert into ledger_events")  # rare: a new price
            for row in transaction.execute(f"explain query plan {sql}", *values)
        ]
    database.close()
    assert len(statements) > 8
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


NOISY = GaussianEvent(std=4.0, sensitivity=1.0)


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are on the disk that can fail."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Disk))


class TroubledLedger:
    """A ledger that releases one batch after the other, with failures, and all its answers."""

    def __init__(self, store: Any) -> None:
        self.ledger, self.drawn, self.seen = Ledger(budget=BUDGET, store=store), 0, {}

    def spend(self, batch: int, trouble: Any) -> None:
        def draw() -> int:
            self.drawn += 1
            return self.drawn

        try:
            with trouble:
                got = self.ledger.release(
                    NOISY, task="t", batch=batch, data=b"%d" % batch, draw=draw, members=[f"m{batch}", f"n{batch}"]
                )
        except KeyboardInterrupt:
            return
        except BandannaError as cause:
            if "disk I/O error" not in str(cause):
                raise
            return
        assert self.seen.setdefault(batch, got) == got  # what was seen once is seen ever after

    def sweep(self, trouble: Callable[[int], Any]) -> int:
        """Trouble at each place in turn; then the same request without. How many places there were."""
        batch, calm = 0, 0
        while calm < 3:
            one = trouble(batch + 1)
            self.spend(batch, one)
            calm = 0 if one.fired else calm + 1
            for _ in range(2):
                self.spend(batch, nullcontext())
            batch += 1
        self.check(self.ledger.store, batch)
        return batch

    def check(self, store: Any, count: int) -> None:
        entries = store.entries()
        assert {int(one.batch): one.release[0] for one in entries} == self.seen
        assert [one.members for one in entries] == [(f"m{i}", f"n{i}") for i in range(count)]
        assert store.tasks() == {"t": {NOISY: count}}
        assert store.appearances("t", ["m0", "n1", "x"]) == {"m0": 1, "n1": 1, "x": 0}
        run_threads(lambda: self.spend(0, nullcontext()), 1)  # no lock is held


def test_an_interrupt_at_any_line_leaves_a_memory_store_whole() -> None:
    assert TroubledLedger(MemoryStore()).sweep(Interrupt) > 40


def test_an_interrupt_at_any_line_leaves_a_file_store_whole(tmp_path: Path) -> None:
    troubled = TroubledLedger(SQLiteStore(tmp_path / "l"))
    count = troubled.sweep(Interrupt)
    assert count > 100
    troubled.check(SQLiteStore(tmp_path / "l", create=False), count)


@pytest.mark.parametrize("how", ["before", "after", "gone"])
def test_a_failing_statement_leaves_a_release_whole_or_undone(how: str, tmp_path: Path) -> None:
    troubled = TroubledLedger(SQLiteStore(tmp_path / "l"))
    count = troubled.sweep(partial(Failure, how))
    assert count > 10
    troubled.check(SQLiteStore(tmp_path / "l", create=False), count)


@pytest.mark.parametrize(
    ("trouble", "stride"), [(Interrupt, 5), (partial(Failure, "before"), 1), (partial(Failure, "after"), 1)]
)
def test_a_file_that_was_never_finished(trouble: Callable[[int], Any], stride: int, tmp_path: Path) -> None:
    k, calm = 1, 0
    while calm < 3:
        one, path = trouble(k), tmp_path / str(k)
        try:
            with one:
                SQLiteStore(path)
        except (KeyboardInterrupt, BandannaError):
            pass
        calm, k = 0 if one.fired else calm + 1, k + stride
        troubled = TroubledLedger(SQLiteStore(path))
        troubled.spend(0, nullcontext())
        assert troubled.seen == {0: 1}
    assert k > 10
