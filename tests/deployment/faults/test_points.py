"""Single points at which something goes wrong, each with what it once broke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.deployment.messages.report import (
    ZERO,
    TaggedReport,
    encode_verdicts,
    join_reports,
    parse_answers,
    ticket_from_plain,
)

from ..inside import a_task
from .machine import KINDS, ROLES, check_history, complete, task_of
from .people import People
from .town import COMMITS, GRACE, Town


def begun(kind: str, folder: Path, people: int = 0) -> tuple[Town, People]:
    """A deployment that waits for people, and some of them."""
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


@pytest.mark.often(of=lambda kind, number: number == 1 or kind == "two mixers")
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


@pytest.mark.often(of=lambda trouble, number: number == {"disk full": 0, "in doubt": 3}[trouble])
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


def test_a_database_that_cannot_be_read_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nobody_is_closed_before_the_first_plan(tmp_path: Path) -> None:
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


def test_no_proof_for_who_took_part(tmp_path: Path) -> None:
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
    learner = town.alive["analyzer"]["learner"]
    learner._release = _refuses
    town.armed["shuffler to analyzer", "response lost"] = 1
    work(town, 4)
    assert learner.progress.status == "exhausted"
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
    stored = town.alive["analyzer"]["learner"].pending
    assert stored.number == 1
    work(town)
    assert town.alive["analyzer"]["learner"].published.document == stored.document
    check_history(town)
    finish(town, people)


@pytest.mark.parametrize("jump", [1e9, -1e9])
def test_a_clock_that_jumps_moves_the_end_of_one_batch_only(jump: float, tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path, 3)
    town.now += jump
    people.come(final=True)  # the last slot: grace begins now
    town.now -= jump
    work(town)
    assert town.alive["analyzer"]["learner"].published.number == 1
    finish(town, people)
