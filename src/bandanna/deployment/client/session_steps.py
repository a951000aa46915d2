"""The steps of act and report, without input or output."""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.deployment.client.device_logic import ClientTask, DeviceLogic, PlayedArm, ReportSlot
from bandanna.deployment.client.outbox import (
    ANSWERED,
    DECIDED,
    OPEN,
    OPENING,
    OVER,
    ClientDecision,
    Effect,
    GetTicket,
    NoTicket,
    Outbox,
    Outcome,
    PendingDecision,
    PublicationCache,
    SendRequest,
    Sleep,
    Unreachable,
)
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import decode_base64url, encode_base64url
from bandanna.deployment.messages.report import (
    FINAL,
    ZERO,
    ReportAnswer,
    Ticket,
    choose_seal_key,
    encode_report,
    join_reports,
    parse_answers,
)
from bandanna.device.arm_sets import parse_arms, repeat_user_features
from bandanna.device.noise import SecureNoise
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import SecureRandomness

_DAY = 86_400  # seconds
_NOTHING_REPORTED = "a report of zeros was made: the reward, or what the analyzer has published, gives no other"
_MAX_DAYS = 30  # after which a decision without a report is forgotten


class SessionSteps:
    """The steps of one user's session in a task.

    Requests and their lengths follow from public values and from the calls of `act`, `report` and `flush` alone.
    Features, arms and rewards are read only when a report of zeros could be sent as well.
    """

    def __init__(self, task: ClientTask, device: DeviceLogic, outbox: Outbox, user: str) -> None:
        self._task, self._device, self._outbox, self._user = task, device, outbox, user
        self._published = PublicationCache(task, outbox)
        self._source, self._coins = SecureNoise(), SecureRandomness()
        waiting = outbox.waiting(task.id, user)
        self._orphans = [kept.id for kept in waiting if "arm" not in kept.content]  # of a process that ended in `act`

    # Acting

    def act(self, contexts: Any) -> Generator[Effect, Any, ClientDecision]:
        """Open a slot and choose an arm by the newest publication. An error about features is raised last.

        A decision of a process that ended while it acted is finished first.
        """
        self._check_given(contexts)
        content = yield from self._published.newest()
        self._forget(content)
        refused = self._outbox.refused(self._task.id, self._user)
        made = {"number": content["number"], "day": _today(), "refused": refused}
        orphan = self._take_orphan()
        kept = orphan or PendingDecision(
            id=secrets.token_urlsafe(16), task=self._task.id, user=self._user, content=made
        )
        reason = str(content["status"]) if content["status"] != "running" else ""
        begun = None if reason else orphan or self._outbox.begin(kept, self._device.participations)
        if begun is not None:
            kept, reason, content = yield from self._begun(begun, content)
        else:
            reason = reason or "participations"
        ids, seen = self._seen(contexts)
        chosen = self._chosen(content, ids, seen)
        if chosen is not None:
            while begun is not None and kept.state != OVER and "arm" not in kept.content:
                kept = self._outbox.keep(kept.now(kept.state, **chosen))
        elif "arm" not in kept.content:
            raise BandannaError(f"no arm is assigned without a place in a batch: {reason or 'offline'}")
        told = {"number": content["number"], **(chosen or {}), **kept.content}  # of what is over nothing is kept
        action, over = int(told["arm"]), reason or (OVER if kept.state == OVER else "")
        return ClientDecision(
            id=kept.id,
            arm=ids[action],
            action=action,
            publication=int(told["number"]),
            taking_part=not over,
            reason=over,
        )

    def _take_orphan(self) -> PendingDecision | None:
        """Return a decision without an arm of an earlier process; each one is returned once."""
        while self._orphans:
            kept = self._outbox.find(self._task.id, self._user, self._orphans.pop())
            if kept is not None and kept.state != OVER and "arm" not in kept.content:
                return kept
        return None

    def _check_given(self, contexts: Any) -> None:
        """Refuse a call that is wrong whatever the features are."""
        fixed = self._task.arms
        if fixed is not None and not fixed.of_users and contexts is not None:
            raise InvalidStatistic("contexts", contexts, "None, because the task's arms are fixed")
        if contexts is None and (fixed is None or fixed.of_users):
            whose = "of every arm" if fixed is None else "of the user"
            raise InvalidArgument("contexts", None, f"the features {whose}, {self._device.dim} numbers each")

    def _seen(self, contexts: Any) -> tuple[Any, Any]:
        """Return the ids of the arms, and their features (K, d) as scored and reported."""
        fixed = self._task.arms
        if fixed is None:
            ids, features = parse_arms(contexts, self._device.dim)
        else:
            ids, features = repeat_user_features(fixed, contexts) if fixed.of_users else (fixed.ids, fixed.features)
        with np.errstate(all="ignore"):
            return ids, self._device.clip_features(features)

    def _chosen(self, content: dict[str, Any], ids: Any, seen: Any) -> dict[str, Any] | None:
        """Choose by a publication, or any arm if that fails; None if the place in the batch assigns the arm."""
        try:
            with np.errstate(all="ignore"):
                found = self._device.choose(content, seen, self._coins)
        except Exception:  # by what was published: whether it fails may depend on the features
            found = int(self._coins.uniform((1,), "any arm")[0] * len(ids)), 0
        return None if found is None else self._played(*found, ids, seen)

    @staticmethod
    def _played(arm: int, group: int, ids: Any, seen: Any) -> dict[str, Any]:
        name = ids[arm] if isinstance(ids[arm], str | int | float) else str(ids[arm])
        return {"arm": arm, "group": group, "features": seen[arm].tolist(), "name": name}

    def _begun(
        self, kept: PendingDecision, content: dict[str, Any]
    ) -> Generator[Any, Any, tuple[PendingDecision, str, dict[str, Any]]]:
        """Open a slot as far as possible; an early error leaves nothing behind."""
        try:
            opened: tuple[PendingDecision, str, dict[str, Any]] = yield from self._opened(kept, content, waits=True)
        except Exception:
            found = self._outbox.find(kept.task, kept.user, kept.id)
            if found is not None and found.state == DECIDED:
                self._outbox.over(found)
            raise
        return opened

    # Opening a slot

    def _opened(
        self, kept: PendingDecision, content: dict[str, Any], *, waits: bool = False
    ) -> Generator[Effect, Any, tuple[PendingDecision, str, dict[str, Any]]]:
        """Return the decision after each possible step, why it takes no part (empty if open), and the publication.

        With `waits`, no arm was returned yet, so the next publication may be awaited while all batches are full.
        """
        try:
            while kept.state in (DECIDED, OPENING):
                if kept.state == DECIDED:
                    if waits and content["number"] > kept.content["number"]:
                        kept = self._outbox.keep(kept.now(DECIDED, number=content["number"]))
                        continue
                    if content["status"] != "running":
                        return *self._ended(kept, str(content["status"])), content
                    place = self._place(kept, content)
                    if place is None and not waits:
                        ended = self._ended(kept, "full" if content["number"] == kept.content["number"] else "stale")
                        return *ended, content
                    if place is None or place == len(content["batches"]):  # all are full: there will be another one
                        if not waits:
                            break
                        if not (yield Sleep(seconds=0.2)):
                            return *(self._ended(kept, "full") if place is None else (kept, "")), content
                        content = yield from self._published.newest(after=content["number"])
                        continue
                    kept = yield from self._store_zero_reports(kept, content, place)
                    continue  # another process may have been quicker
                answer = yield from self._sent(kept.zero or b"")
                kept, reason = self._placed(kept, answer)
                if reason:
                    return kept, reason, content
        except Unreachable:
            pass
        except NoTicket as error:
            return *self._ended(kept, str(error)), content
        return kept, "", content

    def _place(self, kept: PendingDecision, content: dict[str, Any]) -> int | None:
        """Return the announced batch to try: the first that has not refused, or the one after all of them.

        None if the decision would be older than `max_age` releases by then.
        """
        last = max((*(epoch for epoch, *_ in kept.content["refused"]), *kept.content.get("held", ())), default=-1)
        epochs = [int(each["epoch"]) for each in content["batches"]]
        place = next((place for place, epoch in enumerate(epochs) if epoch > last), len(epochs))
        age = int(content["number"]) - kept.content["number"] + place
        return place if age <= self._task.content["max_age"] else None

    def _store_zero_reports(
        self, kept: PendingDecision, content: dict[str, Any], place: int
    ) -> Generator[Any, Any, PendingDecision]:
        """Get a ticket, draw the zero reports of all rounds, and store them before they are sent."""
        batch = self._device.batch(content, place)
        task = self._task
        key_id, key = choose_seal_key(content["helper"], task_id=task.id, keys=task.content["keys"], mixers=task.mixers)
        if not self._outbox.claim(kept, batch.epoch):  # by another decision of this user: try the next batch
            return self._outbox.keep(kept.now(DECIDED, held=[*kept.content.get("held", ()), batch.epoch]))
        refused = tuple(
            (epoch, decode_base64url(slot), decode_base64url(proof)) for epoch, slot, proof in kept.content["refused"]
        )
        ticket: Ticket = yield GetTicket(epoch=batch.epoch, refused=refused)
        if ticket.epoch != batch.epoch:
            raise NoTicket("ticket")
        slot = ReportSlot(batch=batch, ticket=ticket, key=key)
        bodies = self._device.zeros(content, place, slot, self._source)
        reports = [
            encode_report(ticket, batch, round_=number, version=ZERO, key_id=key_id, body=body)
            for number, body in enumerate(bodies)
        ]
        opening = kept.now(
            OPENING,
            batch=batch.to_dict(),
            slot=encode_base64url(ticket.slot),
            collector=encode_base64url(ticket.collector),
            helper=None if ticket.helper is None else encode_base64url(ticket.helper),
            key=key,
            key_id=key_id,
            round=0,
        )
        return self._outbox.keep(replace(opening, zero=join_reports(reports)))

    def _placed(self, kept: PendingDecision, answer: list[ReportAnswer]) -> tuple[PendingDecision, str]:
        """Store the place in the batch, or the refusal."""
        first = next((each for each in answer if each.reason), answer[0])
        epoch = int(kept.content["batch"]["epoch"])
        if not first.reason:
            found = {"place": first.place, **self._assigned_arm(kept, first.place)}
            return self._outbox.keep(replace(kept.now(OPEN, **found), zero=None)), ""
        if first.reason in ("full", "closed") and first.refusal:  # the slot is not used: another one may be
            refused = [*kept.content["refused"], [epoch, kept.content["slot"], encode_base64url(first.refusal)]]
            return self._outbox.keep(replace(kept.now(DECIDED, refused=refused), zero=None)), ""
        return self._ended(kept, first.reason)

    def _assigned_arm(self, kept: PendingDecision, place: int) -> dict[str, Any]:
        batch = Batch.from_dict(kept.content["batch"])
        if not batch.arms or self._task.arms is None:
            return {}
        ids, seen = self._seen(None)
        return self._played(int(batch.arms_at(np.array([place]))[0]), 0, ids, seen)

    def _ended(self, kept: PendingDecision, reason: str) -> tuple[PendingDecision, str]:
        made = self._outbox.over(kept)
        return made, reason if made.state == OVER else ""

    def _sent(self, content: bytes) -> Generator[Any, Any, list[ReportAnswer]]:
        """Send the same bytes until they are answered; a collector may know a batch later than a device."""
        count, role = _count_reports(content), "shuffler" if self._task.mixers else "analyzer"
        while True:
            url = f"{self._task.collector}/reports"
            headers = {"content-type": "application/octet-stream"}
            status, _, body = yield SendRequest(role=role, method="POST", url=url, content=content, headers=headers)
            answer = parse_answers(status, body, count)
            if not any(each.reason == "early" for each in answer):
                return answer
            if not (yield Sleep(seconds=0.2)):
                raise Unreachable("the batch is not open yet")

    # Reporting

    def report(self, id_: str, reward: Any) -> Generator[Any, Any, Outcome]:
        """Report the reward of a decision once; an error about it is raised after the report was sent or kept."""
        kept = self._outbox.find(self._task.id, self._user, id_)
        if kept is None:
            raise InvalidStatistic("decision", id_, "one of this session's user that takes part, from this outbox")
        if kept.state == OVER:
            return Outcome(reason=OVER)
        number, wrong = _parse_reward(reward)
        while kept.reward is None and kept.state != OVER:
            kept = self._outbox.keep(replace(kept, reward=number))  # or what another process stored
        if wrong is None and kept.reward not in (None, number):
            wrong = InvalidStatistic("reward", number, "the one that was reported before: a decision has one")
        if kept.state in (DECIDED, OPENING):  # `act` and `flush` open slots: who answers must not be who takes part
            outcome = Outcome(pending=True)
        elif kept.state == OPEN and kept.content["round"]:  # `flush` answers later rounds
            outcome = Outcome(kept=True, pending=True)
        else:  # only the collector learns who reports: no other request is sent
            outcome, error = yield from self._deliver(kept, self._published.seen())
            wrong = wrong or error
        if wrong is not None:
            raise wrong
        return outcome

    def _deliver(
        self, kept: PendingDecision, content: dict[str, Any] | None
    ) -> Generator[Any, Any, tuple[Outcome, BandannaError | None]]:
        """Send the possible reports by this publication, and return why one is a report of zeros."""
        wrong: BandannaError | None = None
        if kept.state == OPEN and content is not None:
            if self._is_passed(kept, content):
                self._outbox.over(kept)
                return Outcome(reason="closed"), None
            kept, wrong = self._drawn(kept, content)
        if kept.state != ANSWERED:
            return (Outcome(reason=OVER) if kept.state == OVER else Outcome(pending=True)), wrong
        try:
            answer = yield from self._sent(kept.final or b"")
        except Unreachable:
            return Outcome(pending=True), wrong
        return self._acknowledge(kept, answer[0]), wrong

    def _is_passed(self, kept: PendingDecision, content: dict[str, Any]) -> bool:
        return int(content["epoch"]) > int(kept.content["batch"]["epoch"])

    def _drawn(self, kept: PendingDecision, content: dict[str, Any]) -> tuple[PendingDecision, BandannaError | None]:
        """Draw and store the final report of the awaited round; for other rounds, change nothing."""
        held, batch = kept.content, Batch.from_dict(kept.content["batch"])
        number = int(held["round"])
        if number and (int(content["epoch"]), int(content["round"])) != (batch.epoch, number):
            return kept, None
        assert kept.reward is not None
        helper = None if held["helper"] is None else decode_base64url(held["helper"])
        ticket = Ticket(
            slot=decode_base64url(held["slot"]),
            epoch=batch.epoch,
            collector=decode_base64url(held["collector"]),
            helper=helper,
        )
        slot = ReportSlot(batch=batch, ticket=ticket, key=held["key"])
        given = PlayedArm(features=tuple(held.get("features", ())), arm=held.get("arm", -1), group=held.get("group", 0))
        reward = kept.reward
        body, error = self._device.final(content, number, slot, given, reward, self._source, self._coins)
        report = encode_report(ticket, batch, round_=number, version=FINAL, key_id=held["key_id"], body=body)
        wrong = None if error is None else BandannaError(_NOTHING_REPORTED)
        return self._outbox.keep(replace(kept.now(ANSWERED), final=join_reports([report]))), wrong

    def _acknowledge(self, kept: PendingDecision, answer: ReportAnswer) -> Outcome:
        if answer.reason:
            self._outbox.over(kept)
            return Outcome(reason=answer.reason)
        rounds = len(kept.content["batch"]["rounds"])
        if kept.content["round"] + 1 < rounds:  # the same users report again
            self._outbox.keep(replace(kept.now(OPEN, round=kept.content["round"] + 1), final=None))
            return Outcome(kept=True, pending=True)
        self._outbox.over(kept)
        return Outcome(kept=True)

    def flush(self) -> Generator[Any, Any, int]:
        """Send all pending reports, delete finished decisions, and return how many still wait.

        The newest publication is requested once, in any case.
        """
        errors: list[Exception] = []
        with contextlib.suppress(Unreachable):
            content = yield from self._published.newest()
            self._forget(content)
            for kept in self._outbox.waiting(self._task.id, self._user):
                try:
                    wrong: Exception | None = None
                    if kept.state in (DECIDED, OPENING):
                        kept, _, _ = yield from self._opened(kept, content)
                    if kept.state in (OPEN, ANSWERED) and kept.reward is not None:
                        _, wrong = yield from self._deliver(kept, content)
                except Exception as error:  # one failing decision does not stop the others
                    wrong = error
                errors += [wrong] if wrong is not None else []
        if errors:
            raise errors[0]
        return self.pending

    def forget(self) -> None:
        """Forget decisions without a reward whose batch is over, or that are too old."""
        content = self._published.seen()
        if content is not None:
            self._forget(content)

    def _forget(self, content: dict[str, Any]) -> None:
        for kept in self._outbox.waiting(self._task.id, self._user):
            unopened = kept.state in (DECIDED, OPENING)
            if unopened or (kept.state == OPEN and kept.reward is None):
                old = abs(_today() - int(kept.content["day"])) > _MAX_DAYS
                if old or (not unopened and self._is_passed(kept, content)):
                    self._outbox.over(kept)

    @property
    def pending(self) -> int:
        waiting = self._outbox.waiting(self._task.id, self._user)
        return sum(kept.state != OPEN or kept.reward is not None for kept in waiting)

    @property
    def decisions(self) -> list[ClientDecision]:
        waiting = self._outbox.waiting(self._task.id, self._user)
        return [
            ClientDecision(id=kept.id, arm=held["name"], action=int(held["arm"]), publication=int(held["number"]))
            for kept in waiting
            if kept.reward is None and "arm" in (held := kept.content)
        ]


def _today() -> int:
    return int(time.time() // _DAY)


def _parse_reward(reward: Any) -> tuple[float, BandannaError | None]:
    """Return a reward as a number; or infinity, for which nothing is reported, and an error."""
    given = float(reward) if isinstance(reward, bool | np.bool_) else reward
    try:
        return validation.finite("reward", given, "a finite number: nothing is reported", error=InvalidStatistic), None
    except BandannaError as error:
        return math.inf, error


def _count_reports(request: bytes) -> int:
    place, count = 0, 0
    while place < len(request):
        place, count = place + 4 + int.from_bytes(request[place : place + 4], "little"), count + 1
    return count
