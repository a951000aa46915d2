"""One publication, and what it says; for policies of which no more is known than that they are one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.tasks.document import Task
from bandanna.tasks.published import Published

MOST = 1000  # parameters or arms that are read; a page shows fewer
BRIEF = 60  # of them that are kept for every point of a history


@dataclass(frozen=True, kw_only=True)
class Band:
    """A number, and how far it may be off: two standard deviations unless the reader's note says otherwise.

    None: not known, or not published.
    """

    value: float
    half: float | None

    def plain(self) -> dict[str, float | None]:
        """For JSON."""
        return {"value": finite(self.value), "half": finite(self.half)}


@dataclass(frozen=True, kw_only=True)
class Named:
    """A parameter, or an arm."""

    name: str
    band: Band


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one publication says.

    users   people in what was released
    reward  sum of their rewards;  regret: what the best arm, as it looks now, would have given them more
    theta   estimates: parameters, or mean rewards of arms
    plays   how often each arm was played
    left    arms that may still be the best, of policies that leave some out
    """

    users: int | None = None
    reward: Band | None = None
    regret: Band | None = None
    theta: tuple[Named, ...] = ()
    plays: tuple[Named, ...] = ()
    left: tuple[str, ...] | None = None

    @property
    def brief(self) -> Reading:
        """Without what would fill the memory, if all points of a history had it."""
        many = len(self.theta) + len(self.plays) > BRIEF
        return replace(self, theta=(), plays=()) if many else self


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What the numbers mean, or why they are not there: one sentence or two for each."""

    reward: str = "Not shown: what this policy publishes does not hold the sum of rewards."
    regret: str = "Not estimated: that takes the sum of rewards, and arms that are the same for everybody."
    theta: str = "As published; how uncertain it is, is not."
    plays: str = "Not shown: arms are chosen on devices, and how often is not released."


class Reader:
    """Of one task. What is not in a state but follows from plans, who was assigned what, is added up on the way."""

    notes = Notes()
    independent = True  # whether the noise of a difference of two sums is that of the batches between them

    def __init__(self, task: Task) -> None:
        self.task = task
        arms = task.arms
        count = getattr(task.policy, "n_arms", None)
        ids: Sequence[Any] = arms.ids if arms is not None else range(count or 0)
        self.arms = tuple(str(each) for each in ids[:MOST])

    def read(self, said: Published, before: tuple[Published, Reading] | None) -> Reading:
        """`before`: the publication before this one, where it was read."""
        users, plays = self.assigned(said, before)
        theta = self.task.policy.theta(said.snapshot)
        return Reading(users=users, plays=plays, theta=self.named(theta), left=self._left(said.state))

    def assigned(
        self, said: Published, before: tuple[Published, Reading] | None
    ) -> tuple[int | None, tuple[Named, ...]]:
        """How many people there were, and what they were assigned, by the plans of batches that are over."""
        if said.number == 0:
            return 0, tuple(Named(name=name, band=Band(value=0.0, half=0.0)) for name in self.arms)
        if before is None or before[0].number != said.number - 1 or before[1].users is None:
            return None, ()
        earlier, known = before
        users, counts = known.users or 0, {each.name: each.band.value for each in known.plays}
        if said.epoch > earlier.epoch and earlier.batches:
            over = earlier.batches[0]
            users += over.slots
            for arm, times in zip(over.arms, over.plays, strict=True):
                if arm < len(self.arms):
                    counts[self.arms[arm]] = counts.get(self.arms[arm], 0.0) + times
        plays = tuple(Named(name=name, band=Band(value=counts[name], half=0.0)) for name in self.arms if name in counts)
        return users, plays if any(each.band.value for each in plays) else ()

    def named(self, values: Any, halves: Any = None) -> tuple[Named, ...]:
        """Parameters (d,) by the names of features, with their halves."""
        if values is None:
            return ()
        flat = np.asarray(values, dtype=float).reshape(-1)[:MOST]
        wide = [None] * len(flat) if halves is None else np.asarray(halves, dtype=float).reshape(-1)[:MOST].tolist()
        names = self.features(len(flat))
        return tuple(
            Named(name=name, band=Band(value=value, half=half))
            for name, value, half in zip(names, flat.tolist(), wide, strict=True)
        )

    def features(self, count: int) -> list[str]:
        """Names of so many parameters."""
        schema = self.task.content["schema"]
        known = [str(each) for each in schema["names"]] if schema is not None else []
        return known if len(known) == count else [f"feature {place + 1}" for place in range(count)]

    def _left(self, state: Any) -> tuple[str, ...] | None:
        """Of policies that eliminate: a mask, or the places, of those that are left."""
        active = getattr(state, "active", None)
        if active is None:
            return None
        places = np.flatnonzero(active) if np.asarray(active).dtype == bool else np.asarray(active)
        return tuple(self.arms[place] for place in places.tolist() if 0 <= place < len(self.arms))


def finite(value: float | None) -> float | None:
    """For JSON, which has no other numbers."""
    return float(value) if value is not None and math.isfinite(value) else None


def two(variance: Any) -> Any:
    """Two standard deviations."""
    return 2 * np.sqrt(np.maximum(variance, 0.0))


def difference(after: Band, before: Band, *, independent: bool) -> Band:
    """Of two running sums: the noise of what lies between, or at most that of both."""
    value = after.value - before.value
    if after.half is None or before.half is None:
        return Band(value=value, half=None)
    if independent:
        return Band(value=value, half=math.sqrt(max(after.half**2 - before.half**2, 0.0)))
    return Band(value=value, half=after.half + before.half)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """An arm's mean reward as it is estimated, (K,), and its half."""

    values: Floats
    halves: Floats
    chance: float = 0.5  # standard deviation of one reward


def regret_of(users: int, reward: Band, means: Mean) -> Band | None:
    """users * (the best mean) - (the sum of rewards); off by what both are, and by the chance of rewards themselves."""
    known = np.isfinite(means.values)
    if not users or not known.any():
        return Band(value=0.0, half=0.0) if not users else None
    best = int(np.argmax(np.where(known, means.values, -np.inf)))
    noise = reward.half or 0.0
    chance = 2 * means.chance * math.sqrt(users)
    half = users * float(means.halves[best]) + math.hypot(noise, chance)
    return Band(value=users * float(means.values[best]) - reward.value, half=half)
