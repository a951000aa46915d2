"""Requests of strangers, refusals of late users, and floods: honest reports are counted as they were sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.collector import SCHEMA, Collector
from bandanna.deployment.collector_service import GroupCommit
from bandanna.deployment.http.routes import RequestRefused
from bandanna.deployment.messages.canonical import COLLECTOR, HELPER, TicketKeys, encode_base64url
from bandanna.deployment.messages.report import (
    FINAL,
    HEADER,
    REASONS,
    ZERO,
    ReportAnswer,
    TaggedReport,
    Ticket,
    encode_verdicts,
    join_reports,
    parse_answers,
    ticket_from_plain,
)
from bandanna.deployment.registrar import SCHEMA as REGISTRAR_SCHEMA
from bandanna.deployment.registrar import Registrar
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.storage.database.base import open_database

from ...drawn import examples
from ..inside import Inside, a_task
from .attacked import with_body

WORLD = LinearContextual(dim=2, n_arms=4)
MODELS = {
    "central": ("LinTS-JDP", 0),
    "local": ("LinTS-LDP", 0),
    "shuffle": ("LinTS-SDP", 1),
    "gaussian": ("LinUCB-SDP-Amp", 1),
    "concurrent": ("LinTS-CSDP", 1),
}


@cache
def _task(model: str) -> Any:
    name, mixers = MODELS[model]
    arguments: dict[str, Any] = {"batch": 10} if name.startswith("LinTS-") and "CSDP" not in name else {}
    arguments |= {"width": 0.2} if "UCB" in name else {}
    return a_task(bd.make(name, dim=2, horizon=40, epsilon=5.0, delta=1e-3, **arguments), mixers=mixers)


class Besieged(Inside):
    """After every honest request, attackers send changed copies of it."""

    def __init__(self, made: Any, folder: Path, seed: int | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(*made, folder)
        self._random = None if seed is None else np.random.default_rng(seed)
        self.said: dict[str, int] = {}
        self._earlier: list[bytes] = []

    def upload(self, reports: Any) -> list[ReportAnswer]:
        said = super().upload(reports)
        if self._random is not None:
            for request in self._others(TaggedReport.from_bytes(reports[0])):
                (verdicts,) = self.collector.accept([request])
                status, content = encode_verdicts(verdicts)
                assert status in (201, 400, 409, 422)
                assert b"Traceback" not in content
                for verdict in verdicts:
                    self.said[verdict.reason] = self.said.get(verdict.reason, 0) + 1
        return said

    def _others(self, report: TaggedReport) -> list[bytes]:
        random, whole = self._random, report.to_bytes()
        assert random is not None
        slot, own, task = random.bytes(16), self.keys[COLLECTOR], self.task.digest
        forged = [
            _forged(report, slot, key, plan)
            for plan in (self.processor.now.batches[0].digest, bytes(32))
            for key in (
                TicketKeys(b"k" * 32, task, COLLECTOR).key(report.epoch, slot),
                TicketKeys(own, b"t" * 32, COLLECTOR).key(report.epoch, slot),
                TicketKeys(own, task, HELPER).key(report.epoch, slot),
                TicketKeys(own, task, COLLECTOR).key(report.epoch + 1, slot),
                TicketKeys(own, task, COLLECTOR).key(report.epoch, report.slot),
            )
        ]
        changed = [
            with_body(report, report.body, slot=slot),
            with_body(report, report.body, tag=bytes(16)),
            with_body(report, report.body, epoch=report.epoch + 1),
            with_body(report, report.body, epoch=2**32 - 1),
            with_body(report, report.body, round=65_535),
            with_body(report, report.body, version=255),
            with_body(report, report.body[:-1]),
            with_body(report, report.body + b"\0"),
            with_body(report, b""),
            with_body(report, bytes(reversed(report.body))),
            with_body(report, random.bytes(len(report.body))),
        ]
        flipped = bytearray(whole)
        place = int(random.choice([*range(32), *range(36, len(whole))]))  # anywhere but in the epoch
        flipped[place] ^= 1 << int(random.integers(8))
        requests = [join_reports([each]) for each in [*forged, *changed, bytes(flipped)]]
        request = join_reports([whole])
        cut = int(random.integers(len(request)))
        self._earlier.append(request)
        return [
            *requests,
            request,  # replayed
            self._earlier[int(random.integers(len(self._earlier)))],  # and from long ago
            request[:cut],
            request + b"\0",
            (2**32 - 1).to_bytes(4, "little") + whole,
            b"",
            join_reports([b"x" * HEADER] * 1001),
            random.bytes(200),
        ]


def _forged(report: TaggedReport, slot: bytes, key: bytes, plan: bytes) -> bytes:
    """Return a report of another slot, tagged with this key."""
    parts = {name: getattr(report, name) for name in ("epoch", "version", "key_id", "body")}
    return TaggedReport.make(key, plan, slot=slot, round_=report.round, **parts).to_bytes()


@pytest.mark.parametrize("model", MODELS)
def test_forged_changed_and_replayed_reports_change_nothing_that_is_learned(model: str, tmp_path: Path) -> None:
    plain, besieged = Besieged(_task(model), tmp_path / "a", None), Besieged(_task(model), tmp_path / "b", 3)
    accounts = [
        SimulatedUsers(each.task, each, WORLD, rounds=40, concurrency=1, wait=0.3).run() for each in (plain, besieged)
    ]
    chains = [[view.chain for view in account.publications] for account in accounts]
    assert chains[0] == chains[1]
    assert len(chains[0]) > 2
    assert not accounts[1].refused
    assert {"malformed", "ticket", ""} <= besieged.said.keys() <= {*REASONS, ""} - {"length", "other", "range"}


def _one(tmp_path: Path, model: str = "shuffle") -> tuple[Inside, TaggedReport]:
    inside = Inside(*_task(model), tmp_path)
    (given,) = inside.tickets(["one"], 0)
    batch = inside.processor.now.batches[0]
    body, plan = bytes(batch.rounds[0].size), batch.digest
    return inside, TaggedReport.make(
        given.collector, plan, slot=given.slot, epoch=0, round_=0, version=FINAL, body=body
    )


def test_before_the_first_plan_every_report_is_early(tmp_path: Path) -> None:
    inside, report = _one(tmp_path)
    rows = open_database(str(tmp_path / "new.db"), role="shuffler", schema=SCHEMA)
    new = Collector(rows, task_id=inside.task.id, task=inside.task.digest, key=inside.keys[COLLECTOR], grace=0.0)
    request = join_reports([report.to_bytes()])
    assert [verdict.reason for (verdict,) in new.accept([request])] == ["early"]
    new.plan(inside.processor.now.batches, inside.processor.running)
    assert [verdict.reason for (verdict,) in new.accept([request])] == [""]
    new.plan((), (1, 0))  # the task is over
    assert [verdict.reason for (verdict,) in new.accept([request])] == ["closed"]


@examples(50, full=150)
@given(st.binary(max_size=300))
def test_any_bytes_are_answered(content: bytes) -> None:
    inside = _shared()
    (verdicts,) = inside.collector.accept([content])
    assert encode_verdicts(verdicts)[0] in (400, 409, 422)
    assert inside.collector.progress()["slots"] == 0


@examples(50, full=150)
@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**32 - 1) | st.integers(0, 2),
    st.integers(0, 2**16 - 1) | st.just(0),
    st.integers(0, 255),
    st.integers(0, 255),
    st.binary(max_size=200),
    st.booleans(),
)
def test_any_tagged_report_is_answered(
    slot: bytes, epoch: int, round_: int, version: int, key_id: int, body: bytes, honest: bool
) -> None:
    inside = _shared()
    report = TaggedReport(
        slot=slot, tag=bytes(16), epoch=epoch, round=round_, version=version, key_id=key_id, body=body
    )
    (verdicts,) = inside.collector.accept([join_reports([inside.tagged(report) if honest else report.to_bytes()])])
    assert encode_verdicts(verdicts)[0] in (409, 422)


@cache
def _shared() -> Inside:
    import tempfile

    return Inside(*_task("gaussian"), Path(tempfile.mkdtemp()))


@cache
def _shuffled_task() -> Any:
    return a_task(bd.make("LinTS-SDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3), seed=None)


class Registered(Inside):
    """Tickets are given by a registrar."""

    def __init__(self, folder: Path, participations: int = 1) -> None:
        made = _shuffled_task()
        super().__init__(*made, folder)
        rows = open_database(str(folder / "registrar.db"), role="registrar", schema=REGISTRAR_SCHEMA)
        self.registrar = Registrar(
            rows, task=self.task.digest, ticket_keys=self.keys, secret=b"s" * 32, participations=participations
        )

    def wish(self, user: str, epoch: int, *refused: tuple[int, bytes, bytes]) -> Ticket | str:
        asked = {
            "user": user,
            "epoch": epoch,
            "refused": [[e, encode_base64url(s), encode_base64url(r)] for e, s, r in refused],
        }
        (given,) = self.registrar.tickets([asked])
        if "refused" in given:
            return str(given["refused"])
        return ticket_from_plain(given)

    def tickets(self, users: Any, epoch: int, refused: Any = ()) -> list[Ticket]:
        made = [self.wish(user, epoch) for user in users]
        assert all(isinstance(each, Ticket) for each in made)
        return [each for each in made if isinstance(each, Ticket)]

    def report(self, given: Ticket) -> ReportAnswer:
        plan = next(each for each in self.processor.now.batches if each.epoch == given.epoch)
        report = TaggedReport.make(
            given.collector, plan.digest, slot=given.slot, epoch=given.epoch, round_=0, version=FINAL,
            body=bytes(plan.rounds[0].size),
        )  # fmt: skip
        return self.upload([report.to_bytes()])[0]


def fill(inside: Registered, epoch: int, first: int = 0, count: int = 10) -> None:
    for number in range(first, first + count):
        given = inside.wish(f"person {epoch} {number}", epoch)
        assert isinstance(given, Ticket)
        assert not inside.report(given).reason


def late(inside: Registered) -> tuple[Ticket, ReportAnswer]:
    given = inside.wish("late", 0)
    assert isinstance(given, Ticket)
    fill(inside, 0)
    return given, inside.report(given)


def test_a_refused_slot_is_another_one_in_the_next_batch_once(tmp_path: Path) -> None:
    inside = Registered(tmp_path)
    given, said = late(inside)
    assert said.reason == "full"
    assert inside.wish("late", 1) == "participations"  # without a refusal
    proof = (0, given.slot, said.refusal)
    second = inside.wish("late", 1, proof)
    assert isinstance(second, Ticket)
    assert second.slot != given.slot
    assert not inside.report(second).reason  # used
    assert inside.wish("late", 2, proof) == "participations"  # the same refusal again
    assert inside.wish("late", 2, (1, second.slot, said.refusal)) == "proof"  # another slot's
    assert inside.wish("late", 2, proof, proof) == "participations"
    assert inside.wish("late", 1, proof) == second  # asked again: the same ticket, not another


def test_a_slot_that_was_refused_is_never_taken(tmp_path: Path) -> None:
    inside = Registered(tmp_path)
    given, _ = late(inside)
    inside.pump()  # the batch is learned from, and over
    said = _again(inside, given)
    assert (said.reason, len(said.refusal)) == ("closed", 16)
    used = inside.registrar.tickets([{"user": "person 0 3", "epoch": 0}])[0]
    taken = _again(inside, ticket_from_plain(used))
    assert (taken.reason, taken.refusal) == ("closed", b"")  # whose slot was used gets none


def _again(inside: Registered, given: Ticket) -> ReportAnswer:
    plan = inside.collector._used[0]
    report = TaggedReport.make(given.collector, plan, slot=given.slot, epoch=0, round_=0, version=FINAL, body=bytes(4))
    (verdicts,) = inside.collector.accept([join_reports([report.to_bytes()])])
    return parse_answers(*encode_verdicts(verdicts), 1)[0]


def test_a_refusal_of_another_user_gives_no_ticket(tmp_path: Path) -> None:
    inside = Registered(tmp_path)
    given, said = late(inside)
    assert inside.wish("person 0 0", 1, (0, given.slot, said.refusal)) == "participations"
    assert isinstance(inside.wish("late", 1, (0, given.slot, said.refusal)), Ticket)


@pytest.mark.parametrize("participations", [1, 2, 3])
def test_no_user_takes_part_more_often_than_allowed(participations: int, tmp_path: Path) -> None:
    inside = Registered(tmp_path, participations)
    kept, proofs = 0, []
    for epoch in range(4):
        eager = [inside.wish("eager", each, *proofs) for each in range(epoch, epoch + 3)]
        for ticket in eager:
            if isinstance(ticket, Ticket) and ticket.epoch == epoch:
                said = inside.report(ticket)
                kept += not said.reason
                if said.refusal:
                    proofs.append((epoch, ticket.slot, said.refusal))
        left = 10 - inside.collector.progress()["slots"]
        if epoch < 3:
            fill(inside, epoch, count=left)
            inside.pump()
    assert 0 < kept <= participations


def test_a_crowd_with_a_registrar_learns(tmp_path: Path) -> None:
    inside = Registered(tmp_path)
    account = SimulatedUsers(
        inside.task, inside, LinearContextual(dim=2, n_arms=3), rounds=20, concurrency=1, wait=0.3
    ).run()
    assert (account.users, account.refused) == (20, {})


async def test_a_flood_is_refused_and_the_rest_is_committed() -> None:
    groups: list[int] = []

    def commit(items: Sequence[int]) -> list[int]:
        time.sleep(0.01)
        groups.append(len(items))
        return [2 * item for item in items]

    commits = GroupCommit(commit, most=5, waiting=20)
    said = await asyncio.gather(*(commits.submit(item) for item in range(100)), return_exceptions=True)
    refused = [each for each in said if isinstance(each, RequestRefused)]
    assert {(each.status, each.reason, each.retry_after) for each in refused} == {(503, "busy", 1.0)}
    assert [each for each in said if not isinstance(each, RequestRefused)] == [2 * n for n in range(100 - len(refused))]
    assert 20 <= 100 - len(refused) <= 25
    assert max(groups) <= 5


async def test_a_group_is_committed_after_another_one_failed() -> None:
    failing = [True]

    def commit(items: Sequence[int]) -> list[int]:
        if failing:
            failing.clear()
            raise OSError
        return list(items)

    commits = GroupCommit(commit)
    (first,) = await asyncio.gather(commits.submit(1), return_exceptions=True)
    assert isinstance(first, OSError)
    assert await commits.submit(2) == 2


@cache
def _timed_task() -> Any:
    policy = bd.make("LinTS-SDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3)
    return a_task(policy, seed=None, grace=60.0, close="grace")


@pytest.mark.parametrize("jump", [-1e9, -100.0, 0.0, 1e9])
def test_a_clock_that_jumps_moves_only_the_end_of_a_batch(jump: float, tmp_path: Path) -> None:
    inside, now = Inside(*_timed_task(), tmp_path), [1000.0]
    rows = open_database(str(tmp_path / "own.db"), role="shuffler", schema=SCHEMA)
    parts: dict[str, Any] = {
        "task_id": inside.task.id, "task": inside.task.digest, "key": inside.keys[COLLECTOR], "grace": 60.0,
        "clock": lambda: now[0],
    }  # fmt: skip
    collector = Collector(rows, **parts)
    collector.plan(inside.processor.now.batches, inside.processor.running)
    batch = inside.processor.now.batches[0]
    size = batch.rounds[0].size

    def send(given: Any, version: int) -> None:
        parts: dict[str, Any] = {"slot": given.slot, "epoch": 0, "round_": 0, "body": bytes(size)}
        report = TaggedReport.make(given.collector, batch.digest, version=version, **parts)
        (verdicts,) = collector.accept([join_reports([report.to_bytes()])])
        assert not verdicts[0].reason

    people = inside.tickets(range(10), 0)
    for ticket in people[:9]:
        send(ticket, ZERO)
    now[0] += jump
    assert not collector.close_due()  # whatever the clock says, nine are not ten
    send(people[9], ZERO)
    assert collector.closes_at == now[0] + 60
    now[0] += 59
    assert not collector.close_due()
    send(people[0], FINAL)
    again = Collector(rows, **parts)  # begun anew, it knows when it was
    assert again.closes_at == collector.closes_at
    now[0] += 2
    assert collector.close_due()
    assert not collector.close_due()
