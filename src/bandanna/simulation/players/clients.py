"""Who answers in an assigned episode of one seed: clients with averages over all plays, or another user for each."""

from __future__ import annotations

import numpy as np

from bandanna.environments.base import World, read
from bandanna.environments.population import PopulationWorld
from bandanna.policies.base import Assigned, Floats, Ints


def arms_that_stay(world: World) -> tuple[Floats, Floats] | None:
    """Features (K, d) and means (K,) of the first seed, where they are the same in every round."""
    if isinstance(world, PopulationWorld):  # of the global model
        return world.arms[0], world.global_means()[0]
    if not world.fixed:
        return None
    contexts, means = read(world, 0, 1, unit=False)
    return contexts[0, 0], means[0, 0]


def averages(world: World, means: Floats, episode: Assigned, *, each: bool) -> Floats:
    """Of every client its averages, (clients, k), for arms of these means (K,); `each`: reward by reward."""
    assert episode.clients is not None
    if isinstance(world, PopulationWorld):
        arms = world.arms[0][episode.arms]
        return np.concatenate(list(world.clients(0, arms, episode.plays, episode.clients, each=each)))
    drawn = [
        world.rewards(np.full((1, episode.clients * n), mean)).reshape(episode.clients, n).mean(axis=1)
        for mean, n in zip(means[episode.arms], episode.plays.tolist(), strict=True)
    ]
    return np.stack(drawn, axis=1)


def strangers(world: World, arms: Ints, means: Floats) -> Floats:
    """Rewards of users of one play each, (n,): of a population, each with a model of its own."""
    if not isinstance(world, PopulationWorld):
        return np.asarray(world.rewards(means[None])[0])
    rewards = np.empty(len(arms))
    for arm in np.unique(arms):
        mine, once = arms == arm, np.ones(1, dtype=np.int64)
        clients = world.clients(0, world.arms[0][[arm]], once, int(np.count_nonzero(mine)), each=True)
        rewards[mine] = np.concatenate(list(clients))[:, 0]
    return rewards
