"""The durable store: what survives the process, and what other processes see (conformance: test_ledger)."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bandanna.device.domain import Estimate
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerEntry
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.storage import files

from ..nursery import nursery
from ..trouble import in_a_fork

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


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
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


def test_a_missing_file_is_not_made_unless_asked(tmp_path: Path) -> None:
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
