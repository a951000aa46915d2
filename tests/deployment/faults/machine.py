"""Schedules of users, reports, kills and lost calls, after which every acknowledged report is counted once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import bandanna as bd
from bandanna.deployment.analyzer import publication
from bandanna.deployment.messages.canonical import loads
from bandanna.deployment.messages.publication import chain_document
from bandanna.deployment.task.document import Secrets, Task

from ...postgres import server
from ..inside import a_task
from .people import People
from .town import COMMITS, GRACE, Town

_SMALL: dict[str, Any] = {"dim": 3, "horizon": 12, "batch": 4, "epsilon": 20.0, "delta": 0.1}
_GLM: dict[str, Any] = {"dim": 2, "horizon": 12, "parameter_bound": 2.0, "epsilon": 20.0, "delta": 0.1}
KINDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "central": ("LinTS-JDP", _SMALL, 0),
    "one mixer": ("LinTS-SDP", _SMALL, 1),
    "two mixers": ("LinTS-SDP", _SMALL, 2),
    "sealed": ("LinUCB-SDP-Amp", _SMALL, 1),
    "tree": ("LinTS-CSDP", _SMALL, 2),
    "rounds": ("GLM-SDP", _GLM, 1),
}
ROLES = ("registrar", "analyzer", "shuffler", "helper")
LINKS = (
    "people to registrar", "people to shuffler", "people to analyzer", "analyzer to registrar", "shuffler to analyzer",
    "shuffler to helper", "helper to analyzer",
)  # fmt: skip
POINTS = (
    *((role, point) for role in ROLES for point in (*COMMITS, "disk full", "in doubt", "killed after the answer")),
    *((link, point) for link in LINKS for point in ("request lost", "response lost")),
)


@cache
def task_of(kind: str) -> tuple[Task, dict[str, Secrets]]:
    name, arguments, mixers = KINDS[kind]
    return a_task(bd.make(name, **arguments), mixers=mixers, seed=None, close="grace", grace=GRACE)


class Schedule(RuleBasedStateMachine):
    kind, postgres = "one mixer", False

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="town-")
        self.town: Town | None = None

    @initialize()
    def begin(self) -> None:
        urls = dict.fromkeys(ROLES, server().fresh()) if self.postgres else {}
        self.town = Town(*task_of(self.kind), Path(self._folder.name), urls)
        self.people = People(self.town)
        self.all_work()

    @rule(final=st.booleans(), count=st.integers(1, 4))
    def come(self, final: bool, count: int) -> None:
        for _ in range(count):
            self.people.come(final=final)

    @precondition(lambda self: self.town is not None and self.people.persons)
    @rule(back=st.integers(0, 5))
    def report(self, back: int) -> None:
        self.people.report(self.people.persons[-1 - back % len(self.people.persons)])

    @rule()
    def retry(self) -> None:
        self._retry()

    def _retry(self) -> None:
        self.people.look()
        for person in self.people.persons:
            self.people.enter(person)
            self.people.send(person)

    @precondition(lambda self: self.town is not None and self.people.persons)
    @rule(back=st.integers(0, 9))
    def repeat(self, back: int) -> None:
        person = self.people.persons[-1 - back % len(self.people.persons)]
        if person.slot is not None and not person.outbox:
            for sent in person.slot.sent:
                self.people.again(person, sent)

    @rule(seconds=st.sampled_from([1.0, GRACE + 1.0, GRACE + 1.0, -100.0]))
    def time_passes(self, seconds: float) -> None:
        assert self.town is not None
        self.town.now += seconds

    @rule(role=st.sampled_from(ROLES), times=st.integers(1, 3))
    def work(self, role: str, times: int) -> None:
        assert self.town is not None
        for _ in range(times):
            self.town.step(role)

    @rule()
    def all_work(self) -> None:
        assert self.town is not None
        self.town.now += GRACE + 1.0
        for role in (*ROLES, *ROLES):
            self.town.step(role)

    @rule(point=st.sampled_from(POINTS), passes=st.integers(0, 3))
    def arm(self, point: tuple[str, str], passes: int) -> None:
        assert self.town is not None
        self.town.armed[point] = passes

    @rule(points=st.lists(st.tuples(st.sampled_from(POINTS), st.integers(0, 3)), min_size=1, max_size=3))
    def a_batch(self, points: list[tuple[tuple[str, str], int]]) -> None:
        assert self.town is not None
        self.town.armed.update(dict(points))
        self.come(final=True, count=4)
        self.all_work()
        self._restart()
        self._retry()
        self.all_work()

    @rule(role=st.sampled_from(ROLES))
    def kill(self, role: str) -> None:
        assert self.town is not None
        self.town.kill(role)

    @rule()
    def restart(self) -> None:
        self._restart()

    def _restart(self) -> None:
        assert self.town is not None
        for role in self.town.roles:
            self.town.start(role)

    @invariant()
    def holds(self) -> None:
        if self.town is not None and "analyzer" in self.town.alive:
            check_history(self.town)

    def teardown(self) -> None:
        """Complete the task without further faults."""
        try:
            if self.town is not None:
                complete(self.town, self.people, self._restart, self._retry)
        finally:
            for role in ROLES if self.town is not None else ():
                assert self.town is not None
                self.town.kill(role)
            self._folder.cleanup()


def complete(town: Town, people: People, restart: Any, retry: Any) -> None:
    """Run the task to its end and check the history."""
    for number in range(80):
        if number == 20:
            town.armed.clear()  # what was armed and not passed
        for _ in range(2):
            restart()
        retry()
        for person in people.persons[-8:]:
            people.report(person)
        if "analyzer" in town.alive and town.alive["analyzer"]["processor"].progress.status != "running":
            break
        people.come(final=True)
        town.now += GRACE + 1.0
        for role in (*ROLES, *ROLES):
            town.step(role)
    town.armed.clear()
    restart()
    for role in (*ROLES, *ROLES, *ROLES):
        town.step(role)
    processor = town.alive["analyzer"]["processor"]
    assert processor.progress.status == "finished", f"the task does not complete: {processor.progress.status}"
    check_history(town)
    people.check()
    collector = town.alive[town.collector]["collector"]
    assert collector.waiting() == [], "a receipt is missing"
    with town.alive[town.collector]["rows"].reading() as rows:
        assert rows.execute("select count(*) from reports") == [(0,)], "reports outlive their batch"


def check_history(town: Town) -> None:
    """Check that publications are chained and that every batch is released and paid for once, within the budget."""
    with town.alive["analyzer"]["rows"].reading() as rows:
        found = rows.execute("select number, epoch, round, outcome from releases order by number")
        history = [publication.read_publication_row(rows, number) for number, *_ in found]
    assert [number for number, *_ in found] == list(range(len(found)))
    previous = ""
    for each in history:
        document = loads(each.document)
        assert document["previous"] == previous
        assert each.chain == chain_document(previous, each.document)
        assert town.documents.setdefault(each.number, each.document) == each.document, "a publication has changed"
        previous = each.chain
    released = [(epoch, round_) for _, epoch, round_, outcome in found if outcome != "begun"]
    assert len(set(released)) == len(released), "a batch was released twice"
    assert all(outcome in ("begun", "released") for *_, outcome in found), "a batch was burned"
    processor = town.alive["analyzer"]["processor"]
    view, budget = processor.ledger_view(), processor.policy.privacy.budget
    if view is None:
        assert processor.published is None  # nothing is shown before the registrar has said that nothing is missing
        return
    released = [(epoch, round_) for number, epoch, round_, _ in found if 0 < number <= processor.number]
    assert (view["spent"] or 0.0) <= budget.epsilon * (1 + 1e-9)
    stream = processor.policy.privacy.model == "concurrent"
    if not stream and view["participations"] == 1:
        assert {entry["batch"] for entry in view["entries"]} == {str(epoch) for epoch, _ in released}
