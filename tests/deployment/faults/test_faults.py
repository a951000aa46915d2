"""Faults at single points, full disks, restored databases, and random schedules of kills and lost calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import bandanna as bd
from bandanna.deployment.http.routes import to_refusal
from bandanna.deployment.messages.report import (
    ZERO,
    TaggedReport,
    encode_verdicts,
    join_reports,
    parse_answers,
    ticket_from_plain,
)
from bandanna.errors import BandannaError
from bandanna.storage.database.base import StorageError

from ..inside import a_task
from .machine import KINDS, ROLES, Schedule, check_history, complete, task_of
from .people import People
from .town import COMMITS, GRACE, Town


def begun(kind: str, folder: Path, people: int = 0) -> tuple[Town, People]:
    """Return a deployment and some of its users."""
    town = Town(*task_of(kind), folder)
    work(town)
    crowd = People(town)
    for _ in range(people):
        crowd.come(final=True)
    return town, crowd


def work(town: Town, times: int = 2) -> None:
    for _ in range(times):
        town.now += GRACE + 1.0
        for role in ROLES:
            town.step(role)


def finish(town: Town, people: People) -> None:

    def restart() -> None:
        for role in town.roles:
            town.start(role)

    def retry() -> None:
        people.look()
        for person in people.persons:
            people.enter(person)
            people.send(person)

    complete(town, people, restart, retry)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", COMMITS)
def test_a_kill_at_any_commit_of_any_role_loses_and_repeats_nothing(kind: str, point: str, tmp_path: Path) -> None:
    for role in task_of(kind)[0].roles:
        for number in range(0, 8, 2 if kind == "rounds" else 1):
            folder = tmp_path / f"{role}{number}"
            folder.mkdir()
            town, people = begun(kind, folder)
            town.armed[role, point] = number
            for _ in range(4):
                people.come(final=True)
            work(town)
            finish(town, people)
            for each in ROLES:
                town.kill(each)


@pytest.mark.often(when=lambda kind, number: number == 1 or kind == "two mixers")
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    ("kind", "link"),
    [
        *((kind, "shuffler to analyzer") for kind in ("one mixer", "two mixers", "tree", "rounds")),
        *((kind, link) for kind in ("two mixers", "tree") for link in ("shuffler to helper", "helper to analyzer")),
    ],
)
def test_a_lost_answer_to_a_share_or_a_job_stops_no_task(kind: str, link: str, number: int, tmp_path: Path) -> None:
    town, people = begun(kind, tmp_path, 4)
    town.armed[link, "response lost"] = number
    work(town)
    finish(town, people)


@pytest.mark.often(when=lambda trouble, number: number == {"disk full": 0, "in doubt": 3}[trouble])
@pytest.mark.parametrize("kind", ["central", "two mixers"])
@pytest.mark.parametrize("trouble", ["disk full", "in doubt"])
@pytest.mark.parametrize("number", range(6))
def test_a_commit_that_fails_or_is_in_doubt_needs_no_restart(
    kind: str, trouble: str, number: int, tmp_path: Path
) -> None:
    for role in task_of(kind)[0].roles:
        folder = tmp_path / role
        folder.mkdir()
        town, people = begun(kind, folder)
        town.armed[role, trouble] = number
        for _ in range(4):
            people.come(final=True)
        work(town, 4)
        finish(town, people)
        assert town.deaths == 0


def test_an_unreadable_database_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town, people = begun("one mixer", tmp_path, 2)
    collector, rows = town.alive["shuffler"]["collector"], town.alive["shuffler"]["rows"]
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_begin", _away)
        late = people.come(final=True)
        assert late.outbox
        assert late.slot is not None
        assert not late.slot.sent[0].kept
    people.send(late)
    assert late.slot.sent[0].kept
    assert collector.progress()["slots"] == 3
    finish(town, people)


def _away(*_: Any, **__: Any) -> Any:
    from bandanna.storage.database.base import StorageError

    raise StorageError("away")


def test_no_report_is_closed_before_the_first_plan(tmp_path: Path) -> None:
    town = Town(*task_of("one mixer"), tmp_path)
    town.step("analyzer")
    people = People(town)
    person = people.come(final=True)
    assert person.outbox
    assert not person.done
    work(town)
    people.send(person)
    assert person.slot is not None
    assert person.slot.sent[0].kept
    finish(town, people)


def test_a_used_slot_has_no_proof_that_it_was_unused(tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path, 4)
    member = people.persons[0]
    town.armed["shuffler to analyzer", "request lost"] = 2  # plan, share, then the plan after it
    town.now += GRACE + 1.0
    town.step("shuffler")
    with town.alive["shuffler"]["rows"].reading() as rows:
        assert rows.execute("select state from batches") == [("receipted",)]
    town.kill("shuffler")
    town.start("shuffler")
    collector = town.alive["shuffler"]["collector"]
    late = [people.persons[-1]]
    for number in range(8):  # other people's tickets of the batch that is over
        (ticket,) = town.tickets([{"user": f"late {number}", "epoch": 0}])
        late.append(ticket)
    for ticket in late[1:]:
        assert member.slot is not None
        other = TaggedReport.from_bytes(member.slot.sent[0].content)
        own = ticket_from_plain(ticket)
        report = TaggedReport.make(
            own.collector, people.plans[0].digest, slot=own.slot, epoch=0, round_=0, version=ZERO, body=other.body
        )
        collector.accept([join_reports([report.to_bytes()])])
    assert member.slot is not None
    (verdicts,) = collector.accept([join_reports([member.slot.sent[0].content])])
    assert verdicts[0].refusal == b""
    finish(town, people)


def test_a_refused_report_of_a_later_round_opens_no_slot(tmp_path: Path) -> None:
    town, people = begun("rounds", tmp_path)
    person = people.come(final=False)
    assert person.slot is not None
    collector = town.alive["shuffler"]["collector"]
    (ticket,) = town.tickets([{"user": "hostile", "epoch": 0}])
    own, plan = ticket_from_plain(ticket), people.plans[0].digest
    bodies = [each.body for each in person.slot.sent]
    bodies[1] += b"more"
    reports = [
        TaggedReport.make(own.collector, plan, slot=own.slot, epoch=0, round_=n, version=ZERO, body=body).to_bytes()
        for n, body in enumerate(bodies)
    ]
    told = parse_answers(*encode_verdicts(collector.accept([join_reports(reports)])[0]), len(reports))
    assert {each.reason for each in told} == {"length", "incomplete"}
    finish(town, people)


def test_a_lost_receipt_of_an_exhausted_budget_is_sent_again(tmp_path: Path) -> None:
    policy = bd.make("LinTS-SDP", dim=3, horizon=12, batch=4, epsilon=20.0, delta=0.1)
    town = Town(*a_task(policy, seed=None, close="grace", grace=GRACE), tmp_path)
    work(town)
    people = People(town)
    for _ in range(4):
        people.come(final=True)
    processor = town.alive["analyzer"]["processor"]
    processor._release = _refuses
    town.armed["shuffler to analyzer", "response lost"] = 1
    work(town, 4)
    assert processor.progress.status == "exhausted"
    assert town.alive["shuffler"]["collector"].waiting() == []
    with town.alive["shuffler"]["rows"].reading() as rows:
        assert rows.execute("select count(*) from reports") == [(0,)]


def _refuses(rows: Any, received: Any) -> Any:
    from bandanna.errors import BudgetExceeded

    raise BudgetExceeded("no more")


@pytest.mark.parametrize("kind", ["central", "one mixer", "two mixers"])
def test_a_release_that_was_not_published_is_not_drawn_again_after_a_kill(kind: str, tmp_path: Path) -> None:
    town, people = begun(kind, tmp_path, 4)
    town.armed["analyzer", "after commit"] = {"central": 1, "one mixer": 0, "two mixers": 1}[kind]
    work(town, 1)
    assert "analyzer" not in town.alive
    town.start("analyzer")
    stored = town.alive["analyzer"]["processor"].pending
    assert stored.number == 1
    work(town)
    assert town.alive["analyzer"]["processor"].published.document == stored.document
    check_history(town)
    finish(town, people)


@pytest.mark.parametrize("jump", [1e9, -1e9])
def test_a_clock_that_jumps_moves_the_end_of_one_batch_only(jump: float, tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path, 3)
    town.now += jump
    people.come(final=True)  # the last slot: grace begins now
    town.now -= jump
    work(town)
    assert town.alive["analyzer"]["processor"].published.number == 1
    finish(town, people)


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
    assert town.alive["analyzer"]["processor"].published.number == 1
    people.check()
    assert town.deaths == 0


@pytest.mark.parametrize("kind", ["one mixer", "two mixers"])
def test_an_analyzer_with_a_full_disk_releases_nothing_and_keeps_the_share(kind: str, tmp_path: Path) -> None:
    town, people = begun(kind, tmp_path, 4)
    with full(town, "analyzer"):
        work(town, 3)
        assert town.alive["analyzer"]["processor"].published.number == 0
        assert town.alive["shuffler"]["collector"].waiting()
    work(town)
    assert town.alive["analyzer"]["processor"].published.number == 1
    finish(town, people)
    assert town.deaths == 0


def test_a_full_disk_is_answered_503() -> None:
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
    assert town.alive["analyzer"]["processor"].rolled_back
    assert town.alive["analyzer"]["processor"].published is None  # it shows nothing, not even what it knows
    shutil.copy(tmp_path / "analyzer.new", tmp_path / "analyzer.old")
    rolled_back(town, "analyzer", tmp_path)
    finish(town, people)


@pytest.mark.parametrize("role", ["shuffler", "helper"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rolled_back_shuffler_or_helper_releases_nothing_twice(role: str, when: str, tmp_path: Path) -> None:
    town, people = begun("two mixers", tmp_path)
    if when == "before":
        copied(town, role, tmp_path)
    for _ in range(4):
        people.come(final=True)
    if when == "after":
        copied(town, role, tmp_path)
        work(town, 1)
    work(town)
    assert town.alive["analyzer"]["processor"].published.number == 1
    rolled_back(town, role, tmp_path)
    finish(town, people)


def test_a_rolled_back_registrar_cosigns_nothing_until_its_newest_database_is_back(tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path)
    copied(town, "registrar", tmp_path)
    for _ in range(8):
        people.come(final=True)
        work(town, 1)
    work(town)
    number = town.alive["analyzer"]["processor"].number
    assert number >= 2
    newest = tmp_path / "registrar.new"
    town.kill("registrar")
    shutil.copy(tmp_path / "registrar.db", newest)
    rolled_back(town, "registrar", tmp_path)
    town.kill("analyzer")
    town.start("analyzer")
    town.step("analyzer")
    assert town.alive["registrar"]["notary"].behind
    assert town.alive["analyzer"]["processor"].pending is not None
    assert not town.alive["analyzer"]["processor"].rolled_back
    shutil.copy(newest, tmp_path / "registrar.old")
    rolled_back(town, "registrar", tmp_path)
    work(town)
    assert town.alive["analyzer"]["processor"].number >= number
    finish(town, people)


def test_a_shuffler_that_lacks_a_batch_of_a_stream_stops(tmp_path: Path) -> None:
    town, people = begun("tree", tmp_path)
    copied(town, "shuffler", tmp_path)
    for _ in range(8):
        people.come(final=True)
        work(town, 1)
    number = town.alive["analyzer"]["processor"].published.number
    assert number >= 2
    rolled_back(town, "shuffler", tmp_path)
    town.now += GRACE
    with pytest.raises(BandannaError, match="restore the database"):
        town.step("shuffler")
    assert town.alive["analyzer"]["processor"].published.number == number
    check_history(town)


SCHEDULES = int(os.environ.get("SCHEDULES", "200"))  # of every kind


def run(kind: str, schedules: int, *, postgres: bool = False) -> None:
    machine = type("Schedule", (Schedule,), {"kind": kind, "postgres": postgres})
    chosen = settings(
        max_examples=schedules,
        stateful_step_count=20,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a schedule is short enough as it is, and shrinking it takes minutes
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_kills_and_lost_calls_lose_and_repeat_nothing(kind: str) -> None:
    run(kind, 3)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_rare_kills_and_lost_calls_lose_and_repeat_nothing(kind: str) -> None:
    run(kind, SCHEDULES)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["central", "two mixers"])
def test_kills_and_lost_calls_lose_and_repeat_nothing_on_postgres(kind: str) -> None:
    run(kind, SCHEDULES // 4, postgres=True)
