"""Slots: every decision of an open batch has one, with or without a reward; who answered decides nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.agent.plan import Batch
from bandanna.errors import InvalidArgument

Floats = NDArray[np.float64]

_RUN = re.compile(r"slots ([0-9]{1,16})-([0-9]{1,16})", re.ASCII)


@dataclass(kw_only=True, slots=True)
class Slot:
    """One decision: features of the chosen arm, the reward once it is there, the hashed user if one was named."""

    batch: int
    session: str
    features: Floats  # (d,)
    user: str | None
    reward: float | None = None


def seats(member: str) -> int:
    """How many slots of its batch a member stands for; in older journals each slot without a user stands alone."""
    run = _RUN.fullmatch(member)
    return int(run[2]) - int(run[1]) + 1 if run else 1


class Slots:
    """The slots of all open batches, by the number of the decision."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._slots: dict[int, Slot] = {}
        self._present: dict[int, set[str]] = {}  # the hashed users of each open batch
        self.people: Counter[str] = Counter()  # in how many open batches each user is

    def record(self, number: int, slot: Slot) -> None:
        """A decision was made."""
        self._slots[number] = slot
        if slot.user is not None:
            self._present.setdefault(slot.batch, set()).add(slot.user)
            self.people[slot.user] += 1

    def answer(self, number: int, session: str, reward: float) -> bool:
        """Keep a reward, once; False if the decision has no open slot."""
        slot = self._slots.get(number)
        if slot is None or slot.session != session:
            return False
        if slot.reward is not None:
            raise InvalidArgument(
                "decision id", f"decision {number}", "one that has no reward yet; the first one stands"
            )
        slot.reward = reward
        return True

    def reports(self, batch: Batch) -> tuple[Floats, Floats, int]:
        """Features (users, d) and rewards (users,) of a batch, zero in slots without a reward, and how many those are.

        Features of 0 and a reward of 0 make the all-zero report: a point of the domain like any other, noised in full.
        """
        features, rewards, missing = np.zeros((batch.users, self._dim)), np.zeros(batch.users), 0
        for row, number in enumerate(range(batch.begin, batch.end)):
            slot = self._slots[number]
            if slot.reward is None:
                missing += 1
            else:
                features[row], rewards[row] = slot.features, slot.reward
        return features, rewards, missing

    def members(self, batch: Batch) -> list[str]:
        """The hashed users of a batch; slots without a user, who is nowhere else, stand together as far as they go."""
        people: list[str] = []
        slots = ((number, self._slots[number].user) for number in range(batch.begin, batch.end))
        for unnamed, some in groupby(slots, lambda slot: slot[1] is None):
            run = list(some)
            people += [f"slots {run[0][0]}-{run[-1][0]}"] if unnamed else [str(user) for _, user in run]
        return people

    def present(self, batch: int) -> set[str]:
        """The hashed users who are in an open batch."""
        return set(self._present.get(batch, ()))

    def places(self) -> list[tuple[int, int]]:
        """Which decisions have a slot, and in which batch."""
        return [(number, slot.batch) for number, slot in self._slots.items()]

    def drop(self, batch: Batch) -> None:
        """The batch is closed."""
        self._present.pop(batch.number, None)
        for number in range(batch.begin, batch.end):
            slot = self._slots.pop(number, None)
            if slot is not None and slot.user is not None:
                self.people[slot.user] -= 1
                if not self.people[slot.user]:
                    del self.people[slot.user]

    def between(self, begin: int, end: int) -> Slots:
        """Those of the decisions begin, ..., end - 1, and what follows from them."""
        made = Slots(self._dim)
        for number, slot in self._slots.items():
            if begin <= number < end:
                made.record(number, slot)
        return made

    def to_columns(self) -> dict[str, Any]:
        """Everything, as arrays and lists."""
        slots = list(self._slots.values())
        answered = [slot.reward is not None for slot in slots]
        return {
            "numbers": np.array(list(self._slots), dtype=np.int64),
            "batches": np.array([slot.batch for slot in slots], dtype=np.int64),
            "features": np.array([slot.features for slot in slots], dtype=np.float64).reshape(-1, self._dim),
            "answered": np.array(answered, dtype=np.bool_),
            "rewards": np.array([slot.reward or 0.0 for slot in slots], dtype=np.float64),
            "sessions": [slot.session for slot in slots],
            "users": [slot.user for slot in slots],
        }

    @classmethod
    def from_columns(cls, dim: int, columns: dict[str, Any]) -> Slots:
        """The inverse of `to_columns`."""
        made = cls(dim)
        names = "numbers", "batches", "features", "answered", "rewards", "sessions", "users"
        for number, batch, features, answered, reward, session, user in zip(
            *(columns[name] for name in names), strict=True
        ):
            kept = float(reward) if answered else None
            made.record(int(number), Slot(batch=int(batch), session=session, features=features, user=user, reward=kept))
        return made
