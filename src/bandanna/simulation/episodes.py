"""Runs finite-armed policies that decide once per episode: as many steps as there are episodes, all seeds at once."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.ucb_episodes import UCBEpisodes
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation.pulls import Pulls
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally


def run(policy: UCBEpisodes, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; seeds whose last episode is cut short release nothing of it."""
    pulls = Pulls(world, policy.domain, tally, path=path)
    source = ReplicatedNoise(world.streams)
    state = policy.init((tally.n_seeds,))
    episodes = np.zeros(tally.n_seeds, dtype=np.int64)
    while np.any(pulls.played < rounds):
        arms, users = policy.episode(state)
        playing = np.minimum(users, rounds - pulls.played)
        sums = pulls.all(arms, playing)
        ended = (playing == users) & (pulls.played < rounds)  # what ends with the run decides nothing: not released
        state = policy.learn(state, sums, source, ended=ended)
        episodes += ended
    return Run(
        guarantee=policy.guarantee,
        releases=int(np.max(episodes)),
        users=int(np.max(state.rounds)),
        clipped=pulls.clipped,
        repairs=np.zeros(tally.n_seeds, dtype=np.int64),
        bits_per_user=FLOAT_BITS,
        numbers_per_user=1,
        counts={"episodes": episodes},
    )
