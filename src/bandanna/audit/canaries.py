"""One run of a policy in which every user of the first batch is a canary: see `one_run` for the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.accounting.events import NothingEvent
from bandanna.audit.claims import Claim
from bandanna.audit.neighbours import FAR, rows_apart
from bandanna.audit.one_run import one_run_bound
from bandanna.audit.replay import play, protects_features
from bandanna.audit.result import CONSISTENT, NEVER, REFUTED, Row
from bandanna.core.arrays import Floats
from bandanna.core.coins import NoCoins
from bandanna.environments.base import Environment
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Played, Policy
from bandanna.protocols.base import BatchProtocol, StreamProtocol

_CANARIES = 4000  # in the local model, where every report is seen


def one_run(
    name: str,
    policy: Policy[Any],
    env: Environment,
    rounds: int,
    *,
    confidence: float,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
    canaries: int = _CANARIES,
) -> Row:
    """Toss a coin for each of many people, release once, and guess all coins.

    Where the server is not trusted, it sees every report, and so many people are asked. Elsewhere the people of the
    first batch have features of their own, e_1, e_2, ..., and a coin says whether their reward is the largest or the
    least: of as many as the features have coordinates, every coin moves another coordinate of the sum.
    """
    stated, private = policy.guarantee, protects_features(policy)
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    probe = play(policy, env, rounds=rounds, seed=seed)
    first = probe.episodes[0][1]
    ask = next(each.ask for each in probe.asks if not isinstance(each.ask.protocol.event, NothingEvent))
    protocol, rng = ask.protocol, np.random.default_rng([seed, *name.encode()])
    local = protocol.trust == "local"
    if local:
        pair = rows_apart(policy, [ask], first.at(slice(0, 1)), private=private)
        both = [np.tile(policy.report(ask, row, NoCoins()).values, (canaries, 1)) for row in pair]
    else:
        both = _spread(policy, ask, first)
    values = np.stack(both)  # (2, m, dim)
    people = values.shape[1]
    coins = rng.integers(0, 2, people)
    reports = values[coins, np.arange(people)]
    batch = reports[:, None] if local else reports[None]  # in the local model everybody is a batch
    statistic = protocol.domain.sealed(np.array(batch), clipped=np.zeros(batch.shape[:1], dtype=np.int64))
    source = FastNoise(rng)
    if isinstance(protocol, BatchProtocol):
        total = protocol.release(statistic, source).total
    else:
        assert isinstance(protocol, StreamProtocol)
        total = protocol.release(protocol.begin(batch.shape[:1]), statistic, source)[1].total
    moves, middle = values[1] - values[0], (values[0] + values[1]) / 2
    centred = total - (middle if local else middle.sum(axis=0))
    scores = np.sum(centred * moves, axis=-1)
    right = int(np.count_nonzero((scores >= 0) == (coins == 1)))
    bound = one_run_bound(right, guesses=people, canaries=people, delta=at, confidence=confidence)
    refuted = bound > claimed
    return Row(
        target=f"{name}, one-run",
        known=None,
        claim=Claim(epsilon=claimed, delta=at),
        lower_bound=bound,
        confidence=confidence,
        trials=1,
        verdict=REFUTED if refuted else CONSISTENT,
        attack="one-run",
        looked_at=f"{people} people who are asked at once, with one pair of rows each; totals alone",
        not_looked_at="; ".join(("other rows, fields, states and snapshots", *NEVER)),
        reached=bound / claimed,
    )


def _spread(policy: Policy[Any], ask: Ask, first: Played) -> list[Floats]:
    """Reports of the first batch's people, under either reward, whose features are different unit vectors."""
    people, features = len(first.rewards), first.features
    if features is not None:
        constant = bool(getattr(policy, "intercept", False))
        slopes = features.shape[-1] - constant
        features = np.zeros_like(features)
        features[np.arange(people), np.arange(people) % slopes] = 1.0
        if constant:
            features[:, -1] = 1.0
    both = []
    for reward in (-FAR, FAR):
        rows = replace(first, rewards=np.full(first.rewards.shape, reward), features=features)
        both.append(np.array(policy.report(ask, rows, NoCoins()).values))
    return both
