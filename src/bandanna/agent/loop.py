"""Freeze, collect, release, learn - decision by decision: what an agent does, without locks and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bandanna.accounting.ledger import Ledger
from bandanna.accounting.stores.journals import Journals
from bandanna.agent.contexts import Floats
from bandanna.agent.decisions import Decision, issue
from bandanna.agent.plan import Batch, Plan
from bandanna.agent.progress import Progress
from bandanna.agent.releases import TASK, affordable, calibrated, calibrations, choose, noise_for, recalibrate
from bandanna.agent.schema import check_calibrations, check_note, check_source, check_state, demand
from bandanna.agent.slots import Slot, Slots
from bandanna.agent.users import admit
from bandanna.core.domain import Statistic
from bandanna.errors import BandannaError, InvalidArgument

Sets = list[tuple[Sequence[Any], Floats]]  # ids and features (K, d), one for each user


class Loop:
    """The state of an agent. `PLAIN` are the attributes that a save holds as they are.

    A signal may raise between any two lines. What is true then: the decisions made have slots, and what the journals
    hold is released. `settle` derives the rest from that.
    """

    PLAIN = "made", "filling", "late", "over"

    def __init__(self, policy: Any, grace: int, seed: int | None, secret: bytes, session: str) -> None:
        self.policy = policy  # LinUCB or Anytime, whose states differ
        self.grace, self.secret, self.session = grace, secret, session
        self.seed, (self.source, self.rng) = seed, noise_for(policy, seed)
        self.plan, self.slots = Plan(policy), Slots(policy.dim)
        self.made = self.filling = 0  # decisions; the batch of the next one
        self.late = 0
        self.over = False
        self.noted = 0  # phases whose calibration all journals have
        self.settled = True  # False from the first change of a call to its last
        self.published = self.policy.publish(self.policy.init(()))  # state and snapshot
        state, snapshot = self.published
        self.progress = Progress(state=state, snapshot=snapshot, source=self.randomness())

    def open_ledger(self, journals: Journals) -> None:
        """Where something is promised, every release goes through a ledger over the journals."""
        privacy = self.policy.privacy
        self.journals, self.ledger = journals, None
        if privacy.noisy:
            self.ledger = Ledger(budget=privacy.budget, participations=privacy.participations, store=journals)
            affordable(self.policy, self.ledger)

    def decide(self, sets: Sets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, then decide for one user after the other, closing batches on the way."""
        self._room_for(len(sets))
        if self.ledger is not None:
            admit(users, names=names, made=self.made, filling=self.filling, plan=self.plan, slots=self.slots,
                  store=self.journals, task=TASK, participations=self.ledger.participations)  # fmt: skip
        self.settled = False
        decisions: list[Decision] = []
        while len(decisions) < len(sets):
            self._close(lambda batch: batch.end + self.grace <= self.made)
            due = self.plan.batch(self.progress.closed)
            assert due is not None
            count = due.end + self.grace - self.made if due.released else len(sets)
            chunk = slice(len(decisions), len(decisions) + count)
            decisions += self._record(sets[chunk], users[chunk])
        self.settled = True
        return decisions

    def _room_for(self, count: int) -> None:
        if self.over:
            raise BandannaError("the agent is closed: it makes no more decisions; recommend(...) still answers")
        horizon = self.policy.horizon
        if horizon is not None and self.made + count > horizon:
            allowed = f"at most {horizon}, the policy's horizon; nothing was recorded, and recommend(...) still answers"
            raise InvalidArgument("decisions", self.made + count, allowed)

    def _record(self, sets: Sets, users: Sequence[str | None]) -> list[Decision]:
        """Decide with the snapshot in force; every decision has a slot."""
        arms = [features for _, features in sets]
        chosen = choose(self.policy, self.progress.snapshot, arms, seed=self.seed, number=self.made)
        decisions = []
        for (ids, features), user, (action, probability) in zip(sets, users, chosen, strict=True):
            batch = self.plan.batch(self.filling)
            assert batch is not None
            slot = Slot(batch=batch.number, session=self.session, features=features[action].copy(), user=user)
            self.slots.record(self.made, slot)
            name = issue(self.secret, self.made, self.session)
            decisions.append(Decision(id=name, arm=ids[action], probability=probability, episode=batch.number))
            self.made += 1
            self.filling += self.made == batch.end
        return decisions

    def answer(self, number: int, session: str, reward: float) -> bool:
        """A reward: kept, or late."""
        kept = not self.over and self.slots.answer(number, session, reward)
        self.late += not kept
        return kept

    def close(self) -> None:
        """Release the complete batches, and no more decisions."""
        self.settled = False
        self._close(lambda batch: batch.end <= self.made)
        self.over = self.settled = True

    def _close(self, due: Callable[[Batch], bool]) -> None:
        """Release the batches that are due, in order."""
        while (batch := self.plan.batch(self.progress.closed)) is not None and batch.released and due(batch):
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        """Close one batch: all or nothing. A failure leaves it open, and nothing was spent or shown."""
        features, rewards, missing = self.slots.reports(batch)
        statistic = self.policy.statistic(features, rewards)

        def draw() -> Any:
            note = self._drawn(statistic, missing)
            self.journals.advance(self.notes(note, known=self.noted))
            return note["state"].running.estimate

        if self.ledger is None:
            note = self._drawn(statistic, missing)
        else:
            people = self.slots.members(batch)
            self.ledger.release(batch.event, task=TASK, batch=batch.number, data=statistic, draw=draw, members=people,
                                streams=batch.streams)  # fmt: skip
            self.noted = calibrated(self.policy)
            note = self.journals.state()
        self._go_on(note)
        self.slots.drop(batch)

    def _drawn(self, statistic: Statistic, missing: int) -> dict[str, Any]:
        """What follows from a batch, with its noise: to be noted before anybody sees it."""
        before = self.progress
        learned = self.policy.learn(before.state, statistic, self.source, path="messages")
        self.published = self.policy.publish(learned)
        return {
            "state": self.published[0],
            "source": self.randomness(),
            "closed": before.closed + 1,
            "missing": before.missing + missing,
            "clipped": before.clipped + int(statistic.clipped),
        }

    def _go_on(self, note: Mapping[str, Any]) -> None:
        """From what was noted with a release, or saved."""
        if note["state"] is not self.published[0]:
            self.published = note["state"], self.policy.publish(note["state"])[1]
        self.progress = Progress.read(note, snapshot=self.published[1])

    def settle(self) -> None:
        """After a call that was interrupted, go on from what the journals and the slots say; else do nothing."""
        if self.settled:
            return
        if self.ledger is not None:
            self.journals.settle()
            if self.journals.find(TASK, str(self.progress.closed)) is not None:  # released, and not known here
                self._go_on(self.journals.state())
        self._tidy()
        self.settled = True

    def _tidy(self) -> None:
        """What follows from the batches closed and the decisions made: open slots, the batch that is filling, noise."""
        last = self.plan.batch(self.progress.closed - 1) if self.progress.closed else None
        begin = 0 if last is None else last.end
        self.made = max(self.made, begin)  # more than a save knows, if they were released after it
        self.slots = self.slots.between(begin, self.made)
        self.filling = self.progress.closed
        while (batch := self.plan.batch(self.filling)) is not None and batch.end <= self.made:
            self.filling += 1
        self.noted = 0
        if self.rng is not None:
            self.rng.bit_generator.state = self.progress.source  # nobody has seen what was drawn since

    def check_counts(self, closed: int) -> None:
        """Every decision of the open batches has its slot, and no other one has."""
        filling = self.plan.batch(self.filling)
        inside = self.made == self.policy.horizon if filling is None else filling.begin <= self.made < filling.end
        demand(inside, "another number of decisions than the batch that is filling has")
        batches = [batch for number in range(closed, self.filling + 1) if (batch := self.plan.batch(number))]
        expected = [
            (number, batch.number) for batch in batches for number in range(batch.begin, min(batch.end, self.made))
        ]
        demand(self.slots.places() == expected, "slots of other decisions than the open ones")

    def notes(self, note: Mapping[str, Any], known: int = 0) -> dict[str, Any]:
        """What a journal must know to go on; calibrations if there are more phases than it knows."""
        notes: dict[str, Any] = {"state": note}
        return notes | ({"calibrations": calibrations(self.policy)} if calibrated(self.policy) > known else {})

    def resume(self, saved: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
        """Go on from a save, or from the newest release that was noted since."""
        newest = saved if self.ledger is None else self._newest(saved, notes)
        if self.rng is not None:
            check_source(newest["source"])
        self._go_on(newest)
        self._tidy()

    def _newest(self, saved: Mapping[str, Any], notes: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was released after the save counts, if it was by the noise that the policy has."""
        phases = notes.get("calibrations") or {}
        check_calibrations(self.policy, phases)
        recalibrate(self.policy, phases)
        entries = [entry for entry in self.journals.entries() if entry.task == TASK]
        if len(entries) < saved["closed"]:
            raise BandannaError("the journal is older than the save: it lacks releases")
        for number, entry in enumerate(entries):
            batch = self.plan.batch(number)
            if batch is None or not batch.released or (str(number), batch.event) != (entry.batch, entry.event):
                raise BandannaError(
                    f"batch {entry.batch} in the journal was released with other noise than the save's policy has: "
                    "half a stream of one noise and half of another has no price"
                )
            demand(entry.release is not None and len(entry.members) == batch.users, "a batch without its members")
        if len(entries) == saved["closed"]:
            return saved
        check_note(notes["state"])
        newest = {**saved, **notes["state"], "closed": len(entries)}  # a note of before they were noted has no counts
        check_state(self.policy, phases, newest["state"], newest["closed"])
        return newest

    def randomness(self) -> Any:
        """Where the seeded generator is; None for secure noise."""
        return None if self.rng is None else self.rng.bit_generator.state
