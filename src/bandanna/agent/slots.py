"""Slots: every decision of an open episode has one, with or without a reward; who answered decides nothing."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from bandanna.agent.plan import Batch
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Assigned, Played

_RUN = re.compile(r"slots ([0-9]{1,16})-([0-9]{1,16})", re.ASCII)


@dataclass(kw_only=True, slots=True)
class Slot:
    """One decision: the arm, its features, the device's group, the reward once it is there, the hashed user."""

    batch: int
    session: str
    features: Floats  # (d,)
    arm: int
    group: int  # -1: none
    user: str | None
    reward: float | None = None


def seats(member: str) -> int:
    """How many slots of its batch a member stands for: a user for one, a run of slots without a user for its length."""
    run = _RUN.fullmatch(member)
    return int(run[2]) - int(run[1]) + 1 if run else 1


class Slots:
    """The slots of all open episodes, by the number of the decision."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._slots: dict[int, Slot] = {}
        self._present: dict[int, set[str]] = {}  # the hashed users of each open episode
        self.people: Counter[str] = Counter()  # in how many open episodes each user is

    def record(self, number: int, slot: Slot) -> None:
        """A decision was made."""
        self._slots[number] = slot
        if slot.user is not None:
            self._present.setdefault(slot.batch, set()).add(slot.user)
            self.people[slot.user] += 1

    def unanswered(self, number: int, session: str, name: str) -> Slot | None:
        """The open slot of a decision, if it has one; `name` is the argument that is refused if there is a reward."""
        slot = self._slots.get(number)
        if slot is None or slot.session != session:
            return None
        if slot.reward is not None:
            raise InvalidArgument(name, f"decision {number}", "one that has no reward yet; the first one stands")
        return slot

    def features(self, batch: Batch, until: int) -> list[Floats]:
        """Of the decisions before `until`, in order, as far as they have slots."""
        return [self._slots[n].features for n in range(batch.begin, min(batch.end, until)) if n in self._slots]

    def played(self, batch: Batch, nothing: float, *, grouped: bool) -> tuple[Played, int]:
        """The rows of an episode, and how many of them have no reward: those are features of 0 and a reward `nothing`.

        They make a report of the domain like any other, noised in full.
        """
        users = batch.users
        features, rewards, answered = np.zeros((users, self._dim)), np.full(users, nothing), np.zeros(users, dtype=bool)
        arms, groups = np.zeros(users, dtype=np.int64), np.zeros(users, dtype=np.int64)
        if isinstance(batch.episode, Assigned):
            arms = batch.episode.arms_at(np.arange(users))
        slots = [self._slots.get(number) for number in range(batch.begin, batch.end)]
        if held := [place for place, slot in enumerate(slots) if slot is not None]:
            arms[held] = [slot.arm for slot in slots if slot is not None]
            groups[held] = [max(slot.group, 0) for slot in slots if slot is not None]
        if told := [place for place, slot in enumerate(slots) if slot is not None and slot.reward is not None]:
            answers = [slot for slot in slots if slot is not None and slot.reward is not None]
            features[told] = np.concatenate([slot.features for slot in answers]).reshape(len(told), self._dim)
            rewards[told] = [slot.reward for slot in answers]
            answered[told] = True
        rows = Played(rewards=rewards, features=features, arms=arms, groups=groups if grouped else None)
        missing = users - len(told)
        return (replace(rows, answered=answered) if missing else rows), missing

    def members(self, batch: Batch, arm: int | None = None) -> list[str]:
        """The hashed users of an episode, or of one of its arms; slots without a user, who is nowhere else, stand
        together as far as they go.
        """
        slots = [(n, slot) for n in range(batch.begin, batch.end) if (slot := self._slots.get(n)) is not None]
        if arm is not None:
            named = [slot.user for _, slot in slots if slot.arm == arm and slot.user is not None]
            unnamed = any(slot.arm == arm and slot.user is None for _, slot in slots)
            return named + [f"arm {arm} of slots {batch.begin}-{batch.end - 1}"] * (unnamed or not named)
        people: list[str] = []
        for unnamed, some in groupby(slots, lambda pair: pair[1].user is None):
            run = list(some)
            people += [f"slots {run[0][0]}-{run[-1][0]}"] if unnamed else [str(slot.user) for _, slot in run]
        return people or [f"slots {batch.begin}-{batch.end - 1}"]

    def present(self, batch: int) -> set[str]:
        """The hashed users who are in an open episode."""
        return set(self._present.get(batch, ()))

    def places(self) -> list[tuple[int, int]]:
        """Which decisions have a slot, and in which episode."""
        return [(number, slot.batch) for number, slot in self._slots.items()]

    def drop(self, batch: Batch) -> None:
        """The episode is closed."""
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
        return {
            "numbers": np.array(list(self._slots), dtype=np.int64),
            "batches": np.array([slot.batch for slot in slots], dtype=np.int64),
            "features": np.array([slot.features for slot in slots], dtype=np.float64).reshape(len(slots), self._dim),
            "arms": np.array([slot.arm for slot in slots], dtype=np.int64),
            "groups": np.array([slot.group for slot in slots], dtype=np.int64),
            "answered": np.array([slot.reward is not None for slot in slots], dtype=np.bool_),
            "rewards": np.array([slot.reward or 0.0 for slot in slots], dtype=np.float64),
            "sessions": [slot.session for slot in slots],
            "users": [slot.user for slot in slots],
        }

    @classmethod
    def from_columns(cls, dim: int, columns: dict[str, Any]) -> Slots:
        """The inverse of `to_columns`."""
        made = cls(dim)
        names = "numbers", "batches", "features", "arms", "groups", "answered", "rewards", "sessions", "users"
        for number, batch, features, arm, group, answered, reward, session, user in zip(
            *(columns[name] for name in names), strict=True
        ):
            slot = Slot(
                batch=int(batch),
                session=session,
                features=features,
                arm=int(arm),
                group=int(group),
                user=user,
                reward=float(reward) if answered else None,
            )
            made.record(int(number), slot)
        return made
