"""The reference player: runs any policy by its interface alone, one seed after the other.

Every other player is an exact acceleration of this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.device.action_selection import Choice
from bandanna.device.domain import Estimate, Statistic
from bandanna.device.noise import FastNoise, NoiseSource
from bandanna.errors import InvalidArgument, ValueSummary
from bandanna.numeric.rng import DeviceRandomness, StreamRandomness, Streams
from bandanna.policies.base import (
    AssignedArms,
    Episode,
    FixedLength,
    PlayedRounds,
    Policy,
    PublicStoppingPolicy,
    RunnerState,
    StoppedByPublicData,
    SumQuery,
    check_batch_size,
    drive_learning,
    form_reports,
)
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.simulation.environments.base import World, read_block
from bandanna.simulation.environments.population import PopulationWorld
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats, Ints

# Queries


class QueryAnswerer:
    """Answers a policy's queries: forms the reports and releases them by each protocol's law or messages.

    `stream` is the noise source of stream protocols.
    """

    def __init__(
        self,
        policy: Policy[Any],
        source: NoiseSource,
        coins: DeviceRandomness,
        path: str,
        *,
        stream: NoiseSource | None = None,
    ) -> None:
        self.policy, self.source, self.coins, self.path = policy, source, coins, path
        self.stream = source if stream is None else stream
        self.desk, self.clipped, self.releases = RunnerState(), np.zeros((), dtype=np.int64), 0
        self._sums: dict[int, tuple[Floats, int]] = {}  # of every arm, and their number of users ...
        self._sums_of: tuple[Any, Any] = (None, None)  # ... of these rows, by this protocol

    def learn(self, state: Any, episode: Episode, played: PlayedRounds) -> Any:
        check_batch_size(episode, played)
        self.desk = self.desk.keep(self.policy.execution.retained_groups, played)
        return drive_learning(self.policy.learn(state, episode), lambda query: self._answer(query, played))

    def end(self, state: Any, episode: Episode, played: PlayedRounds) -> None:
        """Count the clipped reports of an episode that is not released."""
        query = next(self.policy.learn(state, episode))
        self.clipped = self.clipped + self.policy.report(query, played, self.coins).clipped

    def _answer(self, query: SumQuery, played: PlayedRounds) -> Estimate:
        self.releases += 1
        sums = query.protocol if isinstance(query.protocol, BatchProtocol) and query.protocol.sums_only else None
        if sums is not None and query.arm is not None and query.at is None and played.counts is not None:
            return sums.release_total(*self._sum_of(query, query.arm, played), self.source)
        statistic = form_reports(self.policy, query, self.desk.rows(query, played), self.coins)
        if query.group == "episode" and (query.step == 0 or query.arm is not None):  # every row once
            self.clipped = self.clipped + statistic.clipped
        if sums is not None and query.group == "episode":
            users = _max_users(statistic)  # seeds may have different numbers of users
            return sums.release_total(statistic.total(), users, self.source)
        source = self.stream if isinstance(query.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(query, statistic, source, path=self.path)
        return estimate

    def _sum_of(self, query: SumQuery, arm: int, played: PlayedRounds) -> tuple[Floats, int]:
        rows_before, protocol = self._sums_of
        if rows_before is not played or protocol is not query.protocol:
            assert played.arms is not None
            assert played.counts is not None
            each = np.count_nonzero(played.arms == played.arms[0])  # rows of an arm, which stand together
            counts = played.counts.reshape(-1, each)
            rows = PlayedRounds(rewards=played.rewards.reshape(-1, each), counts=counts)
            reports = self.policy.report(query, rows, self.coins)
            sums = zip(reports.total(), counts.sum(axis=1).tolist(), strict=True)
            self._sums = dict(zip(played.arms[::each].tolist(), sums, strict=True))
            self._sums_of = played, query.protocol
            self.clipped = self.clipped + reports.clipped.sum()
        return self._sums.get(arm, (np.zeros(query.protocol.domain.dim), 0))  # nobody was given it


def _max_users(statistic: Statistic) -> int:
    return statistic.values.shape[-2] if statistic.counts is None else int(statistic.counts.sum(axis=-1).max())


# Clients of assigned episodes


def find_fixed_arms(world: World) -> tuple[Floats, Floats] | None:
    """Return features (K, d) and means (K,) of the first seed if they never change, else None."""
    if isinstance(world, PopulationWorld):  # of the global model
        return world.arms[0], world.global_means()[0]
    if not world.fixed:
        return None
    contexts, means = read_block(world, 0, 1, unit=False)
    return contexts[0, 0], means[0, 0]


def draw_client_averages(world: World, means: Floats, episode: AssignedArms, *, each: bool) -> Floats:
    """Draw every client's averages, (clients, k); with `each`, reward by reward."""
    assert episode.clients is not None
    if isinstance(world, PopulationWorld):
        arms = world.arms[0][episode.arms]
        return np.concatenate(list(world.clients(0, arms, episode.plays, episode.clients, each=each)))
    drawn = [
        world.rewards(np.full((1, episode.clients * n), mean)).reshape(episode.clients, n).mean(axis=1)
        for mean, n in zip(means[episode.arms], episode.plays.tolist(), strict=True)
    ]
    return np.stack(drawn, axis=1)


def draw_stranger_rewards(world: World, arms: Ints, means: Floats) -> Floats:
    """Draw rewards of users of one play each, (n,); in a population each has their own model."""
    if not isinstance(world, PopulationWorld):
        return np.asarray(world.rewards(means[None])[0])
    rewards = np.empty(len(arms))
    for arm in np.unique(arms):
        mine, once = arms == arm, np.ones(1, dtype=np.int64)
        clients = world.clients(0, world.arms[0][[arm]], once, int(np.count_nonzero(mine)), each=True)
        rewards[mine] = np.concatenate(list(clients))[:, 0]
    return rewards


# The player


_PART = 4096  # users whose contexts are held at once


def play_reference(
    policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str, counterfactual: bool = False
) -> RunTotals:
    """Play `rounds` rounds; the policy learns nothing from an episode that the horizon cuts short.

    With `counterfactual` the outcomes of all arms are drawn, as some accelerated players do; this changes no law.
    """
    seeds = [ReferenceRun(policy, world, tally, place, path, counterfactual) for place in range(tally.n_seeds)]
    for seed in seeds:
        seed.run(rounds)
    counts = [policy._run_counts(seed.state) for seed in seeds]
    return RunTotals(
        releases=max(seed.releases for seed in seeds),
        users=max(seed.users for seed in seeds),
        reports=max(seed.users for seed in seeds),
        clipped=np.array([seed.answers.clipped for seed in seeds], dtype=np.int64),
        counts={name: np.array([int(each[name]) for each in counts], dtype=np.int64) for name in counts[0]},
    )


class ReferenceRun:
    """One seed: its world, the policy's state, and the `QueryAnswerer`."""

    def __init__(
        self, policy: Policy[Any], world: World, tally: Tally, place: int, path: str, counterfactual: bool
    ) -> None:
        own = Streams([world.streams.seeds[place]])
        self.policy, self.tally, self.place = policy, tally, place
        self.world = world.environment.begin(own)
        names = policy.execution.noise_stream, policy.execution.stream_noise or policy.execution.noise_stream
        noise, stream = (FastNoise(own.generators(name)[0]) for name in names)
        self.answers = QueryAnswerer(policy, noise, StreamRandomness(own).of(0), path, stream=stream)
        self.counterfactual, self.each = counterfactual, path == "messages"
        self.done, self.releases, self.users = 0, 0, 0
        self.fixed = find_fixed_arms(self.world)
        self.state = policy.init(self.fixed[0] if self.fixed else None)

    def run(self, rounds: int) -> None:
        while self.done < rounds:
            episode, left = self.policy.episode(self.state), rounds - self.done
            if isinstance(episode, StoppedByPublicData):
                rows, ended = self._collect_until_stopped(left)
            elif isinstance(episode, AssignedArms):
                whole = int(episode.plays.sum())
                rows, ended = self.assigned(episode, min(whole, left)), whole <= left
            elif not isinstance(episode, FixedLength):
                ended_early = f"an episode, because {left} of {rounds} rounds are left"
                raise InvalidArgument(f"{type(self.policy).__name__}.episode(state)", episode, ended_early)
            else:
                rows, ended = self.frozen(min(episode.users, left)), episode.users <= left
            if episode.released and ended:
                self.state = self.answers.learn(self.state, episode, rows)
                self.releases, self.users = self.releases + 1, self.done

    def _look(self, users: int) -> tuple[Floats, Floats]:
        if self.fixed is not None:
            contexts, means = (np.broadcast_to(each, (users, *each.shape)) for each in self.fixed)
            return contexts, means
        contexts, means = read_block(self.world, self.done, users, unit=False)
        return contexts[0], means[0]

    def _collect_until_stopped(self, left: int) -> tuple[PlayedRounds, bool]:
        parts: list[PlayedRounds] = []
        while len(parts) < left:
            parts.append(self.frozen(1))
            features = parts[-1].features
            assert features is not None
            assert isinstance(self.policy, PublicStoppingPolicy)
            ended = self.policy.stopping_round(self.state, features) is not None
            self.state = self.policy.advance_public(self.state, features)
            if ended:
                return PlayedRounds.joined(parts), True
        return PlayedRounds.joined(parts), False

    def frozen(self, users: int) -> PlayedRounds:
        """Play an episode in which devices choose their arms."""
        snapshot, parts = self.policy.publish(self.state), []
        for begin in range(0, users, _PART):
            contexts, means = self._look(min(_PART, users - begin))
            choice = self.policy.act(snapshot, self.policy.clip_features(contexts), self.answers.coins)
            if not isinstance(choice, Choice):
                hint = "Return bd.policies.argmax(scores, rng), or a bd.device.Choice"
                allowed = "a Choice of actions and probabilities"
                raise InvalidArgument(f"{type(self.policy).__name__}.act", ValueSummary.of(choice), allowed, hint)
            features = np.take_along_axis(contexts, choice.actions[:, None, None], axis=1)[:, 0]
            rewards = self._draw_rewards(means, choice.actions)
            parts.append(PlayedRounds(rewards=rewards, features=features, arms=choice.actions, groups=choice.groups))
        return PlayedRounds.joined(parts)

    def assigned(self, episode: AssignedArms, users: int) -> PlayedRounds:
        """Play an episode in which the server assigns the arms."""
        arms = np.repeat(episode.arms, episode.plays)
        if episode.in_turn:  # the first play of every arm, then the second ...
            turn = np.concatenate([np.arange(n) for n in episode.plays])
            arms = arms[np.argsort(turn, kind="stable")]
        contexts, means = self._look(users)
        whole, arms = users == len(arms), arms[:users]
        if episode.clients is not None:  # they answer when all has been played, and never if the end comes before
            self._note(means, arms, self._of(means, arms))
            reported = (
                draw_client_averages(self.world, means[0], episode, each=self.each)
                if whole
                else np.zeros((0, len(episode.arms)))
            )
            return PlayedRounds(rewards=reported)
        features = np.take_along_axis(contexts, arms[:, None, None], axis=1)[:, 0]
        return PlayedRounds(rewards=self._draw_rewards(means, arms), features=features, arms=arms)

    def _draw_rewards(self, means: Floats, arms: Ints) -> Floats:
        if self.counterfactual:
            rewards = self._of(self.world.rewards(means[None])[0], arms)
        else:
            rewards = draw_stranger_rewards(self.world, arms, self._of(means, arms))
        self._note(means, arms, rewards)
        return rewards

    def _note(self, means: Floats, arms: Ints, rewards: Floats) -> None:
        self.tally.of_seed(self.place, self.done, means.max(axis=1) - self._of(means, arms), rewards)
        self.tally.add_arms(arms[None], np.array([self.place]))
        self.done += len(arms)

    @staticmethod
    def _of(table: Floats, arms: Ints) -> Floats:
        return np.asarray(np.take_along_axis(table, arms[:, None], axis=1)[:, 0])
