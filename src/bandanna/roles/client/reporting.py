"""What happened, as bodies of records: rows for a trusted server, else protected reports, split or sealed as needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.coins import Coins
from bandanna.device import Messages
from bandanna.loop import Desk
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Played
from bandanna.tasks.document import Task
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
        slots: Sequence[bytes],
        source: NoiseSource,
        coins: Coins,
    ) -> list[bytes]:
        """Of users with these rows and slots, in the order of their places where arms are assigned."""
        wanted, users = self.batch.rounds[round_], len(slots)
        if wanted.parts[0].form == "row":
            return [wanted.parts[0].to_bytes(row) for row in self._rows(played, wanted.parts[0].length)]
        bodies = [b""] * users
        for number, (part, ask) in enumerate(zip(wanted.parts, asks, strict=True)):
            own = np.arange(users) if part.arm is None else np.flatnonzero(played.arms == part.arm)
            if not len(own):
                continue
            statistic = self._task.policy.report(ask, Desk().rows(ask, played), coins)
            messages = ask.protocol.device.message(statistic, source)
            for place, body in zip(own.tolist(), self._bodies(round_, number, messages, slots, own), strict=True):
                bodies[place] += body
        return bodies

    def zero(self, round_: int, asks: Sequence[Ask], slot: bytes, source: NoiseSource) -> bytes:
        """Of somebody who has not answered (yet): noised in full, so that nobody can tell."""
        wanted = self.batch.rounds[round_]
        if wanted.parts[0].form == "row":
            return wanted.parts[0].to_bytes(np.zeros(wanted.parts[0].length))
        if wanted.by_arm:  # whose noise is the same whatever the arm
            wanted, asks = type(wanted)(parts=wanted.parts[:1]), asks[:1]
        parts = [
            self._bodies(round_, number, ask.protocol.device.zero(source), [slot], np.zeros(1, dtype=np.int64))[0]
            for number, ask in enumerate(asks)
        ]
        return b"".join(parts)

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

    def _bodies(self, round_: int, number: int, messages: Messages, slots: Sequence[bytes], own: Ints) -> list[bytes]:
        parts: dict[str, Any] = {"task": self._task.digest, "batch": self.batch, "key": self._seal_key}
        return [
            body_of(row, round_=round_, part=number, slot=slots[place], **parts)
            for row, place in zip(messages, own, strict=True)
        ]
