"""Runs batched generalised linear policies: a batch is decided in blocks of rounds, then released as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.environments.base import World
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.glm.b_glinucb import BGLinUCB
from bandanna.policies.glm.batched import BatchEstimate
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.simulation import rarely
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]

_BYTES = 16 << 20  # contexts decided at once


def run(policy: GLMSDP | BGLinUCB, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; a batch that is not complete, or the last, is not released."""
    source, seeds = ReplicatedNoise(world.streams), tally.n_seeds
    earlier: list[BatchEstimate] = []
    repairs, users, clipped = np.zeros(seeds, dtype=np.int64), 0, np.zeros(seeds, dtype=np.int64)
    for batch, size in enumerate(policy.sizes):
        playing = min(size, rounds - tally.done)
        if playing <= 0:
            break
        features, weights, rewards = _collect(policy, world, tally, playing, earlier, clipped)
        if playing < size or batch == len(policy.sizes) - 1:
            break
        estimate, repaired = policy.learn(batch, features, weights, rewards, earlier, source, path=path)
        earlier, repairs, users = [*earlier, estimate], repairs + repaired, users + size
    return Run(
        guarantee=policy.guarantee,
        releases=len(earlier),
        users=users,
        reports=rounds,
        clipped=clipped,
        repairs=repairs,
        bits_per_user=policy.bits_per_user,
        counts={
            "explorations": np.full(seeds, min(policy.sizes[0], rounds)),
            "switches": np.full(seeds, len(earlier)),
        },
    )


def _collect(
    policy: GLMSDP | BGLinUCB,
    world: World,
    tally: Tally,
    rounds: int,
    earlier: list[BatchEstimate],
    clipped: NDArray[np.int64],
) -> tuple[Floats, Floats, Floats]:
    """One batch with the policy frozen: features (S, n, d), weights w(x) and rewards (S, n); adds to `clipped`."""
    seeds, every = tally.n_seeds, max(1, _BYTES // (8 * tally.n_seeds * world.n_arms * policy.dim))
    parts = []
    for begin in range(0, rounds, every):
        count = min(every, rounds - begin)
        chunk = rarely.read(world, range(tally.done, tally.done + count), policy.model.reward_bound)
        actions = policy.act(chunk.contexts, earlier, world.streams.uniform("designs", (count,)))  # (S, n)
        x = np.take_along_axis(chunk.contexts, actions[..., None, None], axis=2)[:, :, 0]
        means = np.take_along_axis(chunk.means, actions[..., None], axis=2)[..., 0]
        earned = np.take_along_axis(chunk.outcomes, actions[..., None], axis=2)[..., 0]
        weights = policy.arm_weights(x[:, :, None], earlier[0])[..., 0] if earlier else np.ones((seeds, count))
        tally.varying(chunk.best - means)
        tally.rewards += np.sum(earned, axis=1)
        if chunk.clips is not None:
            clipped += np.sum(np.take_along_axis(chunk.clips, actions[..., None], axis=2), axis=(1, 2))
        parts.append((x, weights, earned))
    features, weights, rewards = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return features, weights, rewards
