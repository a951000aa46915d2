"""Runs a linear contextual policy: freeze, collect, release, learn, a whole episode at a time.

Between two releases the policy is frozen: for fixed arms every user of an episode takes the same action, or one of
those that are tied, and only the sum of the rewards matters; for fresh contexts a block of users is decided at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arriving import Arriving
from bandanna.core.coins import StreamCoins
from bandanna.core.domain import Statistic
from bandanna.environments.base import World, read
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.anytime import Anytime
from bandanna.policies.linucb import LinUCB, Snapshot
from bandanna.simulation.fixed_arms import FixedArms
from bandanna.simulation.noise import running_noise
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_BLOCK_BYTES = 8 << 20  # contexts held at once
_PART = 4096  # users whose reports are held at once; the same for any number of seeds, as are then their sums


@dataclass(frozen=True, kw_only=True)
class _Done:
    releases: int
    users: int
    clipped: NDArray[np.int64]  # (S,)
    repairs: NDArray[np.int64]  # (S,)


def run(policy: LinUCB | Anytime, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds."""
    done = _by_noise(policy, world, tally, rounds) if world.fixed and path == "law" else None
    done = done or _by_releases(policy, world, tally, rounds, path=path)
    channel = policy.channel if isinstance(policy, LinUCB) else policy.first.channel
    return Run(
        guarantee=policy.guarantee,
        releases=done.releases,
        users=done.users,
        clipped=done.clipped,
        repairs=done.repairs,
        bits_per_user=channel.bits_per_user,
        numbers_per_user=policy.domain.dim,
    )


def _by_noise(policy: LinUCB | Anytime, world: World, tally: Tally, rounds: int) -> _Done | None:
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
        sizes = running.channel.sizes
        made, repaired = arms.run(running, noise, tally, min(left, sizes.users) if running is not policy else left)
        releases, users, phase = releases + made, users + sizes.before(made), phase + 1
        repairs += repaired
    return _Done(releases=releases, users=users, clipped=arms.clipped, repairs=repairs)


def _by_releases(policy: LinUCB | Anytime, world: World, tally: Tally, rounds: int, *, path: str) -> _Done:
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
        if episode.released and playing == episode.users:
            state = policy.learn(state, statistic, source, path=path)
            clipped, users, releases = clipped + statistic.clipped, users + playing, releases + 1
        else:  # a shorter last batch is played, but never released
            deque(statistic.parts(), maxlen=0)
    return _Done(releases=releases, users=users, clipped=clipped, repairs=state.repairs)


def _collect(policy: LinUCB | Anytime, world: World, snapshot: Snapshot, rounds: int, tally: Tally) -> Statistic:
    """One episode with the policy frozen. Long ones are played while they are read, in parts."""
    if rounds <= _PART or policy.privacy.model == "concurrent":  # whose shufflers read a batch several times
        return _part(policy, world, snapshot, rounds, tally)
    sizes = (min(_PART, rounds - begin) for begin in range(0, rounds, _PART))
    parts = (_part(policy, world, snapshot, size, tally) for size in sizes)
    return Arriving(policy.domain, users=rounds, source=parts, replicates=(tally.n_seeds,))


def _part(policy: LinUCB | Anytime, world: World, snapshot: Snapshot, rounds: int, tally: Tally) -> Statistic:
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
        tally.varying(np.max(means, axis=2) - chosen)
        tally.rewards += np.sum(rewards, axis=1)
        parts.append(policy.statistic(features, rewards))
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts], axis=-2)
    return policy.domain.sealed(values, clipped=np.sum([part.clipped for part in parts], axis=0))
