"""Arms that never change: all users of an episode take the same action, and only the sum of their rewards matters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arriving import Arriving
from bandanna.core.domain import Statistic
from bandanna.environments.base import World, read
from bandanna.policies.anytime import Anytime
from bandanna.policies.linucb import Arms, LinUCB, Snapshot, clip_rewards
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]

_FEW = 100  # users who are drawn faster one by one than as groups
_PART = 4096  # users who are held at once; the same for any number of seeds, as are then sums over them


class FixedArms:
    """Means and reports of the arms of every seed, tabulated once."""

    def __init__(self, policy: LinUCB | Anytime, world: World) -> None:
        contexts, block = read(world, 0, 1)  # (S, 1, K, d), (S, 1, K)
        features, means = contexts[:, 0], block[:, 0]  # (S, K, d), (S, K)
        self.world, self.dim = world, policy.dim
        self.arms: Arms = policy.tabulate(features)
        self.means, self.gaps = means.ravel(), (np.max(means, axis=1, keepdims=True) - means).ravel()
        self.first = means.shape[1] * np.arange(len(means))  # where each seed's arms begin in the tables
        ones = policy.statistic(features, np.ones(means.shape))
        self.reports = ones.values.reshape(-1, ones.values.shape[-1])  # (S K, dim): at reward 1
        self.clips = (np.linalg.norm(features, axis=-1) > 1 + 1e-9).ravel()
        self.clipped = np.zeros(len(means), dtype=np.int64)
        self._anything_clipped = bool(np.any(self.clips))

    def play(self, policy: LinUCB | Anytime, snapshot: Snapshot, rounds: int, tally: Tally) -> tuple[Floats, Floats]:
        """One action for every seed: reports at reward 1 (S, dim), and sums of the rewards, clipped to [0, 1], (S,)."""
        place = self._choose(policy, snapshot, rounds, tally)
        return self.reports[place], self._reward_sums(place, rounds, tally)

    def statistic(
        self, policy: LinUCB | Anytime, snapshot: Snapshot, rounds: int, tally: Tally, *, grouped: bool
    ) -> Statistic:
        """The users' reports: two groups of equal ones where rewards are 0 or 1, else one by one."""
        before = self.clipped.copy()
        place = self._choose(policy, snapshot, rounds, tally)
        report = self.reports[place]
        if grouped and self.world.binary and rounds > _FEW:
            ones = self._reward_sums(place, rounds, tally).astype(np.int64)  # (S,)
            values = np.stack([report, self._scaled(report, np.zeros((len(ones), 1)))[:, 0]], axis=1)
            counts = np.stack([ones, rounds - ones], axis=1)
            return policy.domain.sealed(values, clipped=self.clipped - before, counts=counts)
        whole = rounds <= _PART or policy.privacy.model == "concurrent"  # whose shufflers read a batch several times
        parts = self._one_by_one(policy, place, rounds, rounds if whole else _PART, tally, before)
        if whole:
            return next(parts)
        return Arriving(policy.domain, users=rounds, source=parts, replicates=before.shape)

    def _one_by_one(
        self,
        policy: LinUCB | Anytime,
        place: NDArray[np.int64],
        rounds: int,
        most: int,
        tally: Tally,
        before: NDArray[np.int64],
    ) -> Iterator[Statistic]:
        """Reports of every user, at most so many at once; what was clipped since `before` is counted with them."""
        for begin in range(0, rounds, most):
            rewards = self._rewards(place, min(most, rounds - begin), tally)
            values = self._scaled(self.reports[place], rewards)
            yield policy.domain.sealed(values, clipped=self.clipped - before)
            before = self.clipped.copy()

    def _choose(self, policy: LinUCB | Anytime, snapshot: Snapshot, rounds: int, tally: Tally) -> NDArray[np.int64]:
        """The chosen arms' places in the tables."""
        place: NDArray[np.int64] = self.first + policy.choose(snapshot, self.arms)
        tally.steady(self.gaps[place], rounds)
        if self._anything_clipped:
            self.clipped += self.clips[place] * rounds
        return place

    def _rewards(self, place: NDArray[np.int64], rounds: int, tally: Tally) -> Floats:
        """Rewards one by one, (S, rounds), clipped to [0, 1]; counted and tallied."""
        means = self.means[place]
        means = means[:, None] if rounds == 1 else np.broadcast_to(means[:, None], (len(means), rounds))
        rewards = self.world.rewards(means)
        tally.rewards += rewards[:, 0] if rounds == 1 else np.sum(rewards, axis=1)
        if self.world.binary:
            return rewards
        inside, moved = clip_rewards(rewards)
        self.clipped += moved
        return inside

    def _reward_sums(self, place: NDArray[np.int64], rounds: int, tally: Tally) -> Floats:
        """Sums of clipped rewards, (S,): one binomial draw where that is their law."""
        if self.world.binary and rounds > 1:
            sums = self.world.reward_sums(self.means[place], rounds)
            tally.rewards += sums
            return sums
        if rounds == 1:
            return self._rewards(place, 1, tally)[:, 0]
        blocks = (self._rewards(place, min(_PART, rounds - begin), tally) for begin in range(0, rounds, _PART))
        return np.asarray(sum(np.sum(part, axis=1) for part in blocks))

    def _scaled(self, report: Floats, rewards: Floats) -> Floats:
        """Reports of one arm with these rewards: (S, dim), (S, rounds) -> (S, rounds, dim)."""
        values = np.repeat(report[:, None], rewards.shape[1], axis=1)
        values[..., : self.dim] *= rewards[..., None]
        return values

    def run(
        self, policy: LinUCB, noise: Iterator[Floats | float], tally: Tally, rounds: int
    ) -> tuple[int, NDArray[np.int64]]:
        """Up to `rounds` rounds of a policy whose releases are exact sums plus `noise`; releases made, repairs (S,)."""
        total = np.zeros((len(self.first), policy.domain.dim))
        vector, gram = total[:, : self.dim], total[:, self.dim :]
        released: Floats = total
        end, batches, repairs = tally.done + rounds, 0, np.zeros(len(total), dtype=np.int64)
        for size in policy.channel.sizes:
            if tally.done == end:
                return batches, repairs
            snapshot, repaired = policy.estimate(released, batches)
            repairs += repaired
            playing = min(size, end - tally.done)
            reports, rewards = self.play(policy, snapshot, playing, tally)
            if playing == size:
                vector += reports[:, : self.dim] * rewards[:, None]
                gram += reports[:, self.dim :] if size == 1 else reports[:, self.dim :] * size
                released = total + next(noise)
                batches += 1
        if tally.done < end:
            snapshot, repaired = policy.estimate(released, batches)
            repairs += repaired
            counted = self.clipped.copy()
            self.play(policy, snapshot, end - tally.done, tally)
            self.clipped = counted  # no statistic is formed of what is not released
        return batches, repairs
