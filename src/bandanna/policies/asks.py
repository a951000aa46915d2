"""What a policy and its runner say to each other: episodes, asks about them, and the rows that were played.

An episode and an ask are public; rows are raw, and stay with the runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bandanna.accounting.events import Event, RecordEvent
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.turns import arms_at
from bandanna.protocols.base import Protocol


@dataclass(frozen=True, kw_only=True)
class Episode:
    """How long the policy stays frozen; public, decided before it begins. One that is not `released` teaches nothing.

    `number` counts from 0 and names the episode in the ledger.
    """

    number: int
    released: bool = True


@dataclass(frozen=True, kw_only=True)
class Frozen(Episode):
    """`users` devices act on the snapshot."""

    users: int

    @classmethod
    def batch(cls, number: int, *, size: int, horizon: int) -> Frozen | None:
        """The batch of that number where all have one size; what is left at the horizon's end is not released."""
        left = horizon - number * size
        return cls(number=number, users=min(size, left), released=left >= size) if left > 0 else None


@dataclass(frozen=True, kw_only=True)
class Until(Episode):
    """At most `users` devices act on the snapshot, until `Policy.crossing` of public features says that it is over."""

    users: int


@dataclass(frozen=True, kw_only=True)
class Assigned(Episode):
    """The server says what is played: `arms` so many times each, one after the other or `in_turn`.

    clients: how many people answer, each with averages over all the plays; None: every play is another user.
    """

    arms: Ints  # (*R, k)
    plays: Ints  # (*R, k)
    in_turn: bool = False
    clients: int | None = None

    @property
    def users(self) -> int:
        """Rounds of one run."""
        return int(self.plays.sum())

    def arms_at(self, places: Ints) -> Ints:
        """Of one run, the arms of its rounds 0, 1, ..., (n,) -> (n,)."""
        return arms_at(places, arms=self.arms, plays=self.plays, in_turn=self.in_turn)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One private sum that a policy wants: (episode, step) is its id in the ledger.

    protocol  calibrated for the report; its event is the price
    at        the public place where devices evaluate their report: a theta for gradients, an arm
    of        whose: this episode's users, or those whom the runner keeps under a name of `Policy.keeps`
    arm       of this episode's users, those who were assigned this arm, and nobody else
    last      the runner forgets the kept rows after the answer
    stream    of a stream protocol: which one; a new number begins a new stream
    begun     how many streams with this very price have begun, this one included
    part      of a person's features, where all asks that have one are about the same: see `events.RecordEvent`
    """

    protocol: Protocol
    at: Any = None
    of: str = "episode"
    arm: int | None = None
    last: bool = False
    step: int = 0
    stream: int = 0
    begun: int = 1
    part: str | None = None

    def event(self, task: str = "") -> Event:
        """The price, of the task under whose name people take part once; None but parts of one record know it."""
        own = self.protocol.event
        return own if self.part is None else RecordEvent(event=own, part=self.part, record=task)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Played:
    """Raw rows of users, held by the runner alone: what each was given and what came of it.

    A user who did not answer has a reward of 0 and features of 0, and makes a report like any other.
    groups: under which of `Policy.keeps` a row is kept; private, since a device decides it from its own context.
    answered: who did, where features and rewards do not tell; None for all.
    counts: how many users share a row, where a simulation needs no more; None for one each.
    """

    rewards: Floats  # (*R, n); of clients who answer for all arms of an episode, their averages, (*R, n, k)
    features: Floats | None = None  # (*R, n, d) of the arm that was given
    arms: Ints | None = None  # (*R, n)
    groups: Ints | None = None  # (*R, n)
    counts: Ints | None = None  # (*R, n)
    answered: Bools | None = None  # (*R, n)

    def of_arm(self, arm: int) -> Played:
        """The rows of one run that were given this arm."""
        assert self.arms is not None
        return self.at(self.arms == arm)

    def at(self, place: Any) -> Played:
        """What stands at a place of the first axis."""
        held = vars(self).items()
        chosen: dict[str, Any] = {name: None if array is None else array[place] for name, array in held}
        return Played(**chosen)

    @staticmethod
    def joined(parts: Sequence[Played]) -> Played:
        """All rows, of one run."""
        columns = {each.name: [getattr(part, each.name) for part in parts] for each in fields(Played)}
        whole: dict[str, Any] = {
            name: None if held[0] is None else np.concatenate(held) for name, held in columns.items()
        }
        return Played(**whole)
