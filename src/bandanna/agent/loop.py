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
from bandanna.policies.base import Assigned, Until


class Loop(Deciding):
    """All of it: decisions for many at once, rewards, and the clients of episodes that ask a few."""

    def decide(self, sets: Sets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, then decide for one user after the other, closing episodes on the way."""
        count = len(users)
        self._room_for(count)
        seen = self._seen(sets)
        self._admit(users, names)
        self.settled = False
        decisions: list[Decision] = []
        while len(decisions) < count:
            batch = self._running()
            done = slice(len(decisions), len(decisions) + self._together(count - len(decisions)))
            chosen = choices(self.policy, self.now.snapshot, batch, seen[done], number=self.made, seed=self.seed)
            decisions += map(self._record, sets[done], users[done], chosen)
        self.settled = True
        return decisions

    def _seen(self, sets: Sets) -> list[Floats]:
        """Features as the policy takes them, (1, K, d) for each user; it refuses what it cannot take."""
        seen: list[Floats] = []
        for place, (_, features) in enumerate(sets):
            again = place > 0 and features is sets[place - 1][1]  # arms that stay
            seen.append(seen[-1] if again else self.policy.seen(features[None]))
        return seen

    def _together(self, left: int) -> int:
        """How many decisions may be made before an episode has to be closed, or public numbers looked at."""
        batch = self.now.batch
        assert batch is not None
        if isinstance(batch.episode, Until) and not self.now.ended:
            return 1
        return batch.end + self.grace - self.made if self.at_once and batch.episode.released else left

    def answer(self, number: int, session: str, reward: float) -> bool:
        """A reward: kept, or late."""
        kept = not self.over and self.slots.answer(number, session, reward)
        self.late += not kept
        return kept

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
