"""Freeze, collect, release, learn - decision by decision: what an agent does, without files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandanna.agent.choices import choices
from bandanna.agent.deciding import Deciding
from bandanna.agent.decisions import Decision
from bandanna.agent.release import TASK
from bandanna.agent.users import admit
from bandanna.core.arm_sets import Sets
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Assigned


class Loop(Deciding):
    """All of it: decisions for many at once, rewards, and the clients of episodes that ask a few."""

    def decide(self, sets: Sets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, close the episodes that are due, then decide for all users by one snapshot.

        The rewards of this call cannot be there yet. So an episode that fills in it stays open until the next call.
        """
        self._room_for(len(users))
        if not users:
            return []
        seen = self._seen(sets)
        self._admit(users, names)
        self.settled = False
        batch = self._running()
        chosen = choices(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decisions = list(map(self._record, sets, users, chosen))
        self.settled = True
        return decisions

    def _seen(self, sets: Sets) -> list[Floats]:
        """Features as the policy takes them, (1, K, d) for each user; it refuses what it cannot take."""
        seen: list[Floats] = []
        for place, (_, features) in enumerate(sets):
            again = place > 0 and features is sets[place - 1][1]  # arms that stay
            seen.append(seen[-1] if again else self.policy.seen(features[None]))
        return seen

    def answer(self, number: int, session: str, reward: float) -> bool:
        """A reward: kept, or late."""
        slot = None if self.over else self.slots.unanswered(number, session, "decision id")
        if slot is None:
            self.late += 1
            return False
        slot.reward = reward
        return True

    def answer_many(
        self, decisions: Sequence[tuple[int, str]], rewards: Sequence[float], names: Sequence[str]
    ) -> list[bool]:
        """Rewards of several decisions, numbers and sessions: which were kept. All are checked first."""
        if len(places := {decision: place for place, decision in enumerate(decisions)}) < len(decisions):
            twice = next(place for place, decision in enumerate(decisions) if places[decision] != place)
            raise InvalidArgument(names[twice], "a decision that is there twice", "each decision once")
        slots = [
            None if self.over else self.slots.unanswered(*decision, name)
            for decision, name in zip(decisions, names, strict=True)
        ]
        for slot, reward in zip(slots, rewards, strict=True):
            if slot is not None:
                slot.reward = reward
        self.late += slots.count(None)
        return [slot is not None for slot in slots]

    def recruit(self, user: str | None, name: str) -> int | None:
        """A client of the running episode: its place, or None if there are enough."""
        batch = self.now.batch
        if self.over or batch is None or batch.clients is None or len(self.clients) >= batch.clients:
            return None
        assert isinstance(batch.episode, Assigned)
        if self.ledger is not None:
            admit([user], names=[name], made=self.made, batches=iter([replace(batch, begin=self.made, users=1)]),
                  slots=self.slots, store=self.journals, task=TASK, participations=self.policy.privacy.participations,
                  present=self.clients.users())  # fmt: skip
        return self.clients.join(len(batch.episode.arms), self.session, user)

    def client_answer(self, client: tuple[int, int, str], number: int, reward: float) -> bool:
        """A client's reward of a round: kept, or late."""
        batch, (episode, place, session) = self.now.batch, client
        kept = False
        inside = batch is not None and batch.begin <= number < min(batch.end, self.made)
        if not self.over and batch is not None and inside and episode == self.clients.episode == batch.number:
            assert isinstance(batch.episode, Assigned)
            arm = int(batch.episode.arms_at(np.array([number - batch.begin]))[0])
            where = int(np.flatnonzero(batch.episode.arms == arm)[0])
            kept = self.clients.answer(place, session, number, where, reward)
        self.late += not kept
        return kept
