"""Arms that never change, of which each device draws its own: users of an episode are counted by their arm.

Their arms are drawn one by one, many at a time by one product: the probabilities of arms have no closed form for more
than two, so that a multinomial draw of counts would not be exact. What follows - rewards, reports, sums - depends on
the counts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.environments.base import World
from bandanna.policies.base import RunningSums
from bandanna.simulation.players.fixed_arms import FixedArms, Group, Ties
from bandanna.simulation.tally import Tally

_AT_ONCE = 128  # users whose scores are held at once; the same for any number of seeds, as are then sums over them


class SampledArms(FixedArms):
    """Of a policy that is not `steady`."""

    def __init__(self, policy: RunningSums[Any], world: World) -> None:
        super().__init__(policy, world)
        self._draw: Any = None  # of the episode

    @property
    def few(self) -> int:
        """Groups are two for each arm."""
        return int(2 * self.n_arms)

    def _choose(self, policy: RunningSums[Any], snapshot: Any, rounds: int, tally: Tally) -> tuple[Ints, Ties | None]:
        """Who draws how; losses come with the draws."""
        self._draw = lambda users: policy.drawn_arms(snapshot, self.arms, users, self.coins)
        return self.first, None

    def _users(self, place: Ints, ties: Ties | None, rounds: int, most: int, tally: Tally) -> Iterator[Ints]:
        """The arm of every user, (S, n), by its place in the tables."""
        for begin in range(0, rounds, most):
            parts = []
            end = min(rounds, begin + most)
            for first in range(begin, end, _AT_ONCE):
                arms = self._draw(min(_AT_ONCE, end - first))
                users = place[:, None] + arms
                tally.varying(self.gaps[users])
                tally.chose(arms)
                parts.append(users)
            yield np.concatenate(parts, axis=1)

    def _groups(self, place: Ints, ties: Ties | None, rounds: int, tally: Tally) -> list[Group]:
        """Those who take the same arm, and the sums of their rewards."""
        tables = len(self.gaps)
        counts, rewards = np.zeros(tables, dtype=np.int64), np.zeros(tables)
        for users in self._users(place, None, rounds, _AT_ONCE, tally):
            counts += np.bincount(users.ravel(), minlength=tables)
            if not self.binary:
                earned = self._rewards(users, tally)
                rewards += np.bincount(users.ravel(), weights=earned.ravel(), minlength=tables)
        shape = len(place), self.n_arms
        each: Floats = rewards.reshape(shape)
        many: Ints = counts.reshape(shape)
        if self.binary:
            each = self._sums_of_all(many, tally)
        arms = range(self.n_arms)
        return [Group(places=place + arm, counts=many[:, arm], rewards=each[:, arm]) for arm in arms]

    def _sums_of_all(self, counts: Ints, tally: Tally) -> Floats:
        """Sums of so many rewards of 0 or 1 of every arm, (S, K); tallied."""
        sums = self.world.reward_sums(self.means.reshape(counts.shape), counts)
        tally.rewards += sums.sum(axis=1)
        self.clipped += np.sum(self.clips.reshape(counts.shape) * counts, axis=1)
        return sums
