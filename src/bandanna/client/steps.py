"""What a session does, step by step, without knowing how requests are sent: each `yield` wants an answer.

A slot always holds a report. `act` opens one with zero reports, or `flush` does, whether or not there is a reward:
batches fill, and close, by who acted, never by who answered. `report` draws the final report when the slot is open,
keeps its bytes, and sends those until they are acknowledged or refused for good.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.client.decisions import Decision, Outcome
from bandanna.client.guides import Given, Guide, Slot
from bandanna.client.leaflet import Leaflet
from bandanna.client.outbox import ANSWERED, DECIDED, OPEN, OPENING, OVER, Kept, Outbox
from bandanna.client.published import Published
from bandanna.client.wants import NoTicket, Pause, Request, TicketWanted, Unreachable, Want
from bandanna.core import require
from bandanna.core.arm_sets import arms_of, of_user
from bandanna.core.coins import SecureCoins
from bandanna.device import SecureNoise
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.wire.answers import Answer, Ticket, answers
from bandanna.wire.canonical import loads, packed, unpacked
from bandanna.wire.keys import verify
from bandanna.wire.plan import Batch
from bandanna.wire.record import FINAL, ZERO, Record, joined
from bandanna.wire.ticket import bound

Again = Callable[[dict[str, Any]], dict[str, Any]]  # what a newer publication chooses


class Steward:
    """The steps of one user's session in a task."""

    def __init__(self, leaflet: Leaflet, guide: Guide, outbox: Outbox, user: str) -> None:
        self._leaflet, self._guide, self._outbox, self._user = leaflet, guide, outbox, user
        self._published = Published(leaflet, outbox)
        self._source, self._coins = SecureNoise(), SecureCoins()

    # Acting

    def act(self, contexts: Any) -> Generator[Want, Any, Decision]:
        """Choose, and open a slot; while all batches are full nobody knows the arm: a newer snapshot chooses anew."""
        ids, features = self._arms(contexts)
        content = yield from self._published.newest()
        seen = self._guide.seen(features)

        def again(newer: dict[str, Any]) -> dict[str, Any]:
            return self._chosen(newer, ids, seen)

        made = {**again(content), "refused": self._outbox.refused(self._leaflet.id, self._user)}
        kept = Kept(id=secrets.token_urlsafe(16), task=self._leaflet.id, user=self._user, content=made)
        reason = str(content["status"]) if content["status"] != "running" else ""
        begun = None if reason else self._outbox.begin(kept, self._guide.participations)
        if begun is not None:
            kept, reason = yield from self._begun(begun, content, again)
        else:
            reason = reason or "participations"
        if "arm" not in made:
            kept = self._assigned(kept, seen, reason)
        told = {**made, **kept.content}  # of a decision that is over nothing is kept
        action = int(told["arm"])
        return Decision(
            id=kept.id,
            arm=ids[action],
            action=action,
            publication=int(told["number"]),
            taking_part=not reason,
            reason=reason,
        )

    def _chosen(self, content: dict[str, Any], ids: Any, seen: Any) -> dict[str, Any]:
        """What is kept of a choice by a publication; where places say the arm, only which publication it was."""
        chosen = self._guide.choose(content, seen, self._coins)
        if chosen is None:
            return {"number": content["number"]}
        arm, group = chosen
        name = ids[arm] if isinstance(ids[arm], str | int | float) else str(ids[arm])
        return {"number": content["number"], "arm": arm, "group": group, "features": seen[arm].tolist(), "name": name}

    def _begun(self, kept: Kept, content: dict[str, Any], again: Again) -> Generator[Any, Any, tuple[Kept, str]]:
        """With a slot, as far as it comes; an error before anything was sent leaves nothing behind."""
        try:
            opened: tuple[Kept, str] = yield from self._opened(kept, content, again)
        except Exception:
            found = self._outbox.find(kept.task, kept.user, kept.id)
            if found is not None and found.state == DECIDED:
                self._outbox.over(found)
            raise
        return opened

    def _arms(self, contexts: Any) -> tuple[Any, Any]:
        """Ids and features (K, d) of what can be chosen."""
        fixed, dim = self._leaflet.arms, self._guide.dim
        if fixed is None:
            if contexts is None:
                raise InvalidArgument("contexts", None, f"the features of every arm, {dim} numbers each")
            return arms_of(contexts, dim)
        if fixed.of_users:
            return of_user(fixed, contexts)
        if contexts is not None:
            raise InvalidArgument("contexts", type(contexts).__name__, "None: the task's arms stay")
        return fixed.ids, fixed.features

    def _assigned(self, kept: Kept, seen: Any, reason: str) -> Kept:
        """Where the place in the batch says what is played."""
        if kept.state != OPEN:
            if kept.state != OVER and not reason:
                self._outbox.over(kept)
            raise BandannaError(f"no arm is assigned without a place in a batch: {reason or 'offline'}")
        batch = Batch.from_dict(kept.content["batch"])
        arm = int(batch.arms_at(np.array([kept.content["place"]]))[0])
        return self._outbox.keep(kept.now(OPEN, arm=arm, group=0, features=seen[arm].tolist(), name=arm))

    # Opening a slot

    def _opened(
        self, kept: Kept, content: dict[str, Any], again: Again | None = None
    ) -> Generator[Want, Any, tuple[Kept, str]]:
        """A decision with its slot, as far as it comes; and why it takes no part, if that is certain.

        With `again` nobody knows the arm yet, and a newer publication chooses anew.
        """
        try:
            while kept.state in (DECIDED, OPENING):
                if kept.state == DECIDED:
                    if again is not None and content["number"] > kept.content["number"]:
                        kept = self._outbox.keep(kept.now(DECIDED, **again(content)))
                        continue
                    place = self._place(kept, content)
                    if place is None and again is None:
                        return self._ended(kept, "full" if content["number"] == kept.content["number"] else "stale")
                    if place is None or place == len(content["batches"]):  # all are full: there will be another one
                        if not (yield Pause(seconds=0.2)):
                            return self._ended(kept, "full") if place is None else (kept, "")
                        content = yield from self._published.newest()
                        if content["status"] != "running":
                            return self._ended(kept, str(content["status"]))
                        continue
                    kept = yield from self._with_zeros(kept, content, place)
                    continue  # another process may have been quicker
                answer = yield from self._sent(kept.zero or b"")
                kept, reason = self._placed(kept, answer)
                if reason:
                    return kept, reason
        except Unreachable:
            pass
        except NoTicket as error:
            return self._ended(kept, str(error))
        return kept, ""

    def _place(self, kept: Kept, content: dict[str, Any]) -> int | None:
        """Which announced batch to try: the first that has not refused, or the one after all of them.

        None if the decision would be older than `max_age` releases when that batch is learned from.
        """
        last = max((*(epoch for epoch, *_ in kept.content["refused"]), *kept.content.get("held", ())), default=-1)
        epochs = [int(each["epoch"]) for each in content["batches"]]
        place = next((place for place, epoch in enumerate(epochs) if epoch > last), len(epochs))
        age = int(content["number"]) - kept.content["number"] + place
        return place if age <= self._leaflet.content["max_age"] else None

    def _with_zeros(self, kept: Kept, content: dict[str, Any], place: int) -> Generator[Any, Any, Kept]:
        """A ticket, and the zero reports of all rounds, stored before they are sent."""
        batch = self._guide.batch(content, place)
        if not self._outbox.claim(kept, batch.epoch):  # by another decision of this user: try the next batch
            return self._outbox.keep(kept.now(DECIDED, held=[*kept.content.get("held", ()), batch.epoch]))
        refused = tuple((epoch, unpacked(slot), unpacked(proof)) for epoch, slot, proof in kept.content["refused"])
        ticket: Ticket = yield TicketWanted(epoch=batch.epoch, refused=refused)
        if ticket.epoch != batch.epoch:
            raise NoTicket("ticket")
        key_id, key = yield from self._seal_key()
        slot = Slot(batch=batch, slot=ticket.slot, key=key)
        bodies = self._guide.zeros(content, place, slot, self._source)
        records = [_record(ticket, batch, number, ZERO, key_id, body) for number, body in enumerate(bodies)]
        opening = kept.now(
            OPENING,
            batch=batch.to_dict(),
            slot=packed(ticket.slot),
            mac=packed(ticket.mac),
            key=key,
            key_id=key_id,
            round=0,
        )
        return self._outbox.keep(replace(opening, zero=joined(records)))

    def _placed(self, kept: Kept, answer: list[Answer]) -> tuple[Kept, str]:
        """After the zero reports were answered."""
        first = next((each for each in answer if each.reason), answer[0])
        epoch = int(kept.content["batch"]["epoch"])
        if not first.reason:
            return self._outbox.keep(replace(kept.now(OPEN, place=first.place), zero=None)), ""
        if first.reason in ("full", "closed") and first.refusal:  # the slot is not used: another one may be
            refused = [*kept.content["refused"], [epoch, kept.content["slot"], packed(first.refusal)]]
            return self._outbox.keep(replace(kept.now(DECIDED, refused=refused), zero=None)), ""
        return self._ended(kept, first.reason)

    def _ended(self, kept: Kept, reason: str) -> tuple[Kept, str]:
        made = self._outbox.over(kept)
        return made, reason if made.state == OVER else ""

    def _seal_key(self) -> Generator[Any, Any, tuple[int, str | None]]:
        """The helper's active key, signed by it; or the analyzer's, which the task names."""
        if self._leaflet.mixers != 2:
            return 0, self._leaflet.content["keys"].get("seal analyzer")
        status, headers, content = yield Request(method="GET", url=f"{self._leaflet.url('helper')}/keys")
        if status != 200:
            raise Unreachable(f"the helper shows no keys: {status}")
        if not verify(self._leaflet.key("helper"), content, headers.get("signature")):
            raise BandannaError("keys that the task's helper has not signed")
        active = [each for each in loads(content)["keys"] if each["state"] == "active"]
        if not active:
            raise Unreachable("the helper has no active key")
        return int(active[-1]["id"]), str(active[-1]["public"])

    def _sent(self, content: bytes) -> Generator[Any, Any, list[Answer]]:
        """The same bytes until they are answered; a collector may hear of a batch a little later than we do."""
        count = _count(content)
        while True:
            url = f"{self._leaflet.collector}/reports"
            headers = {"content-type": "application/octet-stream"}
            status, _, told = yield Request(method="POST", url=url, content=content, headers=headers)
            answer = answers(status, told, count)
            if not any(each.reason == "early" for each in answer):
                return answer
            if not (yield Pause(seconds=0.2)):
                raise Unreachable("the batch is not open yet")

    # Reporting

    def report(self, id_: str, reward: Any) -> Generator[Any, Any, Outcome]:
        """The reward of a decision, once."""
        kept = self._outbox.find(self._leaflet.id, self._user, id_)
        if kept is None:
            raise InvalidArgument("decision", id_, "one of this session's user that takes part, from this outbox")
        if kept.state == OVER:
            return Outcome(reason=OVER)
        allowed = "a finite number; nothing was reported"
        given = float(reward) if isinstance(reward, bool | np.bool_) else reward
        number = require.finite("reward", given, allowed, error=InvalidStatistic)
        while kept.reward is None and kept.state != OVER:
            kept = self._outbox.keep(replace(kept, reward=number))  # or what somebody else has made of it
        if kept.reward not in (None, number):
            raise InvalidArgument("reward", number, "the one that was reported before: a decision has one")
        if kept.state in (DECIDED, OPENING):
            return Outcome(pending=True)  # `act` and `flush` open slots: who answers must not be who takes part
        outcome: Outcome = yield from self._delivered(kept)
        return outcome

    def _delivered(self, kept: Kept, content: dict[str, Any] | None = None) -> Generator[Any, Any, Outcome]:
        """As far as it can be sent now."""
        try:
            if content is None and kept.state == OPEN and not kept.content["round"]:
                content = self._published.seen()  # who answers is told nobody but the collector: nothing is asked for
            if content is None and kept.state == OPEN:
                content = yield from self._published.newest()
            if kept.state in (DECIDED, OPENING):
                assert content is not None
                kept, reason = yield from self._opened(kept, content)
                if reason:
                    return Outcome(reason=reason)
            if kept.state == OPEN:
                assert content is not None
                if self._passed(kept, content):
                    self._outbox.over(kept)
                    return Outcome(reason="closed")
                kept = self._drawn(kept, content)
            if kept.state != ANSWERED:
                return Outcome(reason=OVER) if kept.state == OVER else Outcome(pending=True)
            answer = yield from self._sent(kept.final or b"")
        except Unreachable:
            return Outcome(pending=True)
        return self._acknowledged(kept, answer[0])

    def _passed(self, kept: Kept, content: dict[str, Any]) -> bool:
        """Whether its batch is over: what it reported first has been counted."""
        return int(content["epoch"]) > int(kept.content["batch"]["epoch"])

    def _drawn(self, kept: Kept, content: dict[str, Any]) -> Kept:
        """The final report of the awaited round, stored before it is sent; as it is if another round is awaited."""
        held, batch = kept.content, Batch.from_dict(kept.content["batch"])
        number = int(held["round"])
        if number and (int(content["epoch"]), int(content["round"])) != (batch.epoch, number):
            return kept
        assert kept.reward is not None
        ticket = Ticket(slot=unpacked(held["slot"]), mac=unpacked(held["mac"]), epoch=batch.epoch)
        slot = Slot(batch=batch, slot=ticket.slot, key=held["key"])
        given = Given(features=tuple(held["features"]), arm=held["arm"], group=held["group"])
        body = self._guide.final(content, number, slot, given, kept.reward, self._source, self._coins)
        record = _record(ticket, batch, number, FINAL, held["key_id"], body)
        return self._outbox.keep(replace(kept.now(ANSWERED), final=joined([record])))

    def _acknowledged(self, kept: Kept, answer: Answer) -> Outcome:
        if answer.reason:
            self._outbox.over(kept)
            return Outcome(reason=answer.reason)
        rounds = len(kept.content["batch"]["rounds"])
        if kept.content["round"] + 1 < rounds:  # the same people are asked again
            self._outbox.keep(replace(kept.now(OPEN, round=kept.content["round"] + 1), final=None))
            return Outcome(kept=True, pending=True)
        self._outbox.over(kept)
        return Outcome(kept=True)

    def flush(self) -> Generator[Any, Any, int]:
        """Send what waits, answer further rounds, forget what is over; how many decisions still have to be sent."""
        waiting = self._outbox.waiting(self._leaflet.id, self._user)
        if not waiting:
            return 0
        try:
            content = yield from self._published.newest()
            for kept in waiting:
                if kept.state == OPEN and kept.reward is None:
                    if self._passed(kept, content):
                        self._outbox.over(kept)
                elif kept.reward is not None:
                    yield from self._delivered(kept, content)
                else:
                    yield from self._opened(kept, content)
        except Unreachable:
            pass
        return self.pending

    @property
    def pending(self) -> int:
        """Decisions without a slot, or with a reward that is not acknowledged: `flush` goes on with them."""
        waiting = self._outbox.waiting(self._leaflet.id, self._user)
        return sum(kept.state != OPEN or kept.reward is not None for kept in waiting)

    @property
    def decisions(self) -> list[Decision]:
        """Those that wait for their reward, the oldest first."""
        waiting = self._outbox.waiting(self._leaflet.id, self._user)
        return [
            Decision(id=kept.id, arm=held["name"], action=int(held["arm"]), publication=int(held["number"]))
            for kept in waiting
            if kept.reward is None and "arm" in (held := kept.content)
        ]


def _record(ticket: Ticket, batch: Batch, number: int, version: int, key_id: int, body: bytes) -> bytes:
    mac = bound(ticket.mac, batch.digest)
    return Record(slot=ticket.slot, mac=mac, epoch=ticket.epoch, round=number, version=version, key_id=key_id,
                  body=body).to_bytes()  # fmt: skip


def _count(request: bytes) -> int:
    """Records in a request."""
    place, count = 0, 0
    while place < len(request):
        place, count = place + 4 + int.from_bytes(request[place : place + 4], "little"), count + 1
    return count
