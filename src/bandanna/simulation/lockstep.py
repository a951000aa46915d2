"""Runs policies that learn in every round: all seeds side by side, round by round."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World
from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.simulation import rarely
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: GLMUCB | GLOC | ECOLog, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; there are no messages, both paths are the same."""
    seeds, everyone = tally.n_seeds, np.arange(tally.n_seeds)
    state, clipped = policy.init((seeds,)), np.zeros(seeds, dtype=np.int64)
    for span in rarely.chunks(policy, world, rounds, seeds):
        chunk = rarely.read(world, span, policy.model.reward_bound)
        losses = chunk.best[..., None] - chunk.means  # (S, n, K)
        gaps = np.empty((seeds, len(span)))
        for t in range(len(span)):
            contexts = chunk.contexts[:, t]
            actions = policy.act(state, contexts)  # type: ignore[arg-type]
            rewards = chunk.outcomes[everyone, t, actions]
            gaps[:, t] = losses[everyone, t, actions]
            tally.rewards += rewards
            clipped += chunk.clipped(everyone, np.full(seeds, t), actions)
            state = policy.learn(state, contexts[everyone, actions], rewards)  # type: ignore[arg-type]
        tally.varying(gaps)
    return Run(
        guarantee=policy.guarantee,
        releases=0,
        users=rounds,
        reports=rounds,
        clipped=clipped,
        repairs=np.zeros(seeds, dtype=np.int64),
        bits_per_user=0,
    )
