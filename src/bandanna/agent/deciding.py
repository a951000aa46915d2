"""Freeze and collect, one device at a time: the path of `act`, which takes as few steps as it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bandanna.agent.choices import Chosen, alike
from bandanna.agent.decisions import Decision
from bandanna.agent.plan import Batch, following
from bandanna.agent.release import TASK
from bandanna.agent.releasing import Releasing
from bandanna.agent.slots import Slot
from bandanna.agent.users import admit
from bandanna.core.arrays import Floats
from bandanna.errors import BandannaError, HorizonReached
from bandanna.policies.base import Until


class Deciding(Releasing):
    """The part of the loop that decides for a user and records it."""

    def decide_one(self, one: tuple[Sequence[Any], Floats], user: str | None) -> Decision:
        """`decide` for one user."""
        self._room_for(1)
        seen = self.policy.seen(one[1][None])
        self._admit((user,), ("user",))
        self.settled = False
        batch = self._running()
        (chosen,) = alike(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decision = self._record(one, user, chosen)
        self.settled = True
        return decision

    def _running(self) -> Batch:
        """The episode of the snapshot in force, after those that were due before this call are closed."""
        self.before = self.made
        if self.at_once:
            self._close(self.grace)
        if self.now.batch is None:
            self.settled = True
            raise HorizonReached("decisions", self.made + 1, f"at most {self.made}: the policy has no more episodes")
        return self.now.batch

    def _admit(self, users: Sequence[str | None], names: Sequence[str]) -> None:
        """Refuse users who have come too often, or without an id where they must be counted."""
        if self.ledger is None or (self.now.batch is not None and self.now.batch.clients is not None):
            return
        participations = self.policy.privacy.participations
        if participations > 1 or users.count(None) < len(users):  # somebody can be refused
            admit(users, names=names, made=self.made, batches=self._coming(), slots=self.slots,
                  store=self.journals, task=TASK, participations=participations)  # fmt: skip

    def _coming(self) -> Iterator[Batch]:
        """The episodes of the next decisions, as far as they are known."""
        batch = self.filling
        while batch is not None:
            yield batch
            batch = following(self.policy, batch)

    def _room_for(self, count: int) -> None:
        if self.over:
            raise BandannaError("the agent is closed: it makes no more decisions; recommend(...) still answers")
        horizon, rounds = self.policy.horizon, self.made - self.beside + count
        if horizon is not None and rounds > horizon:
            allowed = f"at most {horizon}, the policy's horizon; nothing was recorded, and recommend(...) still answers"
            raise HorizonReached("decisions", rounds, allowed)

    def _record(self, one: tuple[Sequence[Any], Floats], user: str | None, chosen: Chosen) -> Decision:
        """What was chosen is decided: it has a slot, unless its episode is not known yet."""
        (ids, features), (action, chance, group) = one, chosen
        batch, number, session = self.filling, self.made, self.session
        if batch is None:
            self.beside += 1
        elif batch.clients is None:
            slot = Slot(batch=batch.number, session=session, features=features[action].copy(), arm=action,
                        group=group, user=user)  # fmt: skip
            self.slots.record(number, slot)
        episode = self.now.batch if batch is None else batch
        assert episode is not None
        decision = Decision.made(self.ids.issue(number, session), ids[action], chance, episode.number)
        self.made = number + 1
        if batch is not None and (batch.end <= self.made or isinstance(batch.episode, Until)):
            self._go_forward(batch, features[action])
        return decision

    def _go_forward(self, batch: Batch, features: Floats) -> None:
        """After a decision, with these features, that may be the last of an episode."""
        if isinstance(batch.episode, Until):
            state, ended = self._pass(self.now.state, features)
            batch = replace(batch, users=self.made - batch.begin) if ended else batch
            self.now = replace(self.now, state=state, batch=batch, ended=ended)
        if batch.end <= self.made:
            self.filling = following(self.policy, batch)
