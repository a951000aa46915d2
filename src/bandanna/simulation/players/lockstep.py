"""Plays policies on finite arms that learn in every round: all seeds side by side, round by round."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.coins import StreamCoins
from bandanna.environments.base import World
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Assigned, Played, Policy
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def play(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds, one after the other; both paths are the same."""
    if not world.fixed:
        raise InvalidArgument("env", type(world.environment).__name__, "arms that stay the same in every round")
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    gaps, seeds = table.max(axis=1, keepdims=True) - table, np.arange(tally.n_seeds)
    nothing = np.zeros((tally.n_seeds, 1, table.shape[1], 0))  # features of arms that have none
    coins = StreamCoins(world.streams)
    answers = Answers(policy, ReplicatedNoise(world.streams), coins, "messages")
    state = policy.init(replicates=(tally.n_seeds,))
    while tally.done < rounds:
        episode = policy.episode(state)
        if isinstance(episode, Assigned):
            arms = episode.arms
        else:
            assert episode is not None  # rounds are at most the policy's horizon
            arms = policy.act(policy.publish(state), nothing, coins).actions
        chosen = arms[:, 0]
        rewards = world.rewards(table[seeds, chosen][:, None])  # (S, 1)
        tally.steady(gaps[seeds, chosen], 1)
        tally.chose_often(chosen, 1)
        tally.rewards += rewards[:, 0]
        state = answers.learn(state, episode, Played(rewards=rewards, arms=arms))
    return Run(releases=rounds, users=rounds, clipped=answers.clipped, numbers_per_user=1)
