"""Plays policies that learn from contexts in every round: all seeds side by side, round by round."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.coins import StreamCoins
from bandanna.core.estimate import Estimate
from bandanna.environments.base import World
from bandanna.loop import close
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Ask, Played
from bandanna.protocols.base import BatchProtocol
from bandanna.simulation.players.rounds import chunks, read_all_arms
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def play(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds, one after the other; both paths are the same."""
    everyone = np.arange(tally.n_seeds)
    coins, source = StreamCoins(world.streams), ReplicatedNoise(world.streams)
    state, clipped, done = policy.init(replicates=(tally.n_seeds,)), np.zeros(tally.n_seeds, dtype=np.int64), 0
    room = rounds if policy.keeps else 0
    features, rewards = np.zeros((tally.n_seeds, room, policy.dim)), np.zeros((tally.n_seeds, room))

    def answer(ask: Ask) -> Estimate:
        assert isinstance(ask.protocol, BatchProtocol)
        held = row if ask.of == "episode" else Played(features=features[:, :done], rewards=rewards[:, :done])
        return ask.protocol.release(policy.report(ask, held, coins), source, path=path)

    for span in chunks(world, rounds, tally.n_seeds):
        chunk = read_all_arms(world, span, policy)
        actions = np.empty((tally.n_seeds, len(span)), dtype=np.int64)
        for t in range(len(span)):
            seen = chunk.contexts[:, t : t + 1]
            chosen = policy.act(policy.publish(state), seen, coins).actions
            arms = actions[:, t] = chosen[:, 0]
            row = Played(features=seen[everyone, 0, arms][:, None], rewards=chunk.outcomes[everyone, t, arms][:, None])
            done += 1
            if policy.keeps:
                features[:, done - 1], rewards[:, done - 1] = row.features[:, 0], row.rewards[:, 0]  # type: ignore[index]
            state = close(policy.learn(state, policy.episode(state)), answer)
        clipped += chunk.played(actions, tally)[2]
    releases = 0 if policy.privacy.model == "none" else rounds
    return Run(releases=releases, users=rounds, reports=rounds, clipped=clipped, counts=policy.counts(state))
