"""Runs AdaC-OFUL-JDP, each seed by itself: a public batch at a time, the policy frozen within it."""

from __future__ import annotations

import numpy as np

from bandanna.core.streams import Streams
from bandanna.environments.base import World
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.oful_jdp import OFULJDP
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation.oful import Player
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: OFULJDP, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; a batch that the end cuts short is not released."""
    assert policy.batch is not None
    switches, batches, clipped, repairs = (np.zeros(tally.n_seeds, dtype=np.int64) for _ in range(4))
    for place, (seed, rng) in enumerate(zip(world.streams.seeds, world.streams.generators("oful"), strict=True)):
        own = Player(world.environment.begin(Streams([seed])), tally, place)
        source, state = FastNoise(rng), policy.init()
        while own.played < rounds:
            n = min(policy.batch, rounds - own.played)
            contexts, means = own.look(n)
            actions = policy.act(state, contexts)
            rewards = own.play(means, actions)
            if n == policy.batch and state.batches < policy.horizon // policy.batch:
                state, count = policy.learn(state, contexts[np.arange(n), actions], rewards, source)
                clipped[place] += count
        switches[place], batches[place], repairs[place] = state.switches, state.batches, state.repairs
    numbers = policy.dim + policy.matrix.domain.dim
    return Run(
        guarantee=policy.guarantee,
        releases=int(np.max(batches)),
        users=int(np.max(batches)) * policy.batch,
        reports=int(np.max(batches)) * policy.batch,
        clipped=clipped,
        repairs=repairs,
        bits_per_user=FLOAT_BITS * numbers,
        numbers_per_user=numbers,
        counts={"switches": switches},
    )
