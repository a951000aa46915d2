"""Plays any policy by its interface alone, one seed after the other: the loop as it is meant.

Every other player is an exact acceleration of this one. It is what runs a policy of one's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import StreamCoins
from bandanna.core.streams import Streams
from bandanna.environments.base import World, read
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Assigned, Frozen, Played, Policy, Until
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.players.clients import arms_that_stay, averages, strangers
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_PART = 4096  # users whose contexts are held at once


def play(
    policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str, counterfactual: bool = False
) -> Run:
    """Play `rounds` rounds; an episode that the end cuts short teaches nothing.

    counterfactual: draw what every arm would earn, as some accelerated players do; this changes no law.
    """
    seeds = [Seed(policy, world, tally, place, path, counterfactual) for place in range(tally.n_seeds)]
    for seed in seeds:
        seed.run(rounds)
    counts = [policy.counts(seed.state) for seed in seeds]
    return Run(
        releases=max(seed.releases for seed in seeds),
        users=max(seed.users for seed in seeds),
        reports=max(seed.users for seed in seeds),
        clipped=np.array([seed.answers.clipped for seed in seeds], dtype=np.int64),
        counts={name: np.array([int(each[name]) for each in counts], dtype=np.int64) for name in counts[0]},
    )


class Seed:
    """One seed: its world, its policy's state, and the runner's desk."""

    def __init__(
        self, policy: Policy[Any], world: World, tally: Tally, place: int, path: str, counterfactual: bool
    ) -> None:
        own = Streams([world.streams.seeds[place]])
        self.policy, self.tally, self.place = policy, tally, place
        self.world = world.environment.begin(own)
        names = policy.noise_stream, policy.stream_noise or policy.noise_stream
        noise, stream = (FastNoise(own.generators(name)[0]) for name in names)
        self.answers = Answers(policy, noise, StreamCoins(own).of(0), path, stream=stream)
        self.counterfactual, self.each = counterfactual, path == "messages"
        self.done, self.releases, self.users = 0, 0, 0
        self.fixed = arms_that_stay(self.world)
        self.state = policy.init(self.fixed[0] if self.fixed else None)

    def run(self, rounds: int) -> None:
        """Freeze, collect, release, learn."""
        while self.done < rounds:
            episode, left = self.policy.episode(self.state), rounds - self.done
            if isinstance(episode, Until):
                rows, ended = self._until(left)
            elif isinstance(episode, Assigned):
                whole = int(episode.plays.sum())
                rows, ended = self.assigned(episode, min(whole, left)), whole <= left
            elif not isinstance(episode, Frozen):
                ended_early = f"one that goes on: {left} of {rounds} rounds are left, of which it says nothing"
                raise InvalidArgument(f"{type(self.policy).__name__}.episode(state)", episode, ended_early)
            else:
                rows, ended = self.frozen(min(episode.users, left)), episode.users <= left
            if episode.released and ended:
                self.state = self.answers.learn(self.state, episode, rows)
                self.releases, self.users = self.releases + 1, self.done

    def _look(self, users: int) -> tuple[Floats, Floats]:
        """Contexts (users, K, d) and means (users, K) of the next rounds."""
        if self.fixed is not None:
            contexts, means = (np.broadcast_to(each, (users, *each.shape)) for each in self.fixed)
            return contexts, means
        contexts, means = read(self.world, self.done, users, unit=False)
        return contexts[0], means[0]

    def _until(self, left: int) -> tuple[Played, bool]:
        """Devices choose until what is public says that the episode is over; whether it is."""
        parts: list[Played] = []
        while len(parts) < left:
            parts.append(self.frozen(1))
            features = parts[-1].features
            assert features is not None
            ended = self.policy.crossing(self.state, features) is not None
            self.state = self.policy.passed(self.state, features)
            if ended:
                return Played.joined(parts), True
        return Played.joined(parts), False

    def frozen(self, users: int) -> Played:
        """Devices choose for themselves."""
        snapshot, parts = self.policy.publish(self.state), []
        for begin in range(0, users, _PART):
            contexts, means = self._look(min(_PART, users - begin))
            choice = self.policy.act(snapshot, self.policy.seen(contexts), self.answers.coins)
            features = np.take_along_axis(contexts, choice.actions[:, None, None], axis=1)[:, 0]
            rewards = self._earn(means, choice.actions)
            parts.append(Played(rewards=rewards, features=features, arms=choice.actions, groups=choice.groups))
        return Played.joined(parts)

    def assigned(self, episode: Assigned, users: int) -> Played:
        """The server says what is played."""
        arms = np.repeat(episode.arms, episode.plays)
        if episode.in_turn:  # the first play of every arm, then the second ...
            turn = np.concatenate([np.arange(n) for n in episode.plays])
            arms = arms[np.argsort(turn, kind="stable")]
        contexts, means = self._look(users)
        whole, arms = users == len(arms), arms[:users]
        if episode.clients is not None:  # they answer when all has been played, and never if the end comes before
            self._note(means, arms, self._of(means, arms))
            told = (
                averages(self.world, means[0], episode, each=self.each) if whole else np.zeros((0, len(episode.arms)))
            )
            return Played(rewards=told)
        features = np.take_along_axis(contexts, arms[:, None, None], axis=1)[:, 0]
        return Played(rewards=self._earn(means, arms), features=features, arms=arms)

    def _earn(self, means: Floats, arms: Ints) -> Floats:
        """Rewards of these arms, (n,)."""
        if self.counterfactual:
            rewards = self._of(self.world.rewards(means[None])[0], arms)
        else:
            rewards = strangers(self.world, arms, self._of(means, arms))
        self._note(means, arms, rewards)
        return rewards

    def _note(self, means: Floats, arms: Ints, rewards: Floats) -> None:
        """Regret and rewards go to the seed's row of the tally."""
        self.tally.of_seed(self.place, self.done, means.max(axis=1) - self._of(means, arms), rewards)
        self.tally.chose(arms[None], np.array([self.place]))
        self.done += len(arms)

    @staticmethod
    def _of(table: Floats, arms: Ints) -> Floats:
        """What a table (n, K) says of the arms (n,)."""
        return np.asarray(np.take_along_axis(table, arms[:, None], axis=1)[:, 0])
