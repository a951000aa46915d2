"""The simulator: freeze, collect, release, learn - for many seeds at once, exact in law.

Between two releases the policy is frozen, so a whole episode is processed at once: for fixed arms every user of an
episode takes the same action and only the sum of the rewards matters; for fresh contexts the argmax of a block of
users is one matrix product.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.domain import Statistic
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.linucb import LinUCB, Snapshot
from bandanna.simulation.result import Result, checkpoints_for

Floats = NDArray[np.float64]

_BLOCK_BYTES = 64 << 20  # contexts held at once


@dataclass
class _Tally:
    """Cumulative regret and reward, sampled at the checkpoints."""

    checkpoints: NDArray[np.int64]
    regret: Floats  # (S, checkpoints)
    total: Floats  # (S,): regret so far
    rewards: Floats  # (S,)
    done: int = 0  # rounds

    def steady(self, gaps: Floats, rounds: int) -> None:
        """`rounds` rounds with the same expected loss each: (S,)."""
        inside = (self.checkpoints > self.done) & (self.checkpoints <= self.done + rounds)
        ahead = self.checkpoints[inside] - self.done
        self.regret[:, inside] = self.total[:, None] + gaps[:, None] * ahead
        self.total = self.total + gaps * rounds
        self.done += rounds

    def varying(self, gaps: Floats) -> None:
        """Rounds with losses (S, rounds)."""
        running = self.total[:, None] + np.cumsum(gaps, axis=1)
        inside = (self.checkpoints > self.done) & (self.checkpoints <= self.done + gaps.shape[1])
        self.regret[:, inside] = running[:, self.checkpoints[inside] - self.done - 1]
        self.total = running[:, -1]
        self.done += gaps.shape[1]


def simulate(
    policy: LinUCB,
    env: Environment,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
) -> Result:
    """Run `policy` in worlds of seeds seed, ..., seed + n_seeds - 1; seed s gives the same run in any company.

    path="law" draws aggregates where their law is known exactly, path="messages" runs every message of the protocol.
    """
    if env.dim != policy.dim:
        raise InvalidArgument("env.dim", env.dim, f"the policy's dim, {policy.dim}")
    require.one_of("path", path, ("law", "messages"))
    began = time.perf_counter()
    streams = Streams(range(seed, seed + require.whole("n_seeds", n_seeds)))
    world, source = env.begin(streams), ReplicatedNoise(streams)
    marks = checkpoints_for(policy.horizon, checkpoints)
    tally = _Tally(marks, np.zeros((n_seeds, len(marks))), np.zeros(n_seeds), np.zeros(n_seeds))
    state, clipped = policy.init((n_seeds,)), np.zeros(n_seeds, dtype=np.int64)
    sizes = policy.channel.sizes
    while tally.done < policy.horizon:
        planned = sizes[state.running.batches] if state.running.batches < len(sizes) else None
        rounds = policy.horizon - tally.done if planned is None else planned
        state, snapshot = policy.publish(state)
        statistic = _episode(policy, world, snapshot, rounds, tally, grouped=path == "law")
        if planned is not None:  # a shorter last batch is never released
            clipped = clipped + statistic.clipped
            state = policy.learn(state, statistic, source, path=path)
    return Result(
        checkpoints=marks,
        regret=tally.regret,
        rewards=tally.rewards,
        releases=state.running.batches,
        clipped=clipped,
        repairs=state.repairs,
        bits_per_user=policy.channel.bits_per_user,
        guarantee=policy.guarantee,
        seconds=time.perf_counter() - began,
        seeds=streams.seeds,
    )


def _episode(
    policy: LinUCB, world: World, snapshot: Snapshot, rounds: int, tally: _Tally, *, grouped: bool
) -> Statistic:
    """Collect one episode with the policy frozen."""
    if world.fixed:
        return _fixed_episode(policy, world, snapshot, rounds, tally, grouped=grouped)
    n_seeds, arms, d = len(tally.total), world.n_arms, policy.dim
    block = max(1, _BLOCK_BYTES // (8 * n_seeds * arms * d))
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
    return Statistic(values=values, clipped=np.sum([part.clipped for part in parts], axis=0))


def _fixed_episode(
    policy: LinUCB, world: World, snapshot: Snapshot, rounds: int, tally: _Tally, *, grouped: bool
) -> Statistic:
    """All users of the episode face the same arms and take the same action."""
    contexts = world.contexts(tally.done, 1)  # (S, 1, K, d)
    actions = policy.act(snapshot, contexts)[:, 0]  # (S,)
    means = world.means(contexts)[:, 0]  # (S, K)
    seeds = np.arange(len(actions))
    chosen, features = means[seeds, actions], contexts[seeds, 0, actions]  # (S,), (S, d)
    tally.steady(np.max(means, axis=1) - chosen, rounds)
    if grouped and world.binary and rounds > 1:
        ones = world.reward_sums(chosen, rounds).astype(np.int64)
        tally.rewards += ones
        both = policy.statistic(np.repeat(features[:, None], 2, axis=1), np.tile([1.0, 0.0], (len(seeds), 1)))
        counts = np.stack([ones, rounds - ones], axis=1)
        return Statistic(values=both.values, clipped=both.clipped, counts=counts)
    rewards = world.rewards(np.repeat(chosen[:, None], rounds, axis=1))
    tally.rewards += np.sum(rewards, axis=1)
    return policy.statistic(np.repeat(features[:, None], rounds, axis=1), rewards)
