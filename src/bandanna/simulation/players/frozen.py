"""Plays policies on linear reports a whole episode at a time, all seeds side by side.

Between two releases the policy is frozen: for fixed arms every user of an episode takes the same action, or one of
those that are tied, and only the sum of the rewards matters; for fresh contexts a block of users is decided at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.arriving import Arriving
from bandanna.core.coins import StreamCoins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.environments.base import World, read
from bandanna.loop import Desk, close
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Ask, Frozen, RunningSums
from bandanna.simulation.players.fixed_arms import FixedArms
from bandanna.simulation.players.noise import Ahead, running_noise
from bandanna.simulation.players.optimists import Optimists, kernel_for
from bandanna.simulation.players.sampled_arms import SampledArms
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_BLOCK_BYTES = 8 << 20  # contexts held at once
_PART = 4096  # users whose reports are held at once; the same for any number of seeds, as are then their sums
_REPORT_BYTES = 256 << 20  # of one seed: from 127 features on


def play(policy: RunningSums[Any], world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds."""
    done = _by_noise(policy, world, tally, rounds) if path == "law" else None
    releases, users, clipped, repairs = done or _by_releases(policy, world, tally, rounds, path=path)
    return Run(
        guarantee=policy.guarantee,
        releases=releases,
        users=users,
        reports=users,
        clipped=clipped,
        repairs=repairs,
        bits_per_user=policy.bits_per_user,
        numbers_per_user=policy.domain.dim,
    )


def _by_noise(policy: RunningSums[Any], world: World, tally: Tally, rounds: int) -> tuple[int, int, Ints, Ints] | None:
    """Exact sums plus noise that does not depend on the data. None if it does, or meets fresh arms in NumPy."""
    source, arms = ReplicatedNoise(world.streams), None
    releases, users, (clipped, repairs) = 0, 0, np.zeros((2, tally.n_seeds), dtype=np.int64)
    for running in policy.phases():
        left, sizes = rounds - tally.done, running.channel.sizes
        playing = min(left, sizes.users) if policy.horizon is None else left
        alone = world.fixed or running is policy
        kernel = kernel_for(running, world, playing) if alone else None
        ahead = Ahead.of(running.channel, source, tally.n_seeds, running.domain.dim) if kernel else None
        noise = running_noise(running.channel, source, (tally.n_seeds,)) if world.fixed and not kernel else None
        if ahead is None and noise is None:
            return None
        if kernel and ahead is not None:
            made, repaired, moved = Optimists(kernel, running, world, ahead, tally).run(playing)
            clipped = clipped + moved
        elif noise is not None:
            arms = arms or _arms(policy, world)
            made, repaired = arms.run(running, noise, tally, playing)
        releases, users, repairs = releases + made, users + sizes.before(made), repairs + repaired
        if tally.done == rounds:
            break
    return releases, users, clipped + arms.clipped if arms else clipped, repairs


def _by_releases(
    policy: RunningSums[Any], world: World, tally: Tally, rounds: int, *, path: str
) -> tuple[int, int, Ints, Ints]:
    """Every batch by its protocol."""
    arms, server = _arms(policy, world) if world.fixed else None, _Server(world, tally.n_seeds, path)
    releases, users, state = 0, 0, policy.init(replicates=(tally.n_seeds,))
    while tally.done < rounds:
        episode, snapshot = policy.episode(state), policy.publish(state)
        assert isinstance(episode, Frozen)  # rounds are at most the policy's horizon
        playing = min(episode.users, rounds - tally.done)
        if arms is not None:
            statistic = arms.statistic(policy, snapshot, playing, tally, grouped=path == "law")
        else:
            statistic = _collect(policy, world, snapshot, playing, tally)
        if episode.released and playing == episode.users:
            state = close(policy.learn(state, episode), server.answer(statistic))
            users, releases = users + playing, releases + 1
        else:  # a shorter last batch is played, but never released
            deque(statistic.parts(), maxlen=0)
    return releases, users, server.clipped, policy.counts(state)["repairs"]


def _arms(policy: RunningSums[Any], world: World) -> FixedArms:
    """A set of arms that stays."""
    return FixedArms(policy, world) if policy.steady else SampledArms(policy, world)


class _Server:
    """Answers asks about an episode whose reports are formed while they are read."""

    def __init__(self, world: World, seeds: int, path: str) -> None:
        self.source, self.path, self.desk = ReplicatedNoise(world.streams), path, Desk()
        self.clipped = np.zeros(seeds, dtype=np.int64)

    def answer(self, statistic: Statistic) -> Callable[[Ask], Estimate]:
        """The one ask of an episode."""

        def release(ask: Ask) -> Estimate:
            self.desk, estimate = self.desk.release(ask, statistic, self.source, path=self.path)
            self.clipped = self.clipped + statistic.clipped
            return estimate

        return release


def _part_of(policy: RunningSums[Any]) -> int:
    """Users whose reports are held at once: fewer where reports are long."""
    return min(_PART, max(1, _REPORT_BYTES // (8 * policy.domain.dim)))


def _collect(policy: RunningSums[Any], world: World, snapshot: Any, rounds: int, tally: Tally) -> Statistic:
    """One episode with the policy frozen. Long ones are played while they are read, in parts."""
    most = _part_of(policy)
    if rounds <= most or policy.privacy.model == "concurrent":  # whose shufflers read a batch several times
        return _part(policy, world, snapshot, rounds, tally)
    sizes = (min(most, rounds - begin) for begin in range(0, rounds, most))
    parts = (_part(policy, world, snapshot, size, tally) for size in sizes)
    return Arriving(policy.domain, users=rounds, source=parts, replicates=(tally.n_seeds,))


def _part(policy: RunningSums[Any], world: World, snapshot: Any, rounds: int, tally: Tally) -> Statistic:
    """Some rounds, in blocks of fresh contexts."""
    coins = StreamCoins(world.streams)
    block = max(1, _BLOCK_BYTES // (8 * tally.n_seeds * world.n_arms * policy.dim))
    parts = []
    for begin in range(0, rounds, block):
        count = min(block, rounds - begin)
        contexts, means = read(world, tally.done, count)  # (S, count, K, d), (S, count, K)
        actions = policy.act(snapshot, contexts, coins).actions  # (S, count)
        chosen = np.take_along_axis(means, actions[..., None], axis=2)[..., 0]
        features = np.take_along_axis(contexts, actions[..., None, None], axis=2)[:, :, 0]
        rewards = world.rewards(chosen)
        tally.varying(means.max(axis=2) - chosen)
        tally.chose(actions)
        tally.rewards += rewards.sum(axis=1)
        parts.append(policy.statistic(features, rewards, actions))
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts], axis=-2)
    return policy.domain.sealed(values, clipped=np.sum([part.clipped for part in parts], axis=0))
