"""Every verdict of a collector on both databases, what it knows after a restart, and group commit."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.collector import Collector
from bandanna.deployment.collector_service import GroupCommit
from bandanna.deployment.http.routes import RequestRefused
from bandanna.deployment.messages.batch_plan import Round
from bandanna.deployment.messages.canonical import encode_base64url, loads
from bandanna.deployment.messages.report import (
    FINAL,
    MALFORMED,
    REASONS,
    ZERO,
    ReportVerdict,
    TaggedReport,
    encode_verdicts,
    join_reports,
)
from bandanna.errors import BandannaError
from bandanna.storage.database.base import StorageError

from ..postgres import server
from .batches import KEY, SLOTS, TASK, Collecting, proof, receipt, report, slot, tagged

Made = Callable[..., Collecting]


@pytest.fixture(params=["sqlite", "postgres"])
def collecting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    made: list[Collecting] = []

    def make(**how: Any) -> Collecting:
        url = str(tmp_path / "rows.db") if request.param == "sqlite" else server().fresh()
        made.append(Collecting(url, **how))
        return made[-1]

    yield make
    for each in made:
        each.database.close()


def test_an_answer_has_the_places_of_stored_reports() -> None:
    assert encode_verdicts([ReportVerdict(3), ReportVerdict(0), ReportVerdict(12)]) == (201, b'{"places":[3,0,12]}')


def test_a_malformed_request_is_answered_400() -> None:
    status, content = encode_verdicts([MALFORMED])
    assert (status, json.loads(content)["reason"]) == (400, "malformed")


@pytest.mark.parametrize("reason", [each for each in REASONS if each != "malformed"])
def test_an_answer_has_the_reason_of_each_refused_report(reason: str) -> None:
    status, content = encode_verdicts([ReportVerdict(5), ReportVerdict(reason=reason, refusal=b"proof")])
    own = reason in ("length", "range", "copy", "ticket", "incomplete")
    assert status == (422 if own else 409)
    told = {"reason": reason, "error": REASONS[reason], "refusal": encode_base64url(b"proof")}
    assert json.loads(content) == {"reason": reason, "results": [{"place": 5}, told]}


def reasons(verdicts: list[ReportVerdict]) -> list[str]:
    return [verdict.reason for verdict in verdicts]


def test_a_report_gets_a_place_and_is_stored(collecting: Made) -> None:
    own = collecting()
    assert [own.send(report(7))[0].place, own.send(report(8))[0].place] == [0, 1]
    assert own.rows() == [(0, 0, 0, 1, slot(7)), (0, 0, 1, 1, slot(8))]


def test_repeats_are_acknowledged_and_not_kept_again(collecting: Made) -> None:
    own = collecting()
    first = own.send(report(7), report(8))
    assert own.send(report(7), report(8)) == first
    own.restart()
    assert own.send(report(7), report(8)) == first
    assert own.send(report(7), report(7)) == [first[0], first[0]]
    assert len(own.rows()) == 2
    assert own.collector.accept([own.request(report(9))] * 3) == [[ReportVerdict(place=2)]] * 3
    assert len(own.rows()) == 3


def test_a_final_report_replaces_the_zero_report_and_stays(collecting: Made) -> None:
    own = collecting()
    own.send(report(7, 1, version=ZERO))
    assert own.send(report(7, 2)) == own.send(report(7, 1, version=ZERO)) == [ReportVerdict(place=0)]
    assert [row[3] for row in own.rows()] == [0, 1]


def test_the_first_of_two_reports_of_a_version_is_kept(collecting: Made) -> None:
    own = collecting()
    own.send(report(7, 1))
    assert reasons(own.send(report(7, 2))) == ["other"]
    own.restart()
    assert reasons(own.send(report(7, 2))) == ["other"]
    assert len(own.rows()) == 1


def test_invalid_reports_are_refused_by_their_reason(collecting: Made) -> None:
    own = collecting()
    for reason, bad in {
        "ticket": report(1, tag=b"m" * 16),
        "early": report(1, epoch=1),
        "length": report(1, body=b"short"),
        "range": report(1, 2**31),
    }.items():
        assert own.send(bad) == [ReportVerdict(reason=reason)]
    for other in ({"round_": 1}, {"version": 2}, {"epoch": 9}):
        assert reasons(own.send(report(1, **other))) in (["length"], ["early"])
    assert (
        own.collector.accept([b"", b"\1", join_reports([report(1)])[:-1]]) == [[ReportVerdict(reason="malformed")]] * 3
    )
    assert own.rows() == []


def test_a_bad_report_does_not_harm_its_neighbours(collecting: Made) -> None:
    own = collecting()
    mixed = [report(1), report(2, 2**31), report(3, tag=b"m" * 16), report(4)]
    assert reasons(own.send(*mixed)) == ["", "range", "ticket", ""]
    told = own.collector.accept([own.request(report(5, 2**31)), b"no", own.request(report(6))])
    assert [reasons(one) for one in told] == [["range"], ["malformed"], [""]]
    assert [row[4] for row in own.rows()] == [slot(1), slot(4), slot(6)]


def test_a_report_for_another_plan_is_refused(collecting: Made) -> None:
    own = collecting()
    plan = own.plans[0]
    for other in (replace(plan, slots=SLOTS + 1), replace(plan, episode=7), replace(plan, rounds=plan.rounds * 2)):
        made = TaggedReport.from_bytes(report(1))
        sent = tagged(made, [other]).to_bytes()
        assert reasons(own.collector.accept([join_reports([sent])])[0]) == ["ticket"]
        assert reasons(own.collector.accept([join_reports([made.to_bytes()])])[0]) == ["ticket"]  # for none at all
    assert own.rows() == []
    assert reasons(own.send(report(1))) == [""]


def test_a_request_has_at_most_a_thousand_reports(collecting: Made) -> None:
    own = collecting()
    many = [report(7)] * own.collector.MOST
    assert own.send(*many) == [ReportVerdict(place=0)] * own.collector.MOST
    assert own.send(*many, report(7)) == [ReportVerdict(reason="malformed")]


def test_a_full_batch_refuses_with_proof_and_the_next_one_opens_at_once(collecting: Made) -> None:
    own = collecting()
    assert reasons(own.send(report(10, epoch=1))) == ["early"]
    assert own.fill() == list(range(SLOTS))
    assert own.send(report(9)) == [ReportVerdict(reason="full", refusal=proof(9))]
    assert own.send(report(10, epoch=1)) == [ReportVerdict(place=0)]
    assert own.collector.progress() == {
        "epoch": 0, "round": 0, "open": 1, "slots": SLOTS, "of": SLOTS, "closes_at": own.clock.now + 5.0,
    }  # fmt: skip


def test_a_batch_closes_when_grace_has_passed_and_never_before(collecting: Made) -> None:
    own = collecting()
    for user in range(SLOTS):
        own.send(report(user, 1, version=ZERO))
    own.clock.now += 4.9
    assert not own.collector.close_due()
    assert own.send(report(0, 2)) == [ReportVerdict(place=0)]
    own.clock.now += 0.2
    assert own.collector.close_due()
    assert reasons(own.send(report(1, 2))) == ["closed"]
    assert own.send(report(1, 1, version=ZERO)) == [ReportVerdict(place=1)]  # what is kept is known
    assert not own.collector.close_due()
    (closed,) = own.collector.waiting()
    assert (closed.epoch, closed.round, loads(closed.share)["count"]) == (0, 0, SLOTS)


def test_the_closing_time_survives_a_restart(collecting: Made) -> None:
    own = collecting()
    own.fill()
    before = own.collector.closes_at
    own.clock.now += 1
    own.restart()
    assert own.collector.closes_at == before
    own.clock.now += 5
    assert own.collector.close_due()
    share = own.collector.waiting()
    own.restart()
    assert own.collector.waiting() == share
    assert reasons(own.send(report(0, 7, version=ZERO))) == [""]  # a lower version than it has
    assert reasons(own.send(report(0, 7))) == ["other"]


def test_answered_batches_close_without_waiting(collecting: Made) -> None:
    own = collecting(grace=0.0, answered=True)
    own.fill(users=SLOTS - 1)
    own.send(report(SLOTS - 1, version=ZERO))
    assert not own.collector.close_due()
    own.send(report(SLOTS - 1))
    assert own.collector.close_due()


def test_reports_with_a_receipt_are_deleted_and_the_next_batch_runs(collecting: Made) -> None:
    own = collecting(grace=0.0)
    own.fill()
    own.send(report(20, epoch=1))
    assert own.collector.close_due()
    own.collector.receipted(0, 0, receipt(1))
    assert own.collector.waiting() == []
    assert [row[:3] for row in own.rows()] == [(1, 0, 0)]
    own.collector.plan(own.plans[1:], (1, 0))
    assert own.send(report(9)) == [ReportVerdict(reason="closed", refusal=proof(9))]
    assert own.send(report(0)) == [ReportVerdict(reason="closed")]
    assert own.fill(epoch=1, first=21, users=SLOTS - 1) == list(range(1, SLOTS))
    assert (own.collector.running, own.collector.closes_at) == ((1, 0), own.clock.now)
    assert own.collector.last_receipt() == loads(receipt(1))


def test_the_memory_of_a_collector_is_restored_after_a_restart(collecting: Made) -> None:
    own = collecting()
    own.fill(users=4)
    own.send(report(4, 1, version=ZERO))
    own.send(report(2, 9, version=ZERO))
    fillings = own.collector._fillings
    before = {epoch: (f.places, f.versions, f.hashes, f.finals) for epoch, f in fillings.items()}
    progress = own.collector.progress()
    own.restart()
    after = {epoch: (f.places, f.versions, f.hashes, f.finals) for epoch, f in own.collector._fillings.items()}
    assert after == before
    assert own.collector.progress() == progress


def test_a_slot_opens_with_a_report_for_every_round(collecting: Made) -> None:
    own = collecting(rounds=2)
    assert reasons(own.send(report(1))) == ["incomplete"]
    assert reasons(own.send(report(1), report(2, round_=1))) == ["incomplete"] * 2
    assert reasons(own.send(report(1), report(1, round_=1))) == ["", ""]
    assert reasons(own.send(report(1, 2, round_=1))) == ["other"]
    assert own.rows() == [(0, 0, 0, 1, slot(1)), (0, 1, 0, 1, slot(1))]


@pytest.mark.parametrize("bad", [{"value": 2**31}, {"tag": b"m" * 16}, {"round_": 7}, {"body": b"short"}])
def test_a_report_that_is_refused_completes_no_slot(collecting: Made, bad: dict[str, object]) -> None:
    own = collecting(rounds=2)
    second = report(1, **{"round_": 1, **bad})  # type: ignore[arg-type]
    told = reasons(own.send(report(1), second))
    assert told[0] == "incomplete"
    assert told[1] in ("range", "ticket", "length")
    assert (own.rows(), own.collector.progress()["slots"]) == ([], 0)
    own.restart()
    assert own.fill() == list(range(SLOTS))


def test_rounds_close_one_after_the_other(collecting: Made) -> None:
    own = collecting(rounds=2, grace=0.0)
    for user in range(SLOTS):
        own.send(report(user), report(user, 1, round_=1, version=ZERO))
    assert own.collector.close_due()
    own.collector.receipted(0, 0, receipt(1))
    own.restart()
    assert own.collector.running == (0, 1)
    own.collector.plan(own.plans, (0, 1))
    assert reasons(own.send(report(0, 5))) == ["closed"]  # whose round is over
    assert reasons(own.send(report(0, 5, round_=1))) == [""]
    assert own.collector.close_due()
    assert [(each.epoch, each.round) for each in own.collector.waiting()] == [(0, 1)]


def test_a_failed_transaction_leaves_nothing(collecting: Made) -> None:
    own = collecting()
    own.send(report(1))
    with own.database.transaction() as rows:
        rows.execute("alter table reports rename to elsewhere")
    with pytest.raises(StorageError):
        own.send(report(2))
    with pytest.raises(StorageError):
        own.send(report(3))
    with own.database.transaction() as rows:
        rows.execute("alter table elsewhere rename to reports")
    assert own.send(report(2)) == [ReportVerdict(place=1)]
    assert own.send(report(1)) == [ReportVerdict(place=0)]


def test_totals_are_of_the_newest_versions(collecting: Made) -> None:
    own = collecting(grace=0.0)
    for user in range(SLOTS):
        own.send(report(user, 200, version=ZERO))
    own.send(*(report(user, 10 + user) for user in (5, 3)))
    own.send(report(5, 200, version=ZERO))
    assert own.collector.close_due()
    _, entries = own.collector.entries(0, 0)
    values = [np.frombuffer(body, "<u4")[0] for _, _, body in entries]
    assert values == [200, 200, 200, 13, 200, 15]


def test_a_batch_that_is_over_opens_no_slots(collecting: Made) -> None:
    own = collecting(grace=0.0)
    own.fill()
    assert own.collector.close_due()
    own.collector.receipted(0, 0, receipt(1))
    own.restart()
    assert [own.send(report(user)) for user in range(SLOTS)] == [[ReportVerdict(reason="closed")]] * SLOTS
    assert own.send(report(9)) == [ReportVerdict(reason="full", refusal=proof(9))]
    assert own.send(report(20, epoch=1)) == [ReportVerdict(place=0)]
    assert not own.collector.close_due()
    own.collector.plan(own.plans[1:], (1, 0))
    assert own.fill(epoch=1, first=21, users=SLOTS - 1) == list(range(1, SLOTS))


def test_the_tables_give_no_place_twice(collecting: Made) -> None:
    own = collecting(rounds=2)
    own.fill(users=2)
    for sql, values in (
        ("insert into slots (epoch, place, slot) values (0, ?, ?)", (1, slot(9))),
        ("insert into reports (epoch, round, place, version, key_id, body) values (0, 0, ?, 1, 0, ?)", (1, b"")),
        ("insert into batches values (0, 1, 'full', ?, null, ?)", (0.0, None)),
    ):
        if sql.startswith("insert into batches"):
            with own.database.transaction() as rows:
                rows.execute(sql, *values)
        with pytest.raises(StorageError, match=r"(?i)unique"), own.database.transaction() as rows:
            rows.execute(sql, *values)


@pytest.mark.parametrize("user", [2, 3])
@pytest.mark.parametrize("version", [ZERO, FINAL])
def test_a_process_with_an_old_memory_gives_no_place(collecting: Made, user: int, version: int) -> None:
    own = collecting()
    own.fill(users=2)
    stale, fresh = own.collector, Collector(own.database, task_id="t", task=TASK, key=KEY, grace=5.0, clock=own.clock)
    own.collector = fresh
    fresh.plan(own.plans, (0, 0))
    assert own.send(report(2)) == [ReportVerdict(place=2)]
    own.collector = stale
    with pytest.raises(StorageError, match=r"(?i)unique"):
        own.send(report(user, version=version))
    assert own.send(report(user, version=version)) == [ReportVerdict(place=user)]
    assert [row[4] for row in own.rows()] == [slot(number) for number in range(user + 1)]


def test_rows_with_a_slot_at_two_places_are_not_served(collecting: Made) -> None:
    own = collecting()
    own.fill(users=2)
    with own.database.transaction() as rows:
        rows.execute("insert into slots (epoch, place, slot) values (0, 2, ?)", slot(1))
    with pytest.raises(BandannaError, match="a slot at two places"):
        own.restart()


def test_a_late_slot_and_no_used_one_has_a_proof_after_any_restart(collecting: Made) -> None:
    own = collecting(grace=0.0)

    def told() -> None:
        assert [own.send(report(user)) for user in range(SLOTS)] == [[ReportVerdict(reason="closed")]] * SLOTS
        assert own.send(report(9))[0].refusal == proof(9)

    own.fill()
    assert own.collector.close_due()
    own.collector.receipted(0, 0, receipt(1))
    own.restart()
    told()
    own.collector.plan(own.plans[1:], (1, 0))
    told()
    own.restart()
    told()
    own.fill(epoch=1, first=20)
    assert own.collector.close_due()
    own.collector.receipted(1, 0, receipt(2))
    own.restart()
    own.collector.plan((replace(own.plans[1], epoch=2),), (2, 0))
    own.restart()
    told()
    assert own.send(report(20, epoch=1)) == [ReportVerdict(reason="closed")]
    assert own.send(report(9, epoch=1)) == [ReportVerdict(reason="closed", refusal=proof(9, 1))]
    with own.database.reading() as rows:
        assert rows.execute("select count(*) from slots") == [(0,)]
    own.collector.plan((), (2, 0))  # the task is over: no proof is of any use
    with own.database.reading() as rows:
        assert rows.execute("select count(*) from used") == [(0,)]


def test_slots_that_were_used_cannot_be_read_from_the_tables(collecting: Made) -> None:
    own = collecting(grace=0.0)
    own.fill()
    assert own.collector.close_due()
    own.collector.receipted(0, 0, receipt(1))
    own.collector.plan(own.plans[1:], (1, 0))
    with own.database.reading() as rows:
        kept = b"".join(bytes(each) for (each,) in rows.execute("select slots from used"))
    assert len(kept) == 8 * SLOTS
    assert not any(slot(user)[:8] in kept or slot(user)[8:] in kept for user in range(SLOTS))


def test_a_sealed_report_counts_for_one_slot(collecting: Made) -> None:
    own = collecting()
    (part,) = own.plans[0].rounds[0].parts
    round_ = Round(parts=(replace(part, form="sealed", dtype="<i8", mixer=None),))
    own.plans = tuple(replace(plan, rounds=(round_,)) for plan in own.plans)  # type: ignore[assignment]
    own.collector.plan((), (0, 0))
    own.database.close()
    own.url = own.url.replace("rows.db", "other.db") if own.url.endswith(".db") else server().fresh()
    own.begin()
    own.collector.plan(own.plans, (0, 0))

    def sealed(number: int, body: bytes, **others: int) -> bytes:
        return report(number, body=body.ljust(round_.size, b"-"), **others)

    one, same = b"1" * 32 + b"one", b"1" * 32 + b"other"
    assert reasons(own.send(sealed(1, one), sealed(2, one), sealed(3, same))) == ["", "copy", "copy"]
    assert reasons(own.send(sealed(4, b"2" * 40, version=ZERO), sealed(5, b"3" * 40))) == ["", ""]
    own.restart()
    for number, body in ((6, one), (5, same), (6, b"2" * 40), (1, b"3" * 40)):
        assert reasons(own.send(sealed(number, body))) == ["copy"]
    assert reasons(own.send(sealed(1, one), sealed(4, b"2" * 40), sealed(6, b"4" * 40))) == ["", "", ""]


class Writing:
    """Doubles numbers after it is set free."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.free = threading.Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        assert self.free.wait(600)
        if min(items) < 0:
            raise BandannaError("no")
        return [2 * item for item in items]


async def begun(writing: Writing, commits: GroupCommit[int, int], count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(commits.submit(0))]
    while not writing.groups:
        await asyncio.sleep(0.001)
    tasks += [asyncio.create_task(commits.submit(item)) for item in range(1, count)]
    await asyncio.sleep(0)
    return tasks


async def test_items_that_arrive_during_a_transaction_share_the_next() -> None:
    writing = Writing()
    tasks = await begun(writing, GroupCommit[int, int](writing, most=4), 10)
    writing.free.set()
    assert await asyncio.gather(*tasks) == [2 * item for item in range(10)]
    assert writing.groups == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


async def test_an_item_is_refused_when_too_many_wait() -> None:
    writing = Writing()
    commits = GroupCommit[int, int](writing, waiting=3)
    tasks = await begun(writing, commits, 4)
    with pytest.raises(RequestRefused, match="busy"):
        await commits.submit(9)
    writing.free.set()
    assert await asyncio.gather(*tasks) == [0, 2, 4, 6]


async def test_a_failed_transaction_fails_for_those_in_it_only() -> None:
    writing = Writing()
    commits = GroupCommit[int, int](writing, most=2)
    tasks = await begun(writing, commits, 1)
    tasks += [asyncio.create_task(commits.submit(item)) for item in (-1, 2, 3)]
    await asyncio.sleep(0)
    writing.free.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[0], results[3]] == [0, 6]
    assert all(isinstance(each, BandannaError) for each in results[1:3])


async def test_a_transaction_is_written_even_if_its_requests_are_cancelled() -> None:
    writing = Writing()
    tasks = await begun(writing, GroupCommit[int, int](writing), 3)
    tasks[0].cancel()
    tasks[1].cancel()
    writing.free.set()
    assert await tasks[2] == 4
    assert writing.groups == [[0], [1, 2]]
