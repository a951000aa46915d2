"""Runs finite-armed policies that decide in every round, all seeds side by side."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.ldp_ucb import LDPUCB
from bandanna.policies.thompson import Thompson
from bandanna.policies.ucb1 import UCB1
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: UCB1 | Thompson | LDPUCB, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds, one after the other; both paths are the same."""
    if not world.fixed:
        raise InvalidArgument("env", type(world.environment).__name__, "arms that stay the same in every round")
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    gaps, seeds = np.max(table, axis=1, keepdims=True) - table, np.arange(tally.n_seeds)
    source = ReplicatedNoise(world.streams)
    clipped = np.zeros(tally.n_seeds, dtype=np.int64)
    state = policy.init((tally.n_seeds,))
    while tally.done < rounds:
        arms = policy.act(state, world.streams) if isinstance(policy, Thompson) else policy.act(state)
        rewards = world.rewards(table[seeds, arms][:, None])[:, 0]
        tally.steady(gaps[seeds, arms], 1)
        tally.rewards += rewards
        clipped += np.abs(rewards - policy.domain.project(rewards)) > 1e-9
        state = policy.learn(state, arms, rewards, source)
    return Run(
        guarantee=policy.guarantee,
        releases=rounds,
        users=rounds,
        clipped=clipped,
        repairs=np.zeros(tally.n_seeds, dtype=np.int64),
        bits_per_user=1 if isinstance(policy, LDPUCB) else FLOAT_BITS,
        numbers_per_user=1,
    )
