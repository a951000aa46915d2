"""A collector that is killed anywhere around a receipt: whose slot was used has no other ticket, who was late has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.messages.canonical import COLLECTOR, decode_base64url, encode_base64url, prove_unused
from bandanna.deployment.messages.report import (
    FINAL,
    ZERO,
    ReportAnswer,
    ReportFields,
    ReportVerdict,
    TaggedReport,
    encode_verdicts,
    join_reports,
    parse_answers,
    split_reports,
)

from ..client.town import Town as Devices
from ..deployment.batches import SLOTS, Collecting, proof, receipt, report
from ..deployment.faults.people import People
from ..deployment.faults.test_faults import begun, work
from ..deployment.faults.town import GRACE, Town


def told(town: Town, content: bytes) -> ReportAnswer:
    for _ in range(3):
        town.start("shuffler")
        try:
            status, said = town.upload(join_reports([content]))
        except RoleUnreachable:  # it has died
            continue
        return parse_answers(status, said, 1)[0]
    raise AssertionError("the shuffler does not answer")


def wish(town: Town, user: str, epoch: int, refused: list[Any]) -> dict[str, Any]:
    (given,) = town.tickets([{"user": user, "epoch": epoch, "refused": refused}])
    return given


def late_record(town: Town, people: People) -> bytes:
    given, known = wish(town, "late", 0, []), people.persons[0].slot
    assert known is not None
    plan = town.alive["analyzer"]["processor"].now.batches[0].digest
    key = decode_base64url(given["collector"], 16)
    size = len(TaggedReport.from_bytes(known.sent[0].content).body)
    slot = decode_base64url(given["slot"], 16)
    report = TaggedReport.make(key, plan, slot=slot, epoch=0, round_=0, version=ZERO, body=bytes(size))
    return report.to_bytes()


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("point", ["before commit", "after commit", "killed after the answer"])
def test_tickets_are_no_more_than_participations(point: str, number: int, tmp_path: Path) -> None:
    """Whenever the shuffler dies between closing a batch and the plan of the next one, it never says of a slot that was
    in the batch that it was not used, and always says it of one that came too late: each has one participation.
    """
    town, people = begun("one mixer", tmp_path, 4)
    late, members = late_record(town, people), [person.slot for person in people.persons]
    town.armed["shuffler", point] = number
    town.now += GRACE + 1.0
    for _ in range(4):
        town.step("shuffler")
        for slot in members:
            assert slot is not None
            assert told(town, slot.sent[-1].content).refusal == b""
        said = told(town, late)
        assert (said.reason in ("full", "closed"), len(said.refusal)) == (True, 16)
    work(town)
    said = told(town, late)
    report = TaggedReport.from_bytes(late)
    proof = [0, encode_base64url(report.slot), encode_base64url(said.refusal)]
    assert said.reason == "closed"
    assert wish(town, "late", 1, []) == {"refused": "participations"}
    assert "slot" in wish(town, "late", 1, [proof])


@pytest.mark.parametrize("role", ["registrar", "analyzer", "shuffler"])
def test_a_collector_ends_while_it_sends(role: str, tmp_path: Path) -> None:
    """A shuffler that is asked to end as soon as its share was answered knows its slots when it begins anew, whoever
    else was away meanwhile.
    """
    town, people = begun("one mixer", tmp_path, 4)
    late = late_record(town, people)
    town.armed["shuffler to analyzer", "request lost"] = 2  # plan, share, then the plan after it
    town.now += GRACE + 1.0
    town.step("shuffler")
    town.kill("shuffler")
    town.kill(role)
    town.start(role)
    town.start("shuffler")
    for _ in range(2):
        collector = town.alive["shuffler"]["collector"]
        for person in people.persons:
            assert person.slot is not None
            (verdicts,) = collector.accept([join_reports([person.slot.sent[-1].content])])
            assert parse_answers(*encode_verdicts(verdicts), 1)[0] == ReportAnswer(reason="closed")
        assert len(told(town, late).refusal) == 16
        work(town)


@pytest.mark.parametrize("reason", ["full", "closed"])
@pytest.mark.parametrize("lies", [{FINAL}, {ZERO, FINAL}], ids=["final", "both"])
def test_a_shuffler_that_lies_gets_one_report_about_a_reward(lies: set[int], reason: str, tmp_path: Path) -> None:
    """A shuffler that keeps what a device sends, and proves to it that its slot was not used, gets zero reports of
    other batches at most: about one reward a device draws one report, and its decision ends with it.
    """
    policy = bd.LinTS(dim=2, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    town = Devices(policy, tmp_path)
    honest, seen = town._answer, list[ReportFields]()

    def lying(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/reports"):
            return honest(request)
        (sent,) = split_reports(request.content, 1000)
        slot, _, epoch, _, version, *_ = sent
        moved = version == ZERO and bool(seen)  # to another batch, which takes it
        seen.append(sent)
        if version not in lies or moved:
            return httpx.Response(201, json={"places": [0]})
        proof = prove_unused(town.inside.keys[COLLECTOR], town.task.digest, epoch, slot)
        status, content = encode_verdicts([ReportVerdict(reason=reason, refusal=proof)])
        return httpx.Response(status, content=content)

    town._answer = lying  # type: ignore[method-assign]
    session = town.session()
    decision = session.act([[0.1, 0.2], [0.3, 0.4]])
    assert session.report(decision, 1.0).reason == reason
    for _ in range(3):
        assert session.flush() == 0
    assert session.report(decision, 1.0).reason == "over"
    assert session.act([[0.1, 0.2], [0.3, 0.4]]).reason == "participations"
    finals = {sent for sent in seen if sent[4] == FINAL}
    assert len(finals) == 1
    assert len({sent[0] for sent in seen if sent[4] == ZERO}) == len(lies)


class Life(Collecting):
    """A collector over several batches, some dropped, that is begun anew at any moment; what it said of every slot."""

    def __init__(self, url: str, rounds: int) -> None:
        super().__init__(url, rounds=rounds, grace=0.0)
        self.first, self.running, self.told = self.plans[0], (0, 0), 0
        self.placed, self.refused = set[tuple[int, int]](), set[tuple[int, int]]()

    def come(self, user: int, epoch: int) -> None:
        sent = [report(user, epoch=epoch, round_=each) for each in range(len(self.first.rounds))]
        for verdict in self.send(*sent):
            if verdict.place >= 0:
                self.placed.add((epoch, user))
            if verdict.refusal:
                assert verdict.refusal == proof(user, epoch)
                self.refused.add((epoch, user))

    def close(self) -> None:
        """A round that is due; its receipt, now or after a restart."""
        self.collector.close_due()

    def receipts(self) -> None:
        for closed in self.collector.waiting():
            self.told += 1
            self.collector.receipted(closed.epoch, closed.round, receipt(self.told))
            last = closed.round + 1 == len(self.first.rounds)
            self.running = (closed.epoch + 1, 0) if last else (closed.epoch, closed.round + 1)

    def plan(self) -> None:
        """The newest publication: it may come long after the receipt, and again."""
        known = range(self.running[0] + 2)
        self.plans = tuple(replace(self.first, epoch=each) for each in known)  # type: ignore[assignment]
        self.collector.plan(self.plans[-2:], self.running)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_slot_is_used_or_proved_unused_and_never_both(rounds: int, tmp_path: Path) -> None:
    """Whatever the order of reports, closing, receipts, plans and restarts: who was given a place in a batch is never
    proved not to be in it, and who was proved that is never given a place; and all who came too late are proved it.
    """
    rng = np.random.default_rng(8)
    for number in range(12):
        life = Life(str(tmp_path / f"{number}.db"), rounds)
        for _ in range(80):
            step = rng.choice(["come", "close", "receipts", "plan", "restart"], p=[0.6, 0.1, 0.1, 0.1, 0.1])
            if step == "come":
                life.come(int(rng.integers(3 * SLOTS)), int(rng.integers(life.running[0] + 2)))
            else:
                getattr(life, step)()
            assert not life.placed & life.refused, (number, step)
        life.restart()
        life.plan()
        over = range(life.running[0])
        for epoch in over:
            for user in range(3 * SLOTS):
                life.come(user, epoch)
        assert not life.placed & life.refused
        assert life.placed | life.refused >= {(epoch, user) for epoch in over for user in range(3 * SLOTS)}
        life.database.close()
