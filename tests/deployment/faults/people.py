"""People who report one-hot numbers and repeat the same bytes until they are answered; and what must be in the totals.

The k-th person's final report is 2 at one coordinate, the zero report that opens the slot is 1 there (in a test nobody
needs noise): totals say who is in them, with which report, and how often.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.collector import mixer_from_text
from bandanna.deployment.messages.batch_plan import Batch, Part
from bandanna.deployment.messages.canonical import encode_base64url, loads
from bandanna.deployment.messages.report import (
    FINAL,
    ZERO,
    TaggedReport,
    Ticket,
    encode_body,
    join_reports,
    parse_answers,
    ticket_from_plain,
)
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.mixers import FullBatches

from .town import Town

Numbers = tuple[float, ...]


@dataclass
class Sent:
    """A report, and whether it is certainly or possibly stored."""

    round: int
    version: int
    numbers: list[Numbers]  # of each part
    body: bytes
    content: bytes
    kept: bool = False
    perhaps: bool = False


@dataclass
class Slot:
    """The reports of a user in one epoch."""

    person: int
    epoch: int
    sent: list[Sent] = field(default_factory=list)

    def may_be(self, round_: int) -> list[Sent | None]:
        """Return the reports of a round that may be in the total."""
        own = [each for each in self.sent if each.round == round_]
        kept = max((each.version for each in own if each.kept), default=-1)
        options: list[Sent | None] = [e for e in own if (e.kept or e.perhaps) and e.version >= kept]
        return options if kept >= 0 else [None, *options]


@dataclass
class Person:
    """A user and the reports that are not answered yet."""

    number: int
    wants: int = 0  # the epoch of the ticket that is asked for
    proofs: list[Any] = field(default_factory=list)
    slot: Slot | None = None
    ticket: Ticket | None = None
    outbox: list[list[Sent]] = field(default_factory=list)
    done: bool = False


class People:
    def __init__(self, town: Town) -> None:
        self.town = town
        self.persons: list[Person] = []
        self.slots: dict[tuple[int, bytes], Slot] = {}
        self.plans: dict[int, Batch] = {}
        self.news: dict[str, Any] = {}
        self.acknowledged = 0

    def look(self) -> None:
        try:
            self.news = self.town.publication()
        except RoleUnreachable:
            return
        for each in self.news["batches"]:
            plan = Batch.from_dict(each)
            assert self.plans.setdefault(plan.epoch, plan) == plan, "a batch was announced twice, in two ways"

    def come(self, *, final: bool) -> Person:
        person = Person(number=len(self.persons))
        self.persons.append(person)
        self.look()
        person.wants = self.news.get("epoch", 0)
        self.enter(person, final=final)
        return person

    def enter(self, person: Person, *, final: bool = False) -> None:
        if person.slot is not None or person.done or person.wants not in self.plans:
            return
        asked: dict[str, Any] = {"user": f"user {person.number}", "epoch": person.wants}
        if person.proofs:
            asked["refused"] = person.proofs
        try:
            (ticket,) = self.town.tickets([asked])
        except RoleUnreachable:
            return
        if "refused" in ticket:
            person.done = ticket["refused"] == "participations"
            return
        person.ticket = ticket_from_plain(ticket)
        plan = self.plans[person.wants]
        person.slot = self.slots[person.wants, person.ticket.slot] = Slot(person.number, person.wants)
        first = [self._made(person, plan, 0, FINAL if final else ZERO)]
        person.outbox.append([*first, *(self._made(person, plan, n, ZERO) for n in range(1, len(plan.rounds)))])
        self.send(person)

    def report(self, person: Person) -> None:
        self.look()
        slot, round_ = person.slot, self.news.get("round", 0)
        if slot is None or person.done or slot.epoch != self.news.get("epoch"):
            return
        if not any(each.version == FINAL and each.round == round_ for each in slot.sent):
            person.outbox.append([self._made(person, self.plans[slot.epoch], round_, FINAL)])
        self.send(person)

    def send(self, person: Person) -> None:
        while person.outbox:
            group = person.outbox[0]
            try:
                status, content = self.town.upload(join_reports([each.content for each in group]))
            except RoleUnreachable:
                for each in group:
                    each.perhaps = True
                return
            told = parse_answers(status, content, len(group))
            if any(each.reason == "early" for each in told):
                return
            person.outbox.pop(0)
            for sent, answer in zip(group, told, strict=True):
                sent.kept |= not answer.reason
                self.acknowledged += not answer.reason
                assert answer.reason in ("", "full", "closed"), answer
            self._refused(person, told[0])

    def again(self, person: Person, sent: Sent) -> None:
        try:
            (told,) = parse_answers(*self.town.upload(join_reports([sent.content])), 1)
        except RoleUnreachable:
            return
        assert told.reason in (("", "closed") if sent.kept else ("full", "closed", "early", "incomplete")), told

    def _refused(self, person: Person, told: Any) -> None:
        """Exchange the ticket with the proof that the slot was not used."""
        if not told.reason or person.slot is None or any(each.kept for each in person.slot.sent):
            return
        if told.refusal:
            person.proofs.append(
                [person.slot.epoch, encode_base64url(person.ticket.slot), encode_base64url(told.refusal)]
            )
            person.wants, person.slot, person.outbox = person.slot.epoch + 1, None, []
        else:
            person.done = True  # nothing says that it was not used: no other ticket

    def _made(self, person: Person, plan: Batch, round_: int, version: int) -> Sent:
        assert person.slot is not None
        assert person.ticket is not None
        wanted, ticket, task = plan.rounds[round_], person.ticket, self.town.task
        numbers = [_numbers(part, person.number, version) for part in wanted.parts]
        rows = [np.array(each, dtype=float if wanted.parts[0].form == "row" else np.int64) for each in numbers]
        key = task.content["keys"].get("seal helper" if wanted.split else "seal analyzer")
        body = encode_body(rows, task=task.digest, batch=plan, round_=round_, ticket=ticket, key=key)
        parts: dict[str, Any] = {"slot": ticket.slot, "epoch": plan.epoch, "body": body}
        report = TaggedReport.make(ticket.collector, plan.digest, round_=round_, version=version, **parts)
        made = Sent(round_, version, numbers, body, report.to_bytes())
        person.slot.sent.append(made)
        return made

    # What must be in the totals

    def check(self) -> None:
        """Check that every total is the sum of the acknowledged reports and of reports that may be stored."""
        members: Counter[int] = Counter()
        for epoch, round_ in sorted({key[:2] for key in self.town.taken}):
            shares = [loads(c) for key, c in self.town.taken.items() if key[:2] == (epoch, round_)]
            if len(shares) < max(1, self.town.task.mixers):
                continue
            found = self._explained(epoch, round_, shares)
            assert found is not None, f"the total of batch {epoch}, round {round_} is not that of its reports"
            if round_ == 0:
                members.update(found)
        assert all(count == 1 for count in members.values()), "somebody is in two batches"

    def _explained(self, epoch: int, round_: int, shares: list[Any]) -> list[int] | None:
        """Return the users in a total; None if no set of their reports gives it."""
        plan = self.plans[epoch]
        slots = [slot for (number, _), slot in self.slots.items() if number == epoch]
        some = [(slot, slot.may_be(round_)) for slot in slots]
        sure = [(slot, options[0]) for slot, options in some if len(options) == 1 and options[0] is not None]
        open_ = [(slot, options) for slot, options in some if len(options) > 1]
        for choice in itertools.product(*(options for _, options in open_)):
            chosen = [*sure, *((s, c) for (s, _), c in zip(open_, choice, strict=True) if c is not None)]
            if len(chosen) == plan.slots and _agree(plan.rounds[round_].parts, [c for _, c in chosen], shares):
                return [slot.person for slot, _ in chosen]
        return None


def _numbers(part: Part, person: int, version: int) -> Numbers:
    """Return a one-hot vector, or a number of the user where there is little room."""
    if part.form == "row":
        return (0.1, *([0.0] * (part.length - 5)), 0.01 * (1 + person), 0.0, 0.0, float(version))
    length = part.length
    if length >= 6:
        return tuple(float((1 + version) * (place == person % length)) for place in range(length))
    most = int(np.min(getattr(mixer_from_text(part.mixer or ""), "largest", np.array(1000))))
    return tuple(float((7 * person + 3 * version + place) % (most + 1)) for place in range(length))


def _agree(parts: tuple[Part, ...], chosen: list[Sent], shares: list[Any]) -> bool:
    return all(_same(part, n, chosen, [share["parts"][n] for share in shares]) for n, part in enumerate(parts))


def _same(part: Part, number: int, chosen: list[Sent], texts: list[str]) -> bool:
    views = [make_mixer_encoding().loads(text) for text in texts]
    if part.form == "sealed":
        return sorted(views[0]) == sorted(encode_base64url(each.body) for each in chosen)
    if part.form == "row":
        return sorted(map(tuple, views[0].tolist())) == sorted(each.numbers[number] for each in chosen)
    total = np.sum([each.numbers[number] for each in chosen], axis=0).astype(np.int64)
    if part.stream is not None:  # what is full at the lowest level is this batch's
        held = [sum(view.levels[0].numbers for view in own) for own in views]
        assert all(isinstance(view, FullBatches) for own in views for view in own)
        return bool(np.all(sum(held) == total[: len(held[0])]))
    sums = [own[0].numbers for own in views]
    summed = np.sum(sums, axis=0, dtype=np.int64)
    return bool(np.all((summed if summed.ndim == 1 else summed.sum(axis=0)) == total))
