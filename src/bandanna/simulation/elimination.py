"""Runs successive elimination, each seed by itself: as many steps as there are epochs."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.elimination import Elimination
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation.pulls import Pulls
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: Elimination, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; an epoch that the end cuts short releases nothing."""
    pulls = Pulls(world, policy.domain, tally, path=path)
    shape = tally.n_seeds
    released, users, left = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for seed, rng in enumerate(world.streams.generators("batch noise")):
        released[seed], users[seed], left[seed] = _run(policy, pulls, seed, FastNoise(rng), rounds, path)
    longest = max((policy.protocol(size).bits_per_user for size in policy.sizes), default=1) if policy.shuffled else 0
    return Run(
        guarantee=policy.guarantee,
        releases=int(np.max(released)),
        users=int(np.max(users)),
        clipped=pulls.clipped,
        repairs=np.zeros(shape, dtype=np.int64),
        bits_per_user=longest if policy.shuffled else FLOAT_BITS,
        numbers_per_user=1,
        counts={"batches": released, "arms left": left},
    )


def _run(
    policy: Elimination, pulls: Pulls, seed: int, source: FastNoise, rounds: int, path: str
) -> tuple[int, int, int]:
    """One seed: batches released, users in them, arms left at the end."""
    state, released, users = policy.init(), 0, 0
    while pulls.played[seed] < rounds:
        epoch = policy.next(state)
        playing = min(epoch.users * len(epoch.arms), rounds - int(pulls.played[seed]))
        turns = [(int(arm), int(n)) for arm, n in zip(epoch.arms, pulls.turns(seed, epoch.arms, playing), strict=True)]
        if not epoch.released or playing < epoch.users * len(epoch.arms):
            for arm, n in turns:
                pulls.sum(seed, arm, n)
            continue
        if policy.shuffled and path == "messages":
            bits = [pulls.bits(seed, arm, n) for arm, n in turns]
            state = policy.learn(state, np.zeros(len(bits)), source, bits=bits)
        else:
            play = pulls.ones if policy.shuffled else pulls.sum
            state = policy.learn(state, np.array([float(play(seed, arm, n)) for arm, n in turns]), source)
        released, users = released + len(turns), users + playing
    return released, users, int(np.count_nonzero(state.active))
