"""Plays policies on finite arms that learn in every round: all seeds side by side, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import StreamCoins
from bandanna.environments.base import World
from bandanna.environments.rewards import Bernoulli
from bandanna.errors import InvalidArgument
from bandanna.kernels import compiled
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Assigned, Played, Policy
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_ROUNDS = 4096  # whose rewards are drawn at once


def play(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds, one after the other; both paths are the same."""
    if not world.fixed:
        raise InvalidArgument("env", type(world.environment).__name__, "arms that stay the same in every round")
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    gaps, seeds = table.max(axis=1, keepdims=True) - table, np.arange(tally.n_seeds)
    nothing = np.zeros((tally.n_seeds, 1, table.shape[1], 0))  # features of arms that have none
    if loop := _kernel_for(policy, world, rounds):
        return _by_kernel(loop, policy, world, tally, rounds, table)
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


def _kernel_for(policy: Any, world: World, rounds: int) -> Callable[..., None] | None:
    """The kernel that plays so many rounds on tallies; None where NumPy does."""
    drawn = isinstance(world.environment.reward, Bernoulli) and type(world).rewards is World.rewards
    told = getattr(policy, "bonuses", None)
    return compiled("tallies", rounds=rounds) if drawn and told and told(0, 1) is not None else None


def _by_kernel(loop: Callable[..., None], policy: Any, world: World, tally: Tally, rounds: int, table: Floats) -> Run:
    """The same rounds, whose rewards are drawn ahead."""
    means, reward = np.require(table, requirements=["C", "W"]), world.environment.reward
    sums, pulls = np.zeros(table.shape), np.zeros(table.shape)
    assert isinstance(reward, Bernoulli)
    for first in range(0, rounds, _ROUNDS):
        count = min(_ROUNDS, rounds - first)
        uniforms = np.require(reward.numbers((count,), world.streams), requirements=["C", "W"])
        actions, rewards = np.empty(uniforms.shape, dtype=np.int64), np.empty(uniforms.shape)
        loop(means, uniforms, policy.bonuses(first, count), first, sums, pulls, actions, rewards)
        tally.varying(table.max(axis=1, keepdims=True) - np.take_along_axis(table, actions, axis=1))
        tally.rewards += rewards.sum(axis=1)
    clipped = np.zeros(tally.n_seeds, dtype=np.int64)
    return Run(releases=rounds, users=rounds, clipped=clipped, numbers_per_user=1)
