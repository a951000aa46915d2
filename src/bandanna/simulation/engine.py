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
from bandanna.policies.linucb import LinUCB, Snapshot, clipped_rewards
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
    passed: int = 0  # checkpoints

    def steady(self, gaps: Floats, rounds: int) -> None:
        """`rounds` rounds with the same expected loss each: (S,)."""
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + rounds:
            self.regret[:, self.passed] = self.total + gaps * (self.checkpoints[self.passed] - self.done)
            self.passed += 1
        self.total = self.total + gaps * rounds
        self.done += rounds

    def varying(self, gaps: Floats) -> None:
        """Rounds with losses (S, rounds)."""
        running = self.total[:, None] + np.cumsum(gaps, axis=1)
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + gaps.shape[1]:
            self.regret[:, self.passed] = running[:, self.checkpoints[self.passed] - self.done - 1]
            self.passed += 1
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
    arms = _FixedArms(policy, world, grouped=path == "law") if world.fixed else None
    while tally.done < policy.horizon:
        planned = sizes[state.running.batches] if state.running.batches < len(sizes) else None
        rounds = policy.horizon - tally.done if planned is None else planned
        state, snapshot = policy.publish(state)
        statistic = _episode(policy, world, snapshot, rounds, tally, arms=arms)
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
        users=sum(sizes[: state.running.batches]),
        numbers_per_user=policy.domain.dim,
    )


def _episode(
    policy: LinUCB, world: World, snapshot: Snapshot, rounds: int, tally: _Tally, *, arms: _FixedArms | None
) -> Statistic:
    """Collect one episode with the policy frozen."""
    if arms is not None:
        return arms.episode(policy, world, snapshot, rounds, tally)
    block = max(1, _BLOCK_BYTES // (8 * len(tally.total) * world.n_arms * policy.dim))
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


class _FixedArms:
    """Arms that never change: all users of an episode take the same action, so means and reports are tabulated once."""

    def __init__(self, policy: LinUCB, world: World, *, grouped: bool) -> None:
        self.contexts = world.contexts(0, 1)  # (S, 1, K, d)
        self.means = world.means(self.contexts)[:, 0]  # (S, K)
        self.gaps = np.max(self.means, axis=1, keepdims=True) - self.means  # (S, K)
        self.seeds = np.arange(len(self.means))
        self.arms = self.contexts[:, 0]  # (S, K, d)
        self.grouped = grouped and world.binary
        ones = policy.statistic(self.arms, np.ones(self.arms.shape[:2]))
        self.reports = ones.values  # (S, K, dim): at reward 1; the vector part is proportional to the reward
        self.clips = np.linalg.norm(self.arms, axis=-1) > 1 + 1e-9  # (S, K)

    def episode(self, policy: LinUCB, world: World, snapshot: Snapshot, rounds: int, tally: _Tally) -> Statistic:
        """One action for every seed; rewards one by one, or their sum where only that matters."""
        actions = policy.act(snapshot, self.contexts)[:, 0]  # (S,)
        chosen = self.means[self.seeds, actions]
        tally.steady(self.gaps[self.seeds, actions], rounds)
        report = self.reports[self.seeds, actions]  # (S, dim)
        clipped = self.clips[self.seeds, actions] * rounds
        if self.grouped and rounds > 1:
            ones = world.reward_sums(chosen, rounds).astype(np.int64)  # (S,)
            tally.rewards += ones
            values = np.stack([report, self._scaled(policy, report, np.zeros((len(ones), 1)))[:, 0]], axis=1)
            return policy.domain.sealed(values, clipped=clipped, counts=np.stack([ones, rounds - ones], axis=1))
        rewards = world.rewards(np.broadcast_to(chosen[:, None], (len(chosen), rounds)))
        tally.rewards += np.sum(rewards, axis=1)
        return policy.domain.sealed(self._scaled(policy, report, rewards), clipped=clipped + clipped_rewards(rewards))

    @staticmethod
    def _scaled(policy: LinUCB, report: Floats, rewards: Floats) -> Floats:
        """Reports of one arm with rewards clipped to [0, 1]: (S, dim), (S, rounds) -> (S, rounds, dim)."""
        values = np.repeat(report[:, None], rewards.shape[1], axis=1)
        values[..., : policy.dim] *= np.clip(rewards, 0.0, 1.0)[..., None]
        return values
