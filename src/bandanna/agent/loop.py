"""Freeze, collect, release, learn - decision by decision: what an agent does, without locks and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bandanna.accounting.ledger import Ledger
from bandanna.accounting.stores.journals import Journals
from bandanna.agent.contexts import Floats
from bandanna.agent.decisions import Decision, issue
from bandanna.agent.plan import Batch, Plan
from bandanna.agent.releases import TASK, affordable, calibrated, calibrations, choose, noise_for, recalibrate
from bandanna.agent.schema import check_calibrations, check_state, demand
from bandanna.agent.slots import Slot, Slots
from bandanna.agent.users import admit
from bandanna.errors import BandannaError, InvalidArgument

Sets = list[tuple[Sequence[Any], Floats]]  # ids and features (K, d), one for each user


class Loop:
    """The state of an agent. `PLAIN` are the attributes that a save holds as they are."""

    PLAIN = "state", "made", "filling", "closed", "late", "missing", "clipped", "over"

    def __init__(self, policy: Any, grace: int, seed: int | None, secret: bytes, session: str) -> None:
        self.policy = policy  # LinUCB or Anytime, whose states differ
        self.grace, self.secret, self.session = grace, secret, session
        self.source, self.rng = noise_for(policy, seed)
        self.plan, self.slots = Plan(policy), Slots(policy.dim)
        self.made = self.filling = self.closed = 0  # decisions; the batch of the next one; batches closed
        self.late = self.missing = self.clipped = 0
        self.over = False
        self.noted = 0  # phases whose calibration all journals have
        self.state, self.snapshot = self.policy.publish(self.policy.init(()))

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
        decisions: list[Decision] = []
        while len(decisions) < len(sets):
            self.close(lambda batch: batch.end + self.grace <= self.made)
            due = self.plan.batch(self.closed)
            assert due is not None
            count = due.end + self.grace - self.made if due.released else len(sets)
            chunk = slice(len(decisions), len(decisions) + count)
            decisions += self._record(sets[chunk], users[chunk])
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
        chosen = choose(self.policy, self.snapshot, [features for _, features in sets])
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

    def close(self, due: Callable[[Batch], bool]) -> None:
        """Release the batches that are due, in order."""
        while (batch := self.plan.batch(self.closed)) is not None and batch.released and due(batch):
            self._release(batch)

    def _release(self, batch: Batch) -> None:
        """Close one batch: all or nothing. A failure leaves it open, and nothing was spent or shown."""
        features, rewards, missing = self.slots.reports(batch)
        statistic = self.policy.statistic(features, rewards)
        after: list[tuple[Any, Any]] = []

        def draw() -> Any:
            learned = self.policy.learn(self.state, statistic, self.source, path="messages")
            after.append(self.policy.publish(learned))
            self.journals.advance(self.notes(after[0][0], known=self.noted))
            return after[0][0].running.estimate

        if self.ledger is None:
            draw()
        else:
            people = self.slots.members(batch)
            self.ledger.release(batch.event, task=TASK, batch=batch.number, data=statistic, draw=draw, members=people,
                                streams=batch.streams)  # fmt: skip
            self.noted = calibrated(self.policy)
        self.state, self.snapshot = after[0]
        self.closed += 1
        self.slots.drop(batch)
        self.missing += missing
        self.clipped += int(statistic.clipped)

    def skip(self) -> None:
        """A batch that was released after the save: its slots are closed, its decisions made."""
        batch = self.plan.batch(self.closed)
        assert batch is not None
        self.slots.drop(batch)
        self.closed += 1
        self.made = max(self.made, batch.end)
        self.filling = max(self.filling, batch.number + 1)

    def check_counts(self) -> None:
        """Every decision of the open batches has its slot, and no other one has."""
        filling = self.plan.batch(self.filling)
        inside = self.made == self.policy.horizon if filling is None else filling.begin <= self.made < filling.end
        demand(inside, "another number of decisions than the batch that is filling has")
        batches = [batch for number in range(self.closed, self.filling + 1) if (batch := self.plan.batch(number))]
        expected = [
            (number, batch.number) for batch in batches for number in range(batch.begin, min(batch.end, self.made))
        ]
        demand(self.slots.places() == expected, "slots of other decisions than the open ones")

    def notes(self, state: Any, known: int = 0) -> dict[str, Any]:
        """What a journal must know to go on from a state; calibrations if there are more phases than it knows."""
        notes: dict[str, Any] = {"state": {"state": state, "source": self.randomness()}}
        return notes | ({"calibrations": calibrations(self.policy)} if calibrated(self.policy) > known else {})

    def resume(self, notes: dict[str, Any]) -> dict[str, Any]:
        """Skip what was released after the save, by the noise with which it was; the newest state, if there is one."""
        phases = notes.get("calibrations") or {}
        check_calibrations(self.policy, phases)
        recalibrate(self.policy, phases)
        entries = [entry for entry in self.journals.entries() if entry.task == TASK]
        if len(entries) < self.closed:
            raise BandannaError("the journal is older than the save: it lacks releases")
        for number, entry in enumerate(entries):
            batch = self.plan.batch(number)
            if batch is None or not batch.released or (str(number), batch.event) != (entry.batch, entry.event):
                raise BandannaError(
                    f"batch {entry.batch} in the journal was released with other noise than the save's policy has: "
                    "half a stream of one noise and half of another has no price"
                )
            demand(entry.release is not None and len(entry.members) == batch.users, "a batch without its members")
        newest = {} if len(entries) == self.closed else self._newest(phases, notes["state"], len(entries))
        while self.closed < len(entries):
            self.skip()
        return newest

    def _newest(self, phases: dict[int, Any], noted: Any, closed: int) -> dict[str, Any]:
        demand(isinstance(noted, dict) and set(noted) == {"state", "source"}, "a journal without its state")
        check_state(self.policy, phases, noted["state"], closed)
        return dict(noted)

    def randomness(self) -> Any:
        """Where the seeded generator is; None for secure noise."""
        return None if self.rng is None else self.rng.bit_generator.state
