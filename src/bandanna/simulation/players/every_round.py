"""Plays policies that learn from contexts in every round: all seeds side by side, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.core.coins import StreamCoins
from bandanna.core.estimate import Estimate
from bandanna.environments.base import World
from bandanna.environments.glm import FreshGLM
from bandanna.kernels import SMALL, compiled
from bandanna.kernels.scene import Scene
from bandanna.loop import close
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.base import Ask, Played
from bandanna.protocols.base import BatchProtocol
from bandanna.simulation.players.rounds import chunks, read_all_arms
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_HELD = 16 << 20  # bytes of what a kernel reads at once
_ROUNDS = 4096  # that it draws at once


def play(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds, one after the other; both paths are the same."""
    room = rounds if policy.keeps else 0
    rows = Played(features=np.zeros((tally.n_seeds, room, policy.dim)), rewards=np.zeros((tally.n_seeds, room)))
    loop = compiled(policy.kernel, rounds=rounds) if policy.kernel and policy.dim <= SMALL else None
    if loop:
        state, clipped = _compiled(loop, policy, world, tally, rounds, rows)
    else:
        state, clipped = _one_by_one(policy, world, tally, rounds, rows, path)
    releases = 0 if policy.privacy.model == "none" else rounds
    return Run(releases=releases, users=rounds, reports=rounds, clipped=clipped, counts=policy.counts(state))


def _compiled(
    loop: Callable[..., bool], policy: Any, world: World, tally: Tally, rounds: int, rows: Played
) -> tuple[Any, Ints]:
    """By a kernel, which draws the arms itself where it can: they never leave the cache. State, clips (S,)."""
    state, clipped = policy.init(replicates=(tally.n_seeds,)), np.zeros(tally.n_seeds, dtype=np.int64)
    drawing = world if type(world) is FreshGLM and policy.sees_unit and world.scene(1) else None
    begins = range(0, rounds, _ROUNDS)
    spans = [range(begin, min(begin + _ROUNDS, rounds)) for begin in begins] if drawing else None
    for span in spans or chunks(world, rounds, tally.n_seeds, held=_HELD):
        if drawing and (scene := drawing.scene(len(span))):
            state = policy.many(loop, state, scene, rows)
            drawing.drawn(scene)
            tally.chose(scene.actions)
            tally.varying(scene.losses)
            tally.rewards += scene.rewards.sum(axis=1)
        else:
            chunk = read_all_arms(world, span, policy)
            scene = Scene.given(chunk.contexts, chunk.outcomes)
            state = policy.many(loop, state, scene, rows)
            clipped += chunk.played(scene.actions, tally)[2]
    return state, clipped


def _one_by_one(policy: Any, world: World, tally: Tally, rounds: int, rows: Played, path: str) -> tuple[Any, Ints]:
    """By the policy's own `act` and `learn`: state, clips (S,)."""
    everyone = np.arange(tally.n_seeds)
    coins, source = StreamCoins(world.streams), ReplicatedNoise(world.streams)
    state, clipped, done = policy.init(replicates=(tally.n_seeds,)), np.zeros(tally.n_seeds, dtype=np.int64), 0
    features, rewards = rows.features, rows.rewards
    assert features is not None

    def answer(ask: Ask) -> Estimate:
        assert isinstance(ask.protocol, BatchProtocol)
        held = row if ask.of == "episode" else Played(features=features[:, :done], rewards=rewards[:, :done])
        return ask.protocol.release(policy.report(ask, held, coins), source, path=path)

    for span in chunks(world, rounds, tally.n_seeds):
        chunk = read_all_arms(world, span, policy)
        actions = np.empty((tally.n_seeds, len(span)), dtype=np.int64)
        for t in range(len(span)):
            seen = chunk.contexts[:, t : t + 1]
            chosen = policy.act(policy.publish(state), seen, coins).actions
            arms = actions[:, t] = chosen[:, 0]
            row = Played(features=seen[everyone, 0, arms][:, None], rewards=chunk.outcomes[everyone, t, arms][:, None])
            done += 1
            if policy.keeps:
                features[:, done - 1], rewards[:, done - 1] = row.features[:, 0], row.rewards[:, 0]  # type: ignore[index]
            state = close(policy.learn(state, policy.episode(state)), answer)
        clipped += chunk.played(actions, tally)[2]
    return state, clipped
