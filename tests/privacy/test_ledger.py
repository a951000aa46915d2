"""The ledger: one conformance suite for all stores, then what a ledger promises over any of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball
from bandanna.errors import (
    BandannaError,
    BudgetExceeded,
    ConflictingRelease,
    InvalidArgument,
    InvalidStatistic,
    UnknownEvent,
)
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.events import (
    BinomialEvent,
    ClearEvent,
    CompositionEvent,
    ContinualEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
)
from bandanna.privacy.factorisation import BinaryTree
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

from .in_transactions import in_postgres, in_sqlite


class PlainStore(MemoryStore):
    """A store of somebody's own, with nothing but the methods that it must have."""

    tasks, named, appearances = LedgerStore.tasks, LedgerStore.named, LedgerStore.appearances


# Every implementation of LedgerStore is registered here: a name, and how to make an empty one in a folder.
STORES: dict[str, Callable[[Path], LedgerStore]] = {
    "memory": lambda folder: MemoryStore(),
    "plain": lambda folder: PlainStore(),
    "sqlite": lambda folder: SQLiteStore(folder / f"{len(list(folder.iterdir()))}.ledger"),
    "tables in SQLite": in_sqlite,
    "tables in PostgreSQL": in_postgres,
}

EVENT = GaussianEvent(std=2.0, sensitivity=1.0)  # mu = 1/2
BUDGET = ApproxDP(epsilon=gdp.epsilon(1e-5, 0.5) * (1 + 1e-9), delta=1e-5)  # exactly one such release


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LedgerStore]:
    """How to make an empty store, one implementation after the other."""
    return partial(STORES[request.param], tmp_path)


@pytest.fixture
def store(make_store: Callable[[], LedgerStore]) -> LedgerStore:
    return make_store()


class Draw:
    """Noise that counts how often it is drawn, and fails the first `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self.failures = failures

    def __call__(self) -> np.ndarray:
        self.calls += 1
        if self.calls <= self.failures:
            raise OSError("no entropy today")
        return np.array([float(self.calls)])


def entry(task: str = "t", batch: str = "1", **changes: Any) -> LedgerEntry:
    return LedgerEntry(**{"task": task, "batch": batch, "event": EVENT, "fingerprint": "f", **changes})


# Conformance: what every store must do


def test_a_new_store_is_empty(store: LedgerStore) -> None:
    assert store.entries() == []
    assert store.find("t", "1") is None


def test_store_keeps_entries_in_order(store: LedgerStore) -> None:
    added = [entry("t", "1"), entry("t", "2", members=("a", "b")), entry("u", "1", event=ClearEvent()), entry("t", "0")]
    for one in added:
        store.commit(one)
    assert store.entries() == added
    for one in added:
        assert store.find(one.task, one.batch) == one
    assert store.find("u", "2") is None
    assert store.find("1", "t") is None


def test_store_refuses_a_taken_id(store: LedgerStore) -> None:
    store.commit(entry())
    with pytest.raises(ConflictingRelease, match=r"'t'.*'1'"):
        store.commit(entry(fingerprint="other"))
    assert store.entries() == [entry()]


def test_store_keeps_a_release_once(store: LedgerStore) -> None:
    store.commit(entry("t", "1"))
    store.commit(entry("t", "2"))
    assert store.find("t", "1").release is None
    store.keep("t", "1", 41.5)
    assert store.find("t", "1") == entry("t", "1", release=(41.5,))
    assert store.find("t", "2") == entry("t", "2")
    with pytest.raises(ConflictingRelease, match="released already"):
        store.keep("t", "1", 42.5)
    assert store.find("t", "1").release == (41.5,)
    assert [one.batch for one in store.entries()] == ["1", "2"]


def test_store_tells_a_release_of_none_from_no_release(store: LedgerStore) -> None:
    store.commit(entry())
    store.keep("t", "1", None)
    assert store.find("t", "1").release == (None,)
    with pytest.raises(ConflictingRelease):
        store.keep("t", "1", 1.0)


def test_store_keeps_no_release_without_an_expense(store: LedgerStore) -> None:
    with pytest.raises((BandannaError, LookupError)):
        store.keep("t", "1", 1.0)
    assert store.entries() == []


def test_store_has_a_secret_of_its_own(make_store: Callable[[], LedgerStore]) -> None:
    first, second = make_store(), make_store()
    assert len(first.secret()) >= 16
    assert first.secret() == first.secret()
    assert first.secret() != second.secret()


def test_the_list_of_entries_is_a_copy(store: LedgerStore) -> None:
    store.commit(entry())
    store.entries().clear()
    assert store.entries() == [entry()]


def test_summaries_are_those_of_the_entries(store: LedgerStore) -> None:
    assert store.tasks() == {}
    assert store.named("t") is None
    assert store.appearances("t", ["a"]) == {"a": 0}
    dear = GaussianEvent(std=1.0, sensitivity=1.0)
    for one in (
        entry("t", "1", members=("a", "b")),
        entry("t", "2", members=("b",), release=(1.5,)),
        entry("u", "1"),
        entry("t", "3", members=("c",), event=dear),
    ):
        store.commit(one)
    assert store.tasks() == {"t": Counter({EVENT: 2, dear: 1}), "u": Counter({EVENT: 1})}
    store.tasks()["t"].clear()  # a copy
    assert store.tasks()["t"][EVENT] == 2
    assert (store.named("t"), store.named("u"), store.named("v")) == (True, False, None)
    assert store.appearances("t", ["b", "a", "z"]) == {"b": 2, "a": 1, "z": 0}
    assert store.appearances("u", ["b"]) == {"b": 0}
    assert store.find("t", "2").release == (1.5,)


def test_work_in_a_store_is_exclusive(store: LedgerStore) -> None:
    inside, most = 0, 0
    barrier = threading.Barrier(4)

    def step(i: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if store.find("t", str(i)) is None:
            store.commit(entry("t", str(i)))  # would raise if another thread came between
        inside -= 1
        return i

    def work() -> None:
        barrier.wait()
        assert [store.alone(partial(step, i)) for i in range(50)] == list(range(50))

    run_threads(work, 4)
    assert most == 1
    assert len(store.entries()) == 50


def run_threads(work: Callable[[], None], count: int) -> None:
    """Run the same work in several threads; an error in any of them is raised here."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # whatever it is, it is the test's to report
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# Check, commit, release


def test_a_repeated_request_returns_the_stored_release(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    data = np.arange(6.0).reshape(2, 3)
    first = ledger.release(EVENT, task="t", batch=1, data=data, draw=draw)
    for batch in (1, "1"):
        again = ledger.release(EVENT, task="t", batch=batch, data=data.copy(), draw=draw)
        assert np.array_equal(again, first)
    assert draw.calls == 1
    assert len(store.entries()) == 1
    assert ledger.spent() == pytest.approx(BUDGET.epsilon, rel=1e-6)


def test_memory_store_returns_what_was_stored() -> None:
    ledger = Ledger(budget=BUDGET)
    drawn = {"total": np.array([1.0, 2.0]), "count": 3, "note": None}
    first = ledger.release(EVENT, task="t", batch=1, data=b"x", draw=lambda: drawn)
    again = ledger.release(EVENT, task="t", batch=1, data=b"x", draw=object)
    assert type(first) is type(again) is dict
    assert np.array_equal(first.pop("total"), again.pop("total"))
    assert first == again == {"count": 3, "note": None}


def test_a_restarted_ledger_knows_releases_and_expenses(store: LedgerStore) -> None:
    draw = Draw()
    first = Ledger(budget=BUDGET, store=store).release(EVENT, task="t", batch=1, data=b"x", draw=draw)
    restarted = Ledger(budget=BUDGET, store=store)
    assert np.array_equal(restarted.release(EVENT, task="t", batch=1, data=b"x", draw=draw), first)
    assert draw.calls == 1
    with pytest.raises(BudgetExceeded):
        restarted.release(EVENT, task="u", batch=1, data=b"x", draw=draw)


def test_expense_is_committed_before_the_noise_is_drawn(store: LedgerStore) -> None:
    seen: list[list[LedgerEntry]] = []
    Ledger(budget=BUDGET, store=store).release(
        EVENT, task="t", batch=1, data=b"x", draw=lambda: seen.append(store.entries())
    )
    ((committed,),) = seen
    assert committed.event == EVENT
    assert committed.release is None


def test_failed_draw_leaves_the_expense(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw(failures=2)
    for _ in range(2):
        with pytest.raises(OSError, match="entropy"):
            ledger.release(EVENT, task="t", batch=1, data=b"x", draw=draw)
        assert [one.release for one in store.entries()] == [None]
    with pytest.raises(BudgetExceeded):  # it counts
        ledger.release(EVENT, task="u", batch=1, data=b"x", draw=draw)
    with pytest.raises(ConflictingRelease):  # and it is bound to its data
        ledger.release(EVENT, task="t", batch=1, data=b"y", draw=draw)
    assert ledger.release(EVENT, task="t", batch=1, data=b"x", draw=draw) == [3.0]
    assert len(store.entries()) == 1


def test_refused_expense_leaves_nothing(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    dear = GaussianEvent(std=1.99, sensitivity=1.0)
    with pytest.raises(BudgetExceeded, match=r"'t'.*2\.004.*1\.99.*nothing was spent or released"):
        ledger.release(dear, task="t", batch=1, data=b"x", draw=draw)
    assert draw.calls == 0
    assert store.entries() == []
    assert ledger.spent() == 0.0
    ledger.release(EVENT, task="t", batch=1, data=b"x", draw=draw)  # the id is still free


def test_an_event_without_a_price_is_not_released(store: LedgerStore) -> None:
    class Secret(Event):
        """Nobody knows what this costs."""

    draw = Draw()
    with pytest.raises(UnknownEvent):
        Ledger(budget=BUDGET, store=store).release(Secret(), task="t", batch=1, data=b"x", draw=draw)
    assert draw.calls == 0
    assert store.entries() == []


# Other data, other mechanisms


@pytest.mark.parametrize(
    "other",
    [
        np.array([[1.0, 2.0], [3.0, 5.0]]),
        np.array([[1.0, 2.0, 3.0, 4.0]]),
        np.array([[1.0, 3.0], [2.0, 4.0]]),
        np.array([1.0, 2.0, 3.0]),
        b"1234",
    ],
    ids=["a value", "the shape", "transposed", "shorter", "bytes"],
)
def test_other_data_under_a_released_id_is_refused(store: LedgerStore, other: Any) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    ledger.release(EVENT, task="t", batch=1, data=np.array([[1.0, 2.0], [3.0, 4.0]]), draw=draw)
    with pytest.raises(ConflictingRelease, match=r"'t'.*'1'.*nothing was released"):
        ledger.release(EVENT, task="t", batch=1, data=other, draw=draw)
    assert draw.calls == 1


def test_another_mechanism_under_a_released_id_is_refused(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    ledger.release(EVENT, task="t", batch=1, data=b"x", draw=draw)
    for other in (GaussianEvent(std=4.0, sensitivity=1.0), GaussianEvent(std=2.0, sensitivity=1.0, dim=2)):
        with pytest.raises(ConflictingRelease, match="another mechanism"):
            ledger.release(other, task="t", batch=1, data=b"x", draw=draw)
    assert draw.calls == 1


def test_equal_data_in_other_memory_is_the_same(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    data = np.arange(6.0).reshape(2, 3) / 20
    ledger.release(EVENT, task="t", batch=1, data=data, draw=draw)
    for same in (np.asfortranarray(data), data.tolist(), np.repeat(data, 2, axis=0)[::2], Ball(dim=3).admit(data)):
        ledger.release(EVENT, task="t", batch=1, data=same, draw=draw)
    assert draw.calls == 1


def test_fingerprints_are_keyed(make_store: Callable[[], LedgerStore]) -> None:
    marks = set()
    for _ in range(2):
        store = make_store()
        Ledger(budget=BUDGET, store=store).release(EVENT, task="t", batch=1, data=[[0.5]], draw=Draw())
        (kept,) = store.entries()
        marks.add(kept.fingerprint)
        assert "0.5" not in repr(kept)
    assert len(marks) == 2


@pytest.mark.parametrize("inner", [False, True])
def test_an_interrupted_repr_changes_no_fingerprint(inner: bool) -> None:
    tree = BinaryTree(horizon=8)
    event = ContinualEvent(factorisation=tree, std=40.0, sensitivity=1.0)
    ledger, draw = Ledger(budget=BUDGET, store=MemoryStore()), Draw()
    first = ledger.release(event, task="t", batch=1, data=[[0.5]], draw=draw)
    shown: Any = tree if inner else event
    (running,) = (
        cell.cell_contents for cell in type(shown).__repr__.__closure__ if isinstance(cell.cell_contents, set)
    )
    running.add((id(shown), threading.get_ident()))  # what an interrupt leaves
    try:
        assert "..." in repr(event)
        assert ledger.release(event, task="t", batch=1, data=[[0.5]], draw=draw) == first
    finally:
        running.clear()
    assert draw.calls == 1


def test_data_must_be_numbers_or_bytes(store: LedgerStore) -> None:
    with pytest.raises(InvalidStatistic, match="data"):
        Ledger(budget=BUDGET, store=store).release(EVENT, task="t", batch=1, data=[object()], draw=Draw())
    assert store.entries() == []


# The budget


@pytest.mark.parametrize("participations", [1, 2, 3])
def test_a_user_in_several_batches_pays_for_all_of_them(store: LedgerStore, participations: int) -> None:
    budget = ApproxDP(epsilon=gdp.epsilon(1e-5, 0.5 * participations**0.5) * (1 + 1e-9), delta=1e-5)
    ledger = Ledger(budget=budget, participations=participations, store=store)
    for batch in range(6):  # every person is in M of them: no more than M are paid for
        ledger.release(EVENT, task="t", batch=batch, data=b"x", draw=Draw())
    assert ledger.spent() <= budget.epsilon * (1 + 1e-6)
    dearer = GaussianEvent(std=1.9, sensitivity=1.0)
    with pytest.raises(BudgetExceeded):
        ledger.release(dearer, task="t", batch=6, data=b"x", draw=Draw())
    with pytest.raises(BudgetExceeded):
        ledger.release(GaussianEvent(std=20.0, sensitivity=1.0), task="u", batch=0, data=b"x", draw=Draw())
    assert len(store.entries()) == 6


@pytest.mark.parametrize("participations", [1, 2, 3])
@pytest.mark.often(when=lambda make_store, participations: participations == 2 or make_store == next(iter(STORES)))
def test_unequal_batches_keep_the_budget_of_every_possible_user(store: LedgerStore, participations: int) -> None:
    rng = np.random.default_rng(5)
    ledger = Ledger(budget=ApproxDP(epsilon=2.0, delta=1e-5), participations=participations, store=store)
    refused = 0
    for i in range(14):
        event: Event = GaussianEvent(std=float(rng.choice([2.5, 4.0, 6.0])), sensitivity=1.0)
        if i % 4 == 3:
            event = BinomialEvent(trials=int(rng.choice([4000, 16_000])), shift=9.0, reach=9, dim=2)
        try:
            ledger.release(event, task=str(rng.choice(["a", "b"])), batch=i, data=b"x", draw=Draw())
        except BudgetExceeded:
            refused += 1
    assert 0 < refused < 14
    tasks: dict[str, list[Event]] = {}
    for one in store.entries():
        tasks.setdefault(one.task, []).append(one.event)
    choices = [
        list(
            {
                tuple(sorted(choice, key=repr))
                for choice in itertools.combinations(events, min(participations, len(events)))
            }
        )
        for events in tasks.values()
    ]
    for choice in itertools.product(*choices):
        person = CompositionEvent(events=tuple(event for part in choice for event in part))
        assert accountant.satisfies(person, ledger.budget)


def test_pure_and_concentrated_budgets_are_not_overspent(store: LedgerStore) -> None:
    ledger = Ledger(budget=PureDP(epsilon=1.0), participations=2, store=store)
    half = LaplaceEvent(scale=2.0, sensitivity=1.0)
    for batch in range(3):
        ledger.release(half, task="t", batch=batch, data=b"x", draw=Draw())
    with pytest.raises(BudgetExceeded):
        ledger.release(LaplaceEvent(scale=1.9, sensitivity=1.0), task="t", batch=3, data=b"x", draw=Draw())
    with pytest.raises(BudgetExceeded):
        ledger.release(EVENT, task="t", batch=3, data=b"x", draw=Draw())  # Gaussian noise is not pure
    concentrated = Ledger(budget=ZCDP(rho=0.25))
    concentrated.release(EVENT, task="t", batch=0, data=b"x", draw=Draw())  # rho = 1/8
    concentrated.release(EVENT, task="u", batch=0, data=b"x", draw=Draw())
    with pytest.raises(BudgetExceeded):
        concentrated.release(GaussianEvent(std=50.0, sensitivity=1.0), task="v", batch=0, data=b"x", draw=Draw())


def test_spent_is_the_composed_epsilon() -> None:
    ledger = Ledger(budget=ApproxDP(epsilon=5.0, delta=1e-5))
    assert ledger.spent() == 0.0
    ledger.release(EVENT, task="t", batch=0, data=b"x", draw=Draw())
    ledger.release(GaussianEvent(std=1.0, sensitivity=1.0), task="t", batch=1, data=b"x", draw=Draw())
    assert ledger.spent() == pytest.approx(gdp.epsilon(1e-5, 1.0), rel=1e-6)
    ledger.release(EVENT, task="u", batch=0, data=b"x", draw=Draw())
    assert ledger.spent() >= gdp.epsilon(1e-5, 1.25**0.5) * (1 - 1e-9)
    twice = Ledger(budget=ApproxDP(epsilon=5.0, delta=1e-5), participations=2)
    for batch in range(5):
        twice.release(EVENT, task="t", batch=batch, data=b"x", draw=Draw())
    assert twice.spent() == pytest.approx(gdp.epsilon(1e-5, 0.5**0.5), rel=1e-6)


@pytest.mark.parametrize("participations", [0, -1, 1.5, True, None, "2"])
def test_a_ledger_with_meaningless_participations_is_refused(participations: Any) -> None:
    with pytest.raises(InvalidArgument, match="participations"):
        Ledger(budget=BUDGET, participations=participations)


# Members


def test_members_are_in_no_more_batches_than_composed(store: LedgerStore) -> None:
    budget = ApproxDP(epsilon=9.0, delta=1e-5)
    ledger = Ledger(budget=budget, participations=2, store=store)
    draw = Draw()
    ledger.release(EVENT, task="t", batch=1, data=b"1", draw=draw, members=["ann", "bob"])
    ledger.release(EVENT, task="t", batch=2, data=b"2", draw=draw, members=["ann", "cid"])
    with pytest.raises(BudgetExceeded, match=r"members\[1\] has been in 2"):
        ledger.release(EVENT, task="t", batch=3, data=b"3", draw=draw, members=["dee", "ann"])
    assert draw.calls == 2
    ledger.release(EVENT, task="t", batch=3, data=b"3", draw=draw, members=["dee", "bob"])
    ledger.release(EVENT, task="u", batch=1, data=b"4", draw=draw, members=["ann"])  # another task composes
    ledger.release(EVENT, task="t", batch=1, data=b"1", draw=draw, members=["ann", "bob"])  # asked again
    assert draw.calls == 4
    assert Counter(p for one in store.entries() for p in one.members) == {"ann": 3, "bob": 2, "cid": 1, "dee": 1}


def test_a_member_is_in_a_batch_once(store: LedgerStore) -> None:
    with pytest.raises(InvalidArgument, match=r"members\[0\] must be .* got one who is there twice"):
        Ledger(budget=BUDGET, participations=2, store=store).release(
            EVENT, task="t", batch=1, data=b"1", draw=Draw(), members=["ann", "bob", "ann"]
        )
    assert store.entries() == []


# Threads


def test_threads_with_one_request_share_one_draw(store: LedgerStore) -> None:
    ledger, draw = Ledger(budget=BUDGET, store=store), Draw()
    barrier, results = threading.Barrier(4), []

    def slow() -> np.ndarray:
        time.sleep(0.05)  # the others are asking by now
        return draw()

    def work() -> None:
        barrier.wait()
        results.append(float(ledger.release(EVENT, task="t", batch=1, data=b"x", draw=slow)[0]))

    run_threads(work, 4)
    assert results == [1.0] * 4
    assert draw.calls == 1


def test_threads_do_not_overspend_together(store: LedgerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, barrier, done = Ledger(budget=BUDGET, store=store), threading.Barrier(6), []
    commit = store.commit

    def slow(entry: LedgerEntry) -> None:
        time.sleep(0.05)  # the others are checking by now
        commit(entry)

    monkeypatch.setattr(store, "commit", slow)
    names = iter(range(6))

    def work() -> None:
        name = next(names)
        barrier.wait()
        try:
            ledger.release(EVENT, task=f"task {name}", batch=1, data=b"x", draw=Draw())
        except BudgetExceeded:
            return
        done.append(name)

    run_threads(work, 6)
    assert len(done) == len(store.entries()) == 1


def test_several_streams_of_one_price_must_be_declared(store: LedgerStore) -> None:
    event = ContinualEvent(factorisation=BinaryTree(horizon=2), std=20.0, sensitivity=1.0)
    ledger = Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5), store=store)
    step = partial(ledger.release, event, task="t", data=b"", draw=Draw())
    for batch in (0, 1):
        step(batch=batch)
    with pytest.raises(BudgetExceeded, match="priced for 2 steps"):
        step(batch=2)
    for batch in (2, 3):
        step(batch=batch, streams=2)
    with pytest.raises(BudgetExceeded, match="priced for 2 steps"):
        step(batch=4, streams=2)
    returning = Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5), store=MemoryStore(), participations=2)
    twice = ContinualEvent(factorisation=BinaryTree(horizon=2), std=20.0, sensitivity=1.0, participations=2)
    with pytest.raises(InvalidArgument, match="streams"):
        returning.release(twice, task="t", batch=0, data=b"", draw=Draw(), streams=2)
    with pytest.raises(InvalidArgument, match="streams"):
        step(batch=4, streams=0)
