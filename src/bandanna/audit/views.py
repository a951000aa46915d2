"""What others see in joint privacy: published snapshots alone, or other people's actions and their probabilities.

The first episode, with the canary in it, is answered many times under either neighbour; what is learned is published,
and somebody else acts on it. All of it is a function of the releases, so that it never tells more than they do: an
audit of a view shows how much of the price an onlooker really gets to see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.audit.claims import Claim, claim_of
from bandanna.audit.replay import other_contexts, play, recorded
from bandanna.audit.targets import Target
from bandanna.audit.values import arrays
from bandanna.core.arrays import Floats
from bandanna.core.coins import GeneratorCoins
from bandanna.core.estimate import Estimate
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.loop import Desk, close
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Frozen, Played, Policy, RunningSums
from bandanna.simulation.players.clients import arms_that_stay

VIEWS = ("releases", "snapshot", "actions", "one-run")
_OTHERS = 2  # people who act on the snapshot
_LOOKED = "the first user of the first batch, with one pair of rows as far apart as we can make them"
_UNSEEN = ("other people and rows", "later batches", "the secure noise source")


def view_target(
    policy: Policy[Any],
    env: Environment,
    *,
    name: str,
    view: str,
    rounds: int,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
) -> Target:
    """A policy as somebody sees it who gets its snapshots, or watches what others do; at what it states, or another."""
    stated = policy.guarantee
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    if not policy.privacy.noisy:
        return Target(name=f"{name}, {view}", claim=Claim(epsilon=claimed, delta=at))
    recording = recorded(policy, env, rounds=rounds, seed=seed)
    lives: list[Played] = []
    for canary in recording.worlds:
        first = replace(canary, rounds=np.zeros(1, dtype=np.int64))
        seen = play(policy, env, rounds=rounds, seed=seed, canaries=first, forced=recording.first.asks)
        lives.append(seen.episodes[0][1])
    fixed = arms_that_stay(env.begin(Streams([seed + 1])))
    contexts = other_contexts(env, seed=seed + 1, people=_OTHERS)
    begun = policy.init(fixed[0] if fixed else None)
    episode = policy.episode(begun)
    if view == "actions" and not isinstance(episode, Frozen):
        raise InvalidArgument("view", view, f"snapshot: in {name} the server says what is played")
    together = isinstance(policy, RunningSums)

    def learned(life: Played, rng: np.random.Generator, replicates: tuple[int, ...]) -> Any:
        desk, coins = Desk().keep(policy.keeps, life), GeneratorCoins(lambda _: rng)

        def answer(ask: Ask) -> Estimate:
            nonlocal desk
            values = policy.report(ask, desk.rows(ask, life), coins).values
            repeated = np.array(np.broadcast_to(values, (*replicates, *values.shape)))
            statistic = ask.protocol.domain.sealed(repeated, clipped=np.zeros(replicates, dtype=np.int64))
            desk, estimate = desk.release(ask, statistic, FastNoise(rng), path="messages")
            return estimate

        start = policy.init(fixed[0] if fixed else None, replicates)
        return policy.publish(close(policy.learn(start, episode), answer))

    def shown(snapshot: Any, rng: np.random.Generator, replicates: tuple[int, ...]) -> Floats:
        if view == "snapshot":
            parts = [np.asarray(each, dtype=float) for each in arrays(snapshot)]
            kept = [np.broadcast_to(each, (*replicates, *each.shape[len(replicates) :])) for each in parts]
            return np.concatenate([each.reshape(*replicates, -1) for each in kept], axis=-1)
        given = np.broadcast_to(contexts, (*replicates, *contexts.shape))
        choice = policy.act(snapshot, policy.seen(given), GeneratorCoins(lambda _: rng))
        taken = choice.actions[..., None] == np.arange(contexts.shape[-2])
        chances = np.broadcast_to(np.asarray(choice.probabilities, dtype=float), choice.actions.shape)
        flat = taken.reshape(*replicates, -1).astype(float)
        return np.concatenate([flat, chances.reshape(*replicates, -1)], axis=-1)

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        life = lives[int(swapped)]
        if together:
            return shown(learned(life, rng, (runs,)), rng, (runs,))
        return np.stack([shown(learned(life, rng, ()), rng, ()) for _ in range(runs)])

    claim = claim_of(recording.script.event, epsilon=claimed, delta=at)
    chunk = min(recording.script.chunk, 4096) if together else 256
    return Target(name=f"{name}, {view}", claim=claim, draw=draw, chunk=chunk, looked=(_LOOKED,), unseen=_UNSEEN)
