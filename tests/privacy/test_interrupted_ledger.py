"""A ledger after an interrupt or a failing disk: the same request is repeated, and gets what anybody has seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandanna.errors import BandannaError
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

from ..trouble import Disk, Failure, Interrupt
from .test_ledger import run_threads

EVENT = GaussianEvent(std=4.0, sensitivity=1.0)
BUDGET = ApproxDP(epsilon=1.6, delta=1e-5)


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are on the disk that can fail."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Disk))


class Asked:
    """A ledger that is asked for one batch after the other, with trouble; and everything it has answered."""

    def __init__(self, store: Any) -> None:
        self.ledger, self.drawn, self.seen = Ledger(budget=BUDGET, store=store), 0, {}

    def ask(self, batch: int, trouble: Any) -> None:
        def draw() -> int:
            self.drawn += 1
            return self.drawn

        try:
            with trouble:
                got = self.ledger.release(
                    EVENT, task="t", batch=batch, data=b"%d" % batch, draw=draw, members=[f"m{batch}", f"n{batch}"]
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
            self.ask(batch, one)
            calm = 0 if one.fired else calm + 1
            for _ in range(2):
                self.ask(batch, nullcontext())
            batch += 1
        self.check(self.ledger.store, batch)
        return batch

    def check(self, store: Any, count: int) -> None:
        entries = store.entries()
        assert {int(one.batch): one.release[0] for one in entries} == self.seen
        assert [one.members for one in entries] == [(f"m{i}", f"n{i}") for i in range(count)]
        assert store.tasks() == {"t": {EVENT: count}}
        assert store.appearances("t", ["m0", "n1", "x"]) == {"m0": 1, "n1": 1, "x": 0}
        run_threads(lambda: self.ask(0, nullcontext()), 1)  # no lock is held


def test_an_interrupt_at_any_line_leaves_a_memory_store_whole() -> None:
    assert Asked(MemoryStore()).sweep(Interrupt) > 40


def test_an_interrupt_at_any_line_leaves_a_file_store_whole(tmp_path: Path) -> None:
    asked = Asked(SQLiteStore(tmp_path / "l"))
    count = asked.sweep(Interrupt)
    assert count > 100
    asked.check(SQLiteStore(tmp_path / "l", create=False), count)


@pytest.mark.parametrize("how", ["before", "after", "gone"])
def test_a_failing_statement_leaves_a_release_whole_or_undone(how: str, tmp_path: Path) -> None:
    asked = Asked(SQLiteStore(tmp_path / "l"))
    count = asked.sweep(partial(Failure, how))
    assert count > 10
    asked.check(SQLiteStore(tmp_path / "l", create=False), count)


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
        asked = Asked(SQLiteStore(path))
        asked.ask(0, nullcontext())
        assert asked.seen == {0: 1}
    assert k > 10
