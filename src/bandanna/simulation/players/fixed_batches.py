"""The player of policies on linear reports: whole episodes at a time, all seeds side by side.

The policy is frozen between two releases. With fixed arms only the sum of rewards of each arm matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import Estimate, Statistic, StreamedStatistic
from bandanna.device.noise import ReplicatedNoise
from bandanna.numeric.rng import StreamRandomness
from bandanna.policies.base import FixedLength, RunnerState, RunningSumPolicy, SumQuery, drive_learning
from bandanna.simulation.environments.base import World, read_block
from bandanna.simulation.players.ucb_kernel import PredrawnNoise, UCBKernelRun, kernel_for, running_noise
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats, Ints

# Fixed arms


_FEW = 100
_TABLE = 1 << 20  # bytes of a table of reports, of one seed; larger ones are not made, reports are packed as they come
_PART = 4096  # users who are held at once; the same for any number of seeds, as are then sums over them


@dataclass(frozen=True, kw_only=True)
class SameArmUsers:
    """Users of an episode who take the same arm in every seed; several groups only where arms are tied."""

    places: Ints  # (S,): the arm, by its place in the tables
    counts: Ints  # (S,), or (1,) if they are all the same: how many users
    rewards: Floats  # (S,): the sum of theirs, 0 or 1, or of what is reported of others


@dataclass(frozen=True, kw_only=True)
class TiedEpisode:
    """An episode after round `begin` in which several arms are tied in some seeds.

    Each user of such a seed tosses a coin of the stream "ties"; the other seeds do not change.
    """

    begin: int
    choices: Ints  # (S,): how many arms are tied, 1 where there is no choice
    places: Ints  # (S, groups): these arms come first
    rows: Ints  # the seeds with a choice


class FixedArmsPlayer:
    """The player for arms that never change, with the means and reports of every seed's arms in tables."""

    def __init__(self, policy: RunningSumPolicy[Any], world: World) -> None:
        contexts, block = read_block(world, 0, 1)  # (S, 1, K, d), (S, 1, K)
        features, means = contexts[:, 0], block[:, 0]  # (S, K, d), (S, K)
        self.world, self.lead, self.coins = world, policy._domain.lead, StreamRandomness(world.streams)
        self.centred, self.n_arms = policy._centre_rewards, means.shape[1]
        ends, moved = policy._centre_rewards(np.array([0.0, 1.0]))
        self.binary, self.none, self.one = world.binary and not moved.any(), ends[0], ends[1]
        self.arms = policy._tabulate_arms(features)
        self.means, self.gaps = means.ravel(), (means.max(axis=1, keepdims=True) - means).ravel()
        self.first = means.shape[1] * np.arange(len(means))  # where each seed's arms begin in the tables
        inside, moved = policy._domain.inside(features)
        self.domain, self.features = policy._domain, inside.reshape(-1, inside.shape[-1])  # (S K, d)
        fits = 8 * self.n_arms * policy._domain.dim <= _TABLE
        self.reports = self._pack(np.arange(means.size)) if fits else None  # (S K, dim): at a centred reward of 1
        self.clips = moved.ravel()
        self.clipped = np.zeros(len(means), dtype=np.int64)
        self._anything_clipped = bool(self.clips.any())

    @property
    def few(self) -> int:
        """The number of users below which they are drawn faster one by one than as groups."""
        return _FEW

    def play(self, policy: RunningSumPolicy[Any], snapshot: Any, rounds: int, tally: Tally) -> list[SameArmUsers]:
        """Play one episode in groups of users who take the same arm."""
        return self._groups(*self._choose(policy, snapshot, rounds, tally), rounds, tally)

    def statistic(
        self, policy: RunningSumPolicy[Any], snapshot: Any, rounds: int, tally: Tally, *, grouped: bool
    ) -> Statistic:
        """Return the users' reports: for rewards of 0 or 1 two groups of equal reports per arm, else one per user."""
        before = self.clipped.copy()
        place, ties = self._choose(policy, snapshot, rounds, tally)
        if grouped and self.binary and rounds > self.few:
            return self._grouped(policy, self._groups(place, ties, rounds, tally), before)
        if grouped and self.binary and policy._devices_agree and ties is None and policy.privacy.model == "concurrent":
            sums = self._added(place, rounds, tally)
            return self._grouped(policy, [SameArmUsers(places=place, counts=np.array([rounds]), rewards=sums)], before)
        whole = rounds <= _PART or policy.privacy.model == "concurrent"  # whose shufflers read a batch several times
        users = self._users(place, ties, rounds, rounds if whole else _PART, tally)
        parts = self._one_by_one(policy, users, tally, before)
        if whole:
            return next(parts)
        return StreamedStatistic(policy._domain, users=rounds, source=parts, replicates=before.shape)

    def _grouped(self, policy: RunningSumPolicy[Any], groups: list[SameArmUsers], before: Ints) -> Statistic:
        values, counts = [], []
        for group in groups:
            packed, ones = self._packed(group.places), group.rewards.astype(np.int64)  # (S, dim), (S,)
            for reward, number in ((self.one, ones), (self.none, group.counts - ones)):
                values.append(packed.copy())
                values[-1][:, : self.lead] *= reward
                counts.append(number)
        stacked = np.stack(values, axis=1)
        return policy._domain.sealed(stacked, clipped=self.clipped - before, counts=np.stack(counts, axis=1))

    def _one_by_one(
        self, policy: RunningSumPolicy[Any], users: Iterator[Ints], tally: Tally, before: Ints
    ) -> Iterator[Statistic]:
        for places in users:
            rewards = self._rewards(places, tally)
            values = self._reports(places, self._centred(rewards, 1) if self.binary else rewards)
            yield policy._domain.sealed(values, clipped=self.clipped - before)
            before = self.clipped.copy()

    def _choose(
        self, policy: RunningSumPolicy[Any], snapshot: Any, rounds: int, tally: Tally
    ) -> tuple[Ints, TiedEpisode | None]:
        """Return the arm of each seed as an index into the tables, and the tied seeds."""
        first, tied = policy._favoured_arms(snapshot, self.arms)
        place, begin = self.first + first, tally.done
        gaps, ties = self.gaps[place], None
        if tied is not None:
            choices = tied.sum(axis=1)
            order = np.argsort(~tied, axis=1, kind="stable")[:, : int(choices.max())]
            rows = np.flatnonzero(choices > 1)
            ties = TiedEpisode(begin=begin, choices=choices, places=self.first[:, None] + order, rows=rows)
            gaps[rows] = 0.0
            tally.add_plays(first, rounds * (choices == 1))
        else:
            tally.add_plays(first, rounds)
        tally.steady(gaps, rounds)
        if ties is not None and rounds == 1:
            return self._draw_tied_arms(ties, 0, 1, tally)[:, 0], None
        return place, ties

    def _draw_tied_arms(self, ties: TiedEpisode, after: int, count: int, tally: Tally) -> Ints:
        """Draw the arms, (S, count), of users after the first `after` users of the episode."""
        rank = self.coins.below(np.broadcast_to(ties.choices[:, None], (len(ties.choices), count)))
        users = np.take_along_axis(ties.places, rank, axis=1)
        tally.own(ties.rows, ties.begin + after, self.gaps[users[ties.rows]])
        tally.add_arms(users[ties.rows] - self.first[ties.rows, None], ties.rows)
        return users

    def _users(self, place: Ints, ties: TiedEpisode | None, rounds: int, most: int, tally: Tally) -> Iterator[Ints]:
        for begin in range(0, rounds, most):
            count = min(most, rounds - begin)
            if ties is None:
                yield np.broadcast_to(place[:, None], (len(place), count))
            else:
                yield self._draw_tied_arms(ties, begin, count, tally)

    def _groups(self, place: Ints, ties: TiedEpisode | None, rounds: int, tally: Tally) -> list[SameArmUsers]:
        summed = self.binary and rounds > 1
        if ties is None:
            sums = self._sums(place, rounds, tally) if summed else self._added(place, rounds, tally)
            return [SameArmUsers(places=place, counts=np.array([rounds]), rewards=sums)]
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
        return [
            SameArmUsers(places=arm, counts=n, rewards=sums) for arm, n, sums in zip(arms, counts, rewards, strict=True)
        ]

    def _sums(self, arm: Ints, counts: Ints | int, tally: Tally) -> Floats:
        sums = self.world.reward_sums(self.means[arm], counts)
        tally.rewards += sums
        if self._anything_clipped:
            self.clipped += self.clips[arm] * counts
        return sums

    def _added(self, place: Ints, rounds: int, tally: Tally) -> Floats:
        if rounds == 1:
            return self._rewards(place[:, None], tally)[:, 0]
        return np.asarray(
            sum(np.sum(self._rewards(u, tally), axis=1) for u in self._users(place, None, rounds, _PART, tally))
        )

    def _rewards(self, users: Ints, tally: Tally) -> Floats:
        rewards = self.world.rewards(self.means[users])
        tally.rewards += rewards[:, 0] if rewards.shape[1] == 1 else rewards.sum(axis=1)
        if self.binary and not self._anything_clipped:
            return rewards
        inside, moved = self.centred(rewards)
        self.clipped += np.count_nonzero(moved | self.clips[users], axis=1)
        return rewards if self.binary else inside

    def _centred(self, ones: Floats, counts: Ints | int) -> Floats:
        return np.asarray(self.none * counts + (self.one - self.none) * ones)

    def _reports(self, places: Ints, rewards: Floats) -> Floats:
        values = self._packed(places)
        values[..., : self.lead] *= rewards[..., None]
        return values

    def _packed(self, places: Ints) -> Floats:
        """Return reports of arms at a centred reward of 1, as a copy: (...) -> (..., dim)."""
        return self._pack(places) if self.reports is None else np.asarray(self.reports[places])

    def _pack(self, places: Ints) -> Floats:
        return self.domain.pack(self.features[places], np.ones(places.shape), places % self.n_arms)

    def run(
        self, policy: Any, noise: Iterator[Floats | float], tally: Tally, rounds: int
    ) -> tuple[int, NDArray[np.int64]]:
        """Run a policy whose releases are exact sums plus `noise`; return releases and repairs (S,)."""
        total = np.zeros((len(self.first), policy._domain.dim))
        vector, gram = total[:, : self.lead], total[:, self.lead :]
        released: Floats = total
        end, batches, repairs = tally.done + rounds, 0, np.zeros(len(total), dtype=np.int64)
        for size in policy._channel.sizes:
            if tally.done == end:
                return batches, repairs
            snapshot, repaired = policy._estimate(released, batches)
            repairs += repaired
            playing = min(size, end - tally.done)
            groups = self.play(policy, snapshot, playing, tally)
            if playing == size:
                for group in groups:
                    reports = self._packed(group.places)
                    centred = self._centred(group.rewards, group.counts) if self.binary else group.rewards
                    vector += reports[:, : self.lead] * centred[:, None]
                    gram += reports[:, self.lead :] * group.counts[:, None]
                released = total + next(noise)
                batches += 1
        if tally.done < end:
            snapshot, repaired = policy._estimate(released, batches)
            repairs += repaired
            counted = self.clipped.copy()
            self.play(policy, snapshot, end - tally.done, tally)
            self.clipped = counted  # no statistic is formed of what is not released
        return batches, repairs


_AT_ONCE = 128  # users whose scores are held at once; the same for any number of seeds, as are then sums over them


class SampledArmsPlayer(FixedArmsPlayer):
    """The player for fixed arms where each device draws its own arm.

    More than two arms are drawn one by one: their probabilities have no closed form.
    """

    def __init__(self, policy: RunningSumPolicy[Any], world: World) -> None:
        super().__init__(policy, world)
        self._draw: Any = None  # of the episode

    @property
    def few(self) -> int:
        return int(2 * self.n_arms)

    def _choose(
        self, policy: RunningSumPolicy[Any], snapshot: Any, rounds: int, tally: Tally
    ) -> tuple[Ints, TiedEpisode | None]:
        self._draw = lambda users: policy._draw_arms(snapshot, self.arms, users, self.coins)
        return self.first, None

    def _users(self, place: Ints, ties: TiedEpisode | None, rounds: int, most: int, tally: Tally) -> Iterator[Ints]:
        for begin in range(0, rounds, most):
            parts = []
            end = min(rounds, begin + most)
            for first in range(begin, end, _AT_ONCE):
                arms = self._draw(min(_AT_ONCE, end - first))
                users = place[:, None] + arms
                tally.add_losses(self.gaps[users])
                tally.add_arms(arms)
                parts.append(users)
            yield np.concatenate(parts, axis=1)

    def _groups(self, place: Ints, ties: TiedEpisode | None, rounds: int, tally: Tally) -> list[SameArmUsers]:
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
        return [SameArmUsers(places=place + arm, counts=many[:, arm], rewards=each[:, arm]) for arm in arms]

    def _sums_of_all(self, counts: Ints, tally: Tally) -> Floats:
        sums = self.world.reward_sums(self.means.reshape(counts.shape), counts)
        tally.rewards += sums.sum(axis=1)
        self.clipped += np.sum(self.clips.reshape(counts.shape) * counts, axis=1)
        return sums


# Episodes


_BLOCK_BYTES = 8 << 20  # contexts held at once
_REPORT_BYTES = 256 << 20  # of one seed: from 127 features on


def play_fixed_batches(
    policy: RunningSumPolicy[Any], world: World, tally: Tally, rounds: int, *, path: str
) -> RunTotals:
    """Play `rounds` rounds in episodes."""
    done = _play_by_noise(policy, world, tally, rounds) if path == "law" else None
    releases, users, clipped, repairs = done or _play_by_releases(policy, world, tally, rounds, path=path)
    return RunTotals(
        guarantee=policy.guarantee,
        releases=releases,
        users=users,
        reports=users,
        clipped=clipped,
        repairs=repairs,
        bits_per_user=policy._bits_per_user,
        numbers_per_user=policy._domain.dim,
    )


def _play_by_noise(
    policy: RunningSumPolicy[Any], world: World, tally: Tally, rounds: int
) -> tuple[int, int, Ints, Ints] | None:
    """Play with exact sums plus noise.

    Return None if noise depends on the data, or if arms are fresh and there is no kernel.
    """
    source, arms = ReplicatedNoise(world.streams), None
    releases, users, (clipped, repairs) = 0, 0, np.zeros((2, tally.n_seeds), dtype=np.int64)
    for running in policy._iterate_phases():
        left, sizes = rounds - tally.done, running._channel.sizes
        playing = min(left, sizes.users) if policy.horizon is None else left
        alone = world.fixed or running is policy
        kernel = kernel_for(running, world, playing) if alone else None
        ahead = PredrawnNoise.of(running._channel, source, tally.n_seeds, running._domain.dim) if kernel else None
        noise = running_noise(running._channel, source, (tally.n_seeds,)) if world.fixed and not kernel else None
        if ahead is None and noise is None:
            return None
        if kernel and ahead is not None:
            made, repaired, moved = UCBKernelRun(kernel, running, world, ahead, tally).run(playing)
            clipped = clipped + moved
        elif noise is not None:
            arms = arms or _fixed_arm_set(policy, world)
            made, repaired = arms.run(running, noise, tally, playing)
        releases, users, repairs = releases + made, users + sizes.before(made), repairs + repaired
        if tally.done == rounds:
            break
    return releases, users, clipped + arms.clipped if arms else clipped, repairs


def _play_by_releases(
    policy: RunningSumPolicy[Any], world: World, tally: Tally, rounds: int, *, path: str
) -> tuple[int, int, Ints, Ints]:
    arms, server = _fixed_arm_set(policy, world) if world.fixed else None, _EpisodeAnswerer(world, tally.n_seeds, path)
    releases, users, state = 0, 0, policy.init(replicates=(tally.n_seeds,))
    while tally.done < rounds:
        episode, snapshot = policy.episode(state), policy.publish(state)
        assert isinstance(episode, FixedLength)  # rounds are at most the policy's horizon
        playing = min(episode.users, rounds - tally.done)
        if arms is not None:
            statistic = arms.statistic(policy, snapshot, playing, tally, grouped=path == "law")
        else:
            statistic = _collect_episode(policy, world, snapshot, playing, tally)
        if episode.released and playing == episode.users:
            state = drive_learning(policy.learn(state, episode), server.answer(statistic))
            users, releases = users + playing, releases + 1
        else:  # a shorter last batch is played, but never released
            deque(statistic.parts(), maxlen=0)
    return releases, users, server.clipped, policy._run_counts(state)["repairs"]


def _fixed_arm_set(policy: RunningSumPolicy[Any], world: World) -> FixedArmsPlayer:
    return FixedArmsPlayer(policy, world) if policy._devices_agree else SampledArmsPlayer(policy, world)


class _EpisodeAnswerer:
    """Answers queries about an episode whose reports are formed while they are read."""

    def __init__(self, world: World, seeds: int, path: str) -> None:
        self.source, self.path, self.desk = ReplicatedNoise(world.streams), path, RunnerState()
        self.clipped = np.zeros(seeds, dtype=np.int64)

    def answer(self, statistic: Statistic) -> Callable[[SumQuery], Estimate]:
        def release(query: SumQuery) -> Estimate:
            self.desk, estimate = self.desk.release(query, statistic, self.source, path=self.path)
            self.clipped = self.clipped + statistic.clipped
            return estimate

        return release


def _users_at_once(policy: RunningSumPolicy[Any]) -> int:
    """Return how many users' reports are held at once."""
    return min(_PART, max(1, _REPORT_BYTES // (8 * policy._domain.dim)))


def _collect_episode(
    policy: RunningSumPolicy[Any], world: World, snapshot: Any, rounds: int, tally: Tally
) -> Statistic:
    """Collect the reports of one episode, a long one in parts while it is read."""
    most = _users_at_once(policy)
    if rounds <= most or policy.privacy.model == "concurrent":  # whose shufflers read a batch several times
        return _collect_part(policy, world, snapshot, rounds, tally)
    sizes = (min(most, rounds - begin) for begin in range(0, rounds, most))
    parts = (_collect_part(policy, world, snapshot, size, tally) for size in sizes)
    return StreamedStatistic(policy._domain, users=rounds, source=parts, replicates=(tally.n_seeds,))


def _collect_part(policy: RunningSumPolicy[Any], world: World, snapshot: Any, rounds: int, tally: Tally) -> Statistic:
    coins = StreamRandomness(world.streams)
    block = max(1, _BLOCK_BYTES // (8 * tally.n_seeds * world.n_arms * policy.dim))
    parts = []
    for begin in range(0, rounds, block):
        count = min(block, rounds - begin)
        contexts, means = read_block(world, tally.done, count)  # (S, count, K, d), (S, count, K)
        actions = policy.act(snapshot, contexts, coins).actions  # (S, count)
        chosen = np.take_along_axis(means, actions[..., None], axis=2)[..., 0]
        features = np.take_along_axis(contexts, actions[..., None, None], axis=2)[:, :, 0]
        rewards = world.rewards(chosen)
        tally.add_losses(means.max(axis=2) - chosen)
        tally.add_arms(actions)
        tally.rewards += rewards.sum(axis=1)
        parts.append(policy._form_statistic(features, rewards, actions))
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts], axis=-2)
    return policy._domain.sealed(values, clipped=np.sum([part.clipped for part in parts], axis=0))
