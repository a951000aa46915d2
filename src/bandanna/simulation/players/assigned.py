"""Plays episodes in which the server says what is played: as many steps as there are episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.coins import StreamCoins
from bandanna.environments.base import World
from bandanna.mechanisms.sources import FastNoise
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Assigned, Policy, blended
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.players.pulls import Pulls
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def play(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; an episode that the end cuts short releases nothing."""
    pulls = Pulls(world, getattr(policy, "domain", None), tally, path=path)
    played = _side_by_side if policy.side_by_side else _one_by_one
    releases, users, counts = played(policy, world, pulls, rounds, path)
    return Run(releases=releases, users=users, clipped=pulls.clipped, numbers_per_user=1, counts=counts)


def _side_by_side(
    policy: Policy[Any], world: World, pulls: Pulls, rounds: int, path: str
) -> tuple[int, int, dict[str, NDArray[np.int64]]]:
    """All seeds at once, each at its own pace."""
    seeds = len(pulls.played)
    answers = Answers(policy, ReplicatedNoise(world.streams), StreamCoins(world.streams), path)
    state = policy.init(replicates=(seeds,))
    releases, users = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)
    while np.any(pulls.played < rounds):
        episode = policy.episode(state)
        assert isinstance(episode, Assigned)
        (plays,) = episode.plays.T  # one arm at a time
        playing = np.minimum(plays, rounds - pulls.played)
        rows = pulls.side_by_side(episode.arms[:, 0], playing)
        ended = (playing == plays) & (pulls.played < rounds)  # what ends with the run decides nothing: not released
        state = blended(ended, answers.learn(state, episode, rows), state)
        releases, users = releases + ended, np.where(ended, pulls.played, users)
    return int(releases.max()), int(users.max()), policy.counts(state)


def _one_by_one(
    policy: Policy[Any], world: World, pulls: Pulls, rounds: int, path: str
) -> tuple[int, int, dict[str, NDArray[np.int64]]]:
    """Seeds whose episodes differ in kind, each by itself."""
    arms, coins = world.contexts(0, 1)[:, 0], StreamCoins(world.streams)
    releases, users, counts = [], [], []
    for seed, rng in enumerate(world.streams.generators(policy.noise_stream)):
        answers = Answers(policy, FastNoise(rng), coins.of(seed), path)
        state, last = policy.init(arms[seed]), 0
        while pulls.played[seed] < rounds:
            episode = policy.episode(state)
            assert isinstance(episode, Assigned)
            whole = int(episode.plays.sum())
            playing = min(whole, rounds - int(pulls.played[seed]))
            rows = pulls.one(seed, episode.arms, episode.plays, playing, in_turn=episode.in_turn)
            if episode.released and playing == whole:
                state, last = answers.learn(state, episode, rows), int(pulls.played[seed])
        releases.append(answers.releases)
        users.append(last)
        counts.append(policy.counts(state))
    return max(releases), max(users), {name: np.array([int(each[name]) for each in counts]) for name in counts[0]}
