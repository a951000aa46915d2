"""People who came too late: a refusal gives another ticket, once, and nobody takes part more often than is allowed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import encode_base64url
from bandanna.deployment.messages.report import (
    FINAL,
    ReportAnswer,
    TaggedReport,
    Ticket,
    encode_verdicts,
    join_reports,
    parse_answers,
    ticket_from_plain,
)
from bandanna.deployment.registrar import SCHEMA, Registrar
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.storage.database.base import open_database

from ..inside import Inside, a_task


@cache
def _task() -> Any:
    return a_task(bd.make("LinTS-SDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3), seed=None)


class Registered(Inside):
    """Tickets come from a registrar."""

    def __init__(self, folder: Path, participations: int = 1) -> None:
        made = _task()
        super().__init__(*made, folder)
        rows = open_database(str(folder / "registrar.db"), role="registrar", schema=SCHEMA)
        self.registrar = Registrar(
            rows,
            task=self.task.digest,
            ticket_keys=self.keys,
            secret=b"s" * 32,
            participations=participations,
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
        plan = next(each for each in self.learner.now.batches if each.epoch == given.epoch)
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


def test_another_persons_refusal_is_worth_nothing(tmp_path: Path) -> None:
    inside = Registered(tmp_path)
    given, said = late(inside)
    assert inside.wish("person 0 0", 1, (0, given.slot, said.refusal)) == "participations"
    assert isinstance(inside.wish("late", 1, (0, given.slot, said.refusal)), Ticket)


@pytest.mark.parametrize("participations", [1, 2, 3])
def test_nobody_takes_part_more_often(participations: int, tmp_path: Path) -> None:
    inside = Registered(tmp_path, participations)
    kept, proofs = 0, []
    for epoch in range(4):
        eager = [inside.wish("eager", each, *proofs) for each in range(epoch, epoch + 3)]
        for given in eager:
            if isinstance(given, Ticket) and given.epoch == epoch:
                said = inside.report(given)
                kept += not said.reason
                if said.refusal:
                    proofs.append((epoch, given.slot, said.refusal))
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
