"""Arms that never change: users of an episode all take the same arm, or one of those that are tied; only sums matter.

Where the arms of a seed are tied as an episode begins, each of its users flips a coin of the stream "ties"; the other
seeds of that episode are played as they would be without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.arriving import Arriving
from bandanna.core.coins import StreamCoins
from bandanna.core.domain import Statistic
from bandanna.environments.base import World, read
from bandanna.policies.base import RunningSums
from bandanna.simulation.tally import Tally

_FEW = 100
_TABLE = 1 << 20  # bytes of a table of reports, of one seed; larger ones are not made, reports are packed as they come
_PART = 4096  # users who are held at once; the same for any number of seeds, as are then sums over them


@dataclass(frozen=True, kw_only=True)
class Group:
    """Users of an episode who take the same arm, in every seed; there are several groups only where arms are tied."""

    places: Ints  # (S,): the arm, by its place in the tables
    counts: Ints  # (S,), or (1,) if they are all the same: how many users
    rewards: Floats  # (S,): the sum of theirs, 0 or 1, or of what is reported of others


@dataclass(frozen=True, kw_only=True)
class Ties:
    """An episode after round `begin` in which some seeds have a choice."""

    begin: int
    choices: Ints  # (S,): how many arms are tied, 1 where there is no choice
    places: Ints  # (S, groups): these arms come first
    rows: Ints  # the seeds with a choice


class FixedArms:
    """Means and reports of the arms of every seed, tabulated once."""

    def __init__(self, policy: RunningSums[Any], world: World) -> None:
        contexts, block = read(world, 0, 1)  # (S, 1, K, d), (S, 1, K)
        features, means = contexts[:, 0], block[:, 0]  # (S, K, d), (S, K)
        self.world, self.lead, self.coins = world, policy.domain.lead, StreamCoins(world.streams)
        self.centred, self.n_arms = policy.centred, means.shape[1]
        ends, moved = policy.centred(np.array([0.0, 1.0]))
        self.binary, self.none, self.one = world.binary and not moved.any(), ends[0], ends[1]
        self.arms = policy.tabulate(features)
        self.means, self.gaps = means.ravel(), (means.max(axis=1, keepdims=True) - means).ravel()
        self.first = means.shape[1] * np.arange(len(means))  # where each seed's arms begin in the tables
        inside, moved = policy.domain.inside(features)
        self.domain, self.features = policy.domain, inside.reshape(-1, inside.shape[-1])  # (S K, d)
        fits = 8 * self.n_arms * policy.domain.dim <= _TABLE
        self.reports = self._pack(np.arange(means.size)) if fits else None  # (S K, dim): at a centred reward of 1
        self.clips = moved.ravel()
        self.clipped = np.zeros(len(means), dtype=np.int64)
        self._anything_clipped = bool(self.clips.any())

    @property
    def few(self) -> int:
        """Users who are drawn faster one by one than as groups."""
        return _FEW

    def play(self, policy: RunningSums[Any], snapshot: Any, rounds: int, tally: Tally) -> list[Group]:
        """One episode, in groups of users."""
        return self._groups(*self._choose(policy, snapshot, rounds, tally), rounds, tally)

    def statistic(
        self, policy: RunningSums[Any], snapshot: Any, rounds: int, tally: Tally, *, grouped: bool
    ) -> Statistic:
        """The users' reports: two groups of equal ones for each arm where rewards are 0 or 1, else one by one."""
        before = self.clipped.copy()
        place, ties = self._choose(policy, snapshot, rounds, tally)
        if grouped and self.binary and rounds > self.few:
            return self._grouped(policy, self._groups(place, ties, rounds, tally), before)
        if grouped and self.binary and policy.steady and ties is None and policy.privacy.model == "concurrent":
            sums = self._added(place, rounds, tally)
            return self._grouped(policy, [Group(places=place, counts=np.array([rounds]), rewards=sums)], before)
        whole = rounds <= _PART or policy.privacy.model == "concurrent"  # whose shufflers read a batch several times
        users = self._users(place, ties, rounds, rounds if whole else _PART, tally)
        parts = self._one_by_one(policy, users, tally, before)
        if whole:
            return next(parts)
        return Arriving(policy.domain, users=rounds, source=parts, replicates=before.shape)

    def _grouped(self, policy: RunningSums[Any], groups: list[Group], before: Ints) -> Statistic:
        """Reports of those with a reward and of those without, of each group; clipped since `before`."""
        values, counts = [], []
        for group in groups:
            packed, ones = self._packed(group.places), group.rewards.astype(np.int64)  # (S, dim), (S,)
            for reward, number in ((self.one, ones), (self.none, group.counts - ones)):
                values.append(packed.copy())
                values[-1][:, : self.lead] *= reward
                counts.append(number)
        stacked = np.stack(values, axis=1)
        return policy.domain.sealed(stacked, clipped=self.clipped - before, counts=np.stack(counts, axis=1))

    def _one_by_one(
        self, policy: RunningSums[Any], users: Iterator[Ints], tally: Tally, before: Ints
    ) -> Iterator[Statistic]:
        """Reports of every user; what was clipped since `before` is counted with them."""
        for places in users:
            rewards = self._rewards(places, tally)
            values = self._reports(places, self._told(rewards, 1) if self.binary else rewards)
            yield policy.domain.sealed(values, clipped=self.clipped - before)
            before = self.clipped.copy()

    def _choose(self, policy: RunningSums[Any], snapshot: Any, rounds: int, tally: Tally) -> tuple[Ints, Ties | None]:
        """The arm of each seed, by its place in the tables, (S,); and who has a choice, whose losses come later."""
        first, tied = policy.favoured(snapshot, self.arms)
        place, begin = self.first + first, tally.done
        gaps, ties = self.gaps[place], None
        if tied is not None:
            choices = tied.sum(axis=1)
            order = np.argsort(~tied, axis=1, kind="stable")[:, : int(choices.max())]
            rows = np.flatnonzero(choices > 1)
            ties = Ties(begin=begin, choices=choices, places=self.first[:, None] + order, rows=rows)
            gaps[rows] = 0.0
            tally.chose_often(first, rounds * (choices == 1))
        else:
            tally.chose_often(first, rounds)
        tally.steady(gaps, rounds)
        if ties is not None and rounds == 1:
            return self._flip(ties, 0, 1, tally)[:, 0], None
        return place, ties

    def _flip(self, ties: Ties, after: int, count: int, tally: Tally) -> Ints:
        """The arms of `count` users after the first `after` of the episode, (S, count)."""
        rank = self.coins.below(np.broadcast_to(ties.choices[:, None], (len(ties.choices), count)))
        users = np.take_along_axis(ties.places, rank, axis=1)
        tally.own(ties.rows, ties.begin + after, self.gaps[users[ties.rows]])
        tally.chose(users[ties.rows] - self.first[ties.rows, None], ties.rows)
        return users

    def _users(self, place: Ints, ties: Ties | None, rounds: int, most: int, tally: Tally) -> Iterator[Ints]:
        """The arm of every user, (S, n), at most so many at once."""
        for begin in range(0, rounds, most):
            count = min(most, rounds - begin)
            if ties is None:
                yield np.broadcast_to(place[:, None], (len(place), count))
            else:
                yield self._flip(ties, begin, count, tally)

    def _groups(self, place: Ints, ties: Ties | None, rounds: int, tally: Tally) -> list[Group]:
        """Those who take the same arm, and the sums of their rewards: one binomial draw where that is their law."""
        summed = self.binary and rounds > 1
        if ties is None:
            sums = self._sums(place, rounds, tally) if summed else self._added(place, rounds, tally)
            return [Group(places=place, counts=np.array([rounds]), rewards=sums)]
        arms = ties.places.T  # (groups, S)
        counts, rewards = np.zeros(arms.shape, dtype=np.int64), np.zeros(arms.shape)
        for users in self._users(place, ties, rounds, _PART, tally):
            earned = None if summed else self._rewards(users, tally)
            for group, arm in enumerate(arms):
                here = users == arm[:, None]
                counts[group] += np.count_nonzero(here, axis=1)
                if earned is not None:
                    rewards[group] += np.sum(np.where(here, earned, 0.0), axis=1)
        if summed:
            rewards[:] = [self._sums(arm, count, tally) for arm, count in zip(arms, counts, strict=True)]
        return [Group(places=arm, counts=n, rewards=sums) for arm, n, sums in zip(arms, counts, rewards, strict=True)]

    def _sums(self, arm: Ints, counts: Ints | int, tally: Tally) -> Floats:
        """Sums of so many rewards of 0 or 1, (S,), each drawn as one number; tallied."""
        sums = self.world.reward_sums(self.means[arm], counts)
        tally.rewards += sums
        if self._anything_clipped:
            self.clipped += self.clips[arm] * counts
        return sums

    def _added(self, place: Ints, rounds: int, tally: Tally) -> Floats:
        """Sums of rewards of one arm that are drawn one by one, (S,)."""
        if rounds == 1:
            return self._rewards(place[:, None], tally)[:, 0]
        return np.asarray(
            sum(np.sum(self._rewards(u, tally), axis=1) for u in self._users(place, None, rounds, _PART, tally))
        )

    def _rewards(self, users: Ints, tally: Tally) -> Floats:
        """Rewards one by one, (S, rounds), 0 or 1 or as they are reported; tallied, and clipped reports counted."""
        rewards = self.world.rewards(self.means[users])
        tally.rewards += rewards[:, 0] if rewards.shape[1] == 1 else rewards.sum(axis=1)
        if self.binary and not self._anything_clipped:
            return rewards
        inside, moved = self.centred(rewards)
        self.clipped += np.count_nonzero(moved | self.clips[users], axis=1)
        return rewards if self.binary else inside

    def _told(self, ones: Floats, counts: Ints | int) -> Floats:
        """The sum of what is reported of so many rewards of 0 or 1."""
        return np.asarray(self.none * counts + (self.one - self.none) * ones)

    def _reports(self, places: Ints, rewards: Floats) -> Floats:
        """Reports of these arms with these rewards: (...), (...) -> (..., dim)."""
        values = self._packed(places)
        values[..., : self.lead] *= rewards[..., None]
        return values

    def _packed(self, places: Ints) -> Floats:
        """Reports of these arms at a centred reward of 1, to be changed: (...) -> (..., dim)."""
        return self._pack(places) if self.reports is None else np.asarray(self.reports[places])

    def _pack(self, places: Ints) -> Floats:
        return self.domain.pack(self.features[places], np.ones(places.shape), places % self.n_arms)

    def run(
        self, policy: Any, noise: Iterator[Floats | float], tally: Tally, rounds: int
    ) -> tuple[int, NDArray[np.int64]]:
        """Up to `rounds` rounds of a policy whose releases are exact sums plus `noise`; releases made, repairs (S,)."""
        total = np.zeros((len(self.first), policy.domain.dim))
        vector, gram = total[:, : self.lead], total[:, self.lead :]
        released: Floats = total
        end, batches, repairs = tally.done + rounds, 0, np.zeros(len(total), dtype=np.int64)
        for size in policy.channel.sizes:
            if tally.done == end:
                return batches, repairs
            snapshot, repaired = policy.estimate(released, batches)
            repairs += repaired
            playing = min(size, end - tally.done)
            groups = self.play(policy, snapshot, playing, tally)
            if playing == size:
                for group in groups:
                    reports = self._packed(group.places)
                    told = self._told(group.rewards, group.counts) if self.binary else group.rewards
                    vector += reports[:, : self.lead] * told[:, None]
                    gram += reports[:, self.lead :] * group.counts[:, None]
                released = total + next(noise)
                batches += 1
        if tally.done < end:
            snapshot, repaired = policy.estimate(released, batches)
            repairs += repaired
            counted = self.clipped.copy()
            self.play(policy, snapshot, end - tally.done, tally)
            self.clipped = counted  # no statistic is formed of what is not released
        return batches, repairs
