"""What happened, as bodies of records: rows for a trusted server, else protected reports, split or sealed as needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.core.coins import Coins
from bandanna.errors import BandannaError
from bandanna.loop import Desk
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Played
from bandanna.tasks.batches import sends_rows
from bandanna.tasks.document import Task
from bandanna.wire.answers import Ticket
from bandanna.wire.bodies import body_of
from bandanna.wire.plan import Batch


class Reporter:
    """Makes the bodies of some users' records; every call draws fresh noise, so bytes are kept until acknowledged."""

    def __init__(self, task: Task, batch: Batch, *, key_id: int = 0, seal_key: str | None = None) -> None:
        self._task, self.batch, self.key_id = task, batch, key_id
        self._seal_key = seal_key

    def final(
        self,
        round_: int,
        asks: Sequence[Ask],
        played: Played,
        tickets: Sequence[Ticket],
        source: NoiseSource,
        coins: Coins,
    ) -> list[bytes]:
        """Of users with these rows and tickets, in the order of their places where arms are assigned."""
        wanted, users = self.batch.rounds[round_], len(tickets)
        if self._of_rows(round_):
            return [wanted.parts[0].to_bytes(row) for row in self._rows(played, wanted.parts[0].length)]
        told: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(users)]  # messages of each user
        for part, ask in zip(wanted.parts, asks, strict=True):
            own = np.arange(users) if part.arm is None else np.flatnonzero(played.arms == part.arm)
            if not len(own):
                continue
            statistic = self._task.policy.report(ask, Desk().rows(ask, played), coins)
            for place, row in zip(own.tolist(), ask.protocol.device.report(statistic, source), strict=True):
                told[place].append(row)
        return [self._body(round_, rows, ticket) for rows, ticket in zip(told, tickets, strict=True)]

    def zero(self, round_: int, asks: Sequence[Ask], ticket: Ticket, source: NoiseSource) -> bytes:
        """Of somebody who has not answered (yet): noised in full, so that nobody can tell."""
        wanted = self.batch.rounds[round_]
        if self._of_rows(round_):
            return wanted.parts[0].to_bytes(np.zeros(wanted.parts[0].length))
        told = [ask.protocol.device.zero(source)[0] for ask in asks[: len(wanted.own)]]  # the same whatever the arm
        return self._body(round_, told, ticket)

    def _of_rows(self, round_: int) -> bool:
        """Whether a round is of rows; refused unless the task's server is trusted with them, whatever was announced."""
        rows = self.batch.rounds[round_].parts[0].form == "row"
        if rows and not sends_rows(self._task.policy):
            raise BandannaError(f"batch {self.batch.epoch} is of rows, and the task trusts nobody with them")
        return rows

    def _rows(self, played: Played, length: int) -> np.ndarray[Any, Any]:
        """Features, rewards, arm, group, and 1 for an answer."""
        users = len(played.rewards)
        rewards = played.rewards.reshape(users, -1)
        rows = np.zeros((users, length))
        dim = length - rewards.shape[1] - 3
        if played.features is not None:
            rows[:, :dim] = played.features[:, :dim]
        rows[:, dim:-3] = rewards
        rows[:, -3] = 0 if played.arms is None else played.arms
        rows[:, -2] = 0 if played.groups is None else np.maximum(played.groups, 0)
        rows[:, -1] = 1.0
        return rows

    def _body(self, round_: int, told: Sequence[np.ndarray[Any, Any]], ticket: Ticket) -> bytes:
        return body_of(told, task=self._task.digest, batch=self.batch, round_=round_, ticket=ticket, key=self._seal_key)
