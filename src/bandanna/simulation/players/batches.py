"""Plays frozen episodes with contexts: a batch is decided in blocks of rounds, then its sums are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.coins import StreamCoins
from bandanna.environments.base import World
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Played
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.players.rounds import chunks, read_all_arms
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_BYTES = 16 << 20  # contexts decided at once


def play(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; a batch that is not complete, or the last, is not released."""
    coins = StreamCoins(world.streams)
    answers = Answers(policy, ReplicatedNoise(world.streams), coins, path)
    state, clipped = policy.init(replicates=(tally.n_seeds,)), np.zeros(tally.n_seeds, dtype=np.int64)
    releases, users = 0, 0
    while tally.done < rounds:
        episode = policy.episode(state)
        playing = min(episode.users, rounds - tally.done)
        rows = _collect(policy, world, tally, playing, policy.publish(state), coins, clipped)
        if episode.released and playing == episode.users:
            state = answers.learn(state, episode, rows)
            releases, users = releases + 1, users + playing
    return Run(releases=releases, users=users, reports=rounds, clipped=clipped, counts=policy.counts(state))


def _collect(
    policy: Any, world: World, tally: Tally, rounds: int, snapshot: Any, coins: StreamCoins, clipped: Ints
) -> Played:
    """One batch with the policy frozen; adds to `clipped`."""
    parts, done = [], tally.done
    for span in chunks(world, rounds, tally.n_seeds, held=_BYTES):
        chunk = read_all_arms(world, range(done + span.start, done + span.stop), policy)
        actions = policy.act(snapshot, chunk.contexts, coins).actions  # (S, n)
        features, rewards, clips = chunk.played(actions, tally)
        clipped += clips
        parts.append((features, rewards))
    features, rewards = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return Played(features=features, rewards=rewards)
