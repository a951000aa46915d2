"""Plays policies on finite arms that learn in every round by compiled kernels: draws ahead, tallies after.

For rewards of 0 or 1 that are told as they are, or as bits that may lie. The numbers are those of `lockstep`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import GAMMA_ACCEPTANCES, GAMMA_PROPOSALS, StreamCoins, accepted
from bandanna.environments.base import World
from bandanna.environments.rewards import Bernoulli
from bandanna.kernels import compiled
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_ROUNDS = 4096  # whose rewards are drawn at once
_BYTES = 16 << 20  # of proposals at once
_PROPOSALS = 3  # of a gamma number, as `coins.gamma` draws them


def kernel_for(policy: Any, world: World, rounds: int) -> Callable[..., Any] | None:
    """The kernel that plays so many rounds of this policy in this world; None where NumPy does."""
    drawn = isinstance(world.environment.reward, Bernoulli) and type(world).rewards is World.rewards
    name = getattr(policy, "kernel", None)
    return compiled(name, rounds=rounds) if drawn and name in _SPANS else None


def play(loop: Callable[..., Any], policy: Any, world: World, tally: Tally, rounds: int) -> Run:
    """Play `rounds` rounds."""
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    span, most = _SPANS[policy.kernel]
    sums, pulls = np.zeros(table.shape), np.zeros(table.shape)
    size = most(table)
    reward = world.environment.reward
    assert isinstance(reward, Bernoulli)
    for first in range(0, rounds, size):
        count = min(size, rounds - first)
        uniforms = _own(reward.numbers((count,), world.streams))
        actions, rewards = np.empty(uniforms.shape, dtype=np.int64), np.empty(uniforms.shape)
        span(loop, policy, world, first, (_own(table), uniforms), (sums, pulls, actions, rewards))
        tally.varying(table.max(axis=1, keepdims=True) - np.take_along_axis(table, actions, axis=1))
        tally.chose(actions)
        tally.rewards += rewards.sum(axis=1)
    clipped = np.zeros(tally.n_seeds, dtype=np.int64)
    return Run(releases=rounds, users=rounds, clipped=clipped, numbers_per_user=1)


def _optimistic(
    loop: Callable[..., None],
    policy: Any,
    world: World,
    first: int,
    drawn: tuple[Floats, Floats],
    held: tuple[Any, ...],
) -> None:
    """Rounds of a policy with bonuses, and with answers that may be lies."""
    count, lies = drawn[1].shape[1], policy.lies
    coins, chances, told = np.empty((0, 0)), np.array([0.0, 1.0]), np.array([0.0, 1.0])
    if lies is not None:
        (chances, told), seeds = lies, len(drawn[1])
        coins = _own(ReplicatedNoise(world.streams).uniform((seeds, count)))
    loop(*drawn, coins, chances, told, policy.bonuses(first, count), first, *held)


def _sampled(
    loop: Callable[..., bool],
    policy: Any,
    world: World,
    first: int,
    drawn: tuple[Floats, Floats],
    held: tuple[Any, ...],
) -> None:
    """Rounds of Thompson sampling: a gamma number whose proposals were all refused is drawn by NumPy."""
    sums, pulls = held[:2]
    shape = drawn[1].shape[1], 2 * sums.shape[1], _PROPOSALS
    normals = _own(world.streams.normal(GAMMA_PROPOSALS, shape))
    acceptances = _own(world.streams.uniform(GAMMA_ACCEPTANCES, shape))
    place, gammas, coins = np.zeros(3, dtype=np.int64), np.empty(shape[1]), StreamCoins(world.streams)
    while loop(*drawn, normals, acceptances, place, gammas, *held):
        s, t = int(place[0]), int(place[1])
        shapes = np.concatenate([1 + sums[s], 1 + pulls[s] - sums[s]])
        gammas[:] = accepted(shapes, normals[s, t], acceptances[s, t], coins.of(s))
        place[2] = 1


def _own(array: Floats) -> Floats:
    """As kernels take it: in order, and to be written."""
    return np.require(array, requirements=["C", "W"])


def _few(table: Floats) -> int:
    """Rounds whose proposals fit."""
    return max(1, min(_ROUNDS, _BYTES // (8 * table.size * 2 * _PROPOSALS)))


_SPANS: dict[str, tuple[Callable[..., None], Callable[[Floats], int]]] = {
    "tallies": (_optimistic, lambda table: _ROUNDS),
    "thompson": (_sampled, _few),
}
