"""The simulator: freeze, collect, release, learn - for many seeds at once, exact in law.

Between two releases the policy is frozen, so a whole episode is processed at once: for fixed arms every user of an
episode takes the same action and only the sum of the rewards matters; for fresh contexts the argmax of a block of
users is one matrix product.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.domain import Statistic
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.anytime import Anytime
from bandanna.policies.linucb import LinUCB, Snapshot
from bandanna.simulation.fixed_arms import FixedArms
from bandanna.simulation.noise import running_noise
from bandanna.simulation.result import Result, checkpoints_for
from bandanna.simulation.tally import Tally

_BLOCK_BYTES = 64 << 20  # contexts held at once


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What a run leaves behind, besides the tally."""

    releases: int
    users: int  # in released batches
    clipped: NDArray[np.int64]  # (S,)
    repairs: NDArray[np.int64]  # (S,)


def simulate(
    policy: LinUCB | Anytime,
    env: Environment,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
    horizon: int | None = None,
) -> Result:
    """Run `policy` in worlds of seeds seed, ..., seed + n_seeds - 1; seed s gives the same run in any company.

    path="law" draws aggregates where their law is known exactly, path="messages" runs every message of the protocol.
    `horizon`: rounds to play, the policy's own by default; an anytime policy has none and needs it.
    """
    if env.dim != policy.dim:
        raise InvalidArgument("env.dim", env.dim, f"the policy's dim, {policy.dim}")
    require.one_of("path", path, ("law", "messages"))
    rounds = _rounds(policy, horizon)
    began = time.perf_counter()
    streams = Streams(range(seed, seed + require.whole("n_seeds", n_seeds)))
    world = env.begin(streams)
    tally = Tally(checkpoints=checkpoints_for(rounds, checkpoints), n_seeds=n_seeds)
    run = _by_noise(policy, world, tally, rounds) if world.fixed and path == "law" else None
    run = run or _by_releases(policy, world, tally, rounds, path=path)
    channel = policy.channel if isinstance(policy, LinUCB) else policy.first.channel
    return Result(
        checkpoints=tally.checkpoints,
        regret=tally.regret,
        rewards=tally.rewards,
        releases=run.releases,
        clipped=run.clipped,
        repairs=run.repairs,
        bits_per_user=channel.bits_per_user,
        guarantee=policy.guarantee,
        seconds=time.perf_counter() - began,
        seeds=streams.seeds,
        users=run.users,
        numbers_per_user=policy.domain.dim,
    )


def _rounds(policy: LinUCB | Anytime, horizon: int | None) -> int:
    if horizon is None:
        if policy.horizon is None:
            raise InvalidArgument("horizon", None, "a number of rounds: an anytime policy has no horizon of its own")
        return policy.horizon
    rounds = require.whole("horizon", horizon)
    if policy.horizon is not None and rounds > policy.horizon:
        raise InvalidArgument("horizon", horizon, f"at most the policy's, {policy.horizon}")
    return rounds


def _by_noise(policy: LinUCB | Anytime, world: World, tally: Tally, rounds: int) -> _Run | None:
    """Fixed arms, noise that does not depend on the data: exact sums plus that noise. None if it does depend."""
    source = ReplicatedNoise(world.streams)
    arms = FixedArms(policy, world)
    releases, users, phase = 0, 0, 0
    repairs = np.zeros(tally.n_seeds, dtype=np.int64)
    while tally.done < rounds:
        running = policy.phase(phase) if isinstance(policy, Anytime) else policy
        noise = running_noise(running.channel, source, (tally.n_seeds,))
        if noise is None:
            return None
        left = rounds - tally.done
        made, repaired = arms.run(
            running, noise, tally, min(left, sum(running.channel.sizes)) if running is not policy else left
        )
        releases, users, phase = releases + made, users + sum(running.channel.sizes[:made]), phase + 1
        repairs += repaired
    return _Run(releases=releases, users=users, clipped=arms.clipped, repairs=repairs)


def _by_releases(policy: LinUCB | Anytime, world: World, tally: Tally, rounds: int, *, path: str) -> _Run:
    """Every batch through its channel."""
    source = ReplicatedNoise(world.streams)
    arms = FixedArms(policy, world) if world.fixed else None
    releases, users, clipped = 0, 0, np.zeros(tally.n_seeds, dtype=np.int64)
    state: Any = policy.init((tally.n_seeds,))
    while tally.done < rounds:
        episode = policy.episode(state)
        assert episode is not None  # rounds are at most the policy's horizon
        playing = min(episode.users, rounds - tally.done)
        state, snapshot = policy.publish(state)
        if arms is not None:
            statistic = arms.statistic(policy, snapshot, playing, tally, grouped=path == "law")
        else:
            statistic = _collect(policy, world, snapshot, playing, tally)
        if episode.released and playing == episode.users:  # a shorter last batch is never released
            clipped, users, releases = clipped + statistic.clipped, users + playing, releases + 1
            state = policy.learn(state, statistic, source, path=path)
    return _Run(releases=releases, users=users, clipped=clipped, repairs=state.repairs)


def _collect(policy: LinUCB | Anytime, world: World, snapshot: Snapshot, rounds: int, tally: Tally) -> Statistic:
    """One episode with the policy frozen, in blocks of fresh contexts."""
    block = max(1, _BLOCK_BYTES // (8 * tally.n_seeds * world.n_arms * policy.dim))
    parts = []
    for begin in range(0, rounds, block):
        count = min(block, rounds - begin)
        contexts = world.contexts(tally.done, count)  # (S, count, K, d)
        actions = policy.act(snapshot, contexts)  # (S, count)
        means = world.means(contexts)  # (S, count, K)
        chosen = np.take_along_axis(means, actions[..., None], axis=2)[..., 0]
        features = np.take_along_axis(contexts, actions[..., None, None], axis=2)[:, :, 0]
        rewards = world.rewards(chosen)
        tally.varying(np.max(means, axis=2) - chosen)
        tally.rewards += np.sum(rewards, axis=1)
        parts.append(policy.statistic(features, rewards))
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts], axis=-2)
    return policy.domain.sealed(values, clipped=np.sum([part.clipped for part in parts], axis=0))
