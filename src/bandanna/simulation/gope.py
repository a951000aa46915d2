"""Runs phased elimination on fixed arms, each seed by itself: as many steps as there are phases."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.gope import GOPE
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation.pulls import Pulls
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: GOPE, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; a phase that the end cuts short is not released."""
    pulls = Pulls(world, policy.domain, tally, path=path)
    arms = world.contexts(0, 1)[:, 0]  # (S, K, d)
    phases, users, left = (np.zeros(tally.n_seeds, dtype=np.int64) for _ in range(3))
    for seed, rng in enumerate(world.streams.generators("phase noise")):
        source, state = FastNoise(rng), policy.init(arms[seed])
        while pulls.played[seed] < rounds:
            phase = policy.next(state)
            totals, begun = [], int(pulls.played[seed])
            for arm, plays in zip(phase.arms, phase.plays, strict=True):
                playing = min(int(plays), rounds - int(pulls.played[seed]))
                totals.append(pulls.one(seed, int(arm), playing))
            if phase.released and pulls.played[seed] - begun == np.sum(phase.plays):
                state = policy.learn(state, phase, np.array(totals), source)
                phases[seed], users[seed] = phases[seed] + 1, pulls.played[seed]
        left[seed] = len(state.active)
    return Run(
        guarantee=policy.guarantee,
        releases=int(np.max(phases)),
        users=int(np.max(users)),
        clipped=pulls.clipped,
        repairs=np.zeros(tally.n_seeds, dtype=np.int64),
        bits_per_user=FLOAT_BITS,
        numbers_per_user=1,
        counts={"phases": phases, "arms left": left},
    )
