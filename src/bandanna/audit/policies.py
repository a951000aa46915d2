"""Policies as targets: by name, by place ("module:Class"), or as they stand."""

from __future__ import annotations

from typing import Any

from bandanna.audit import replay, settings
from bandanna.audit.claims import Claim, claim_of
from bandanna.audit.targets import CLEAR, Target
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Policy

_SURE = 0.95  # that a policy which differs in replays does so with more than delta


def of_policy(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int | None = None,
    name: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
) -> Target:
    """A policy at its stated guarantee, or at an epsilon that somebody claims, by record and replay in a world."""
    stated = policy.guarantee
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    shown = name or type(policy).__name__
    if not policy.privacy.noisy and epsilon is None:
        return Target(name=shown, claim=Claim(epsilon=stated.epsilon, delta=at))
    played = policy.horizon if rounds is None else rounds
    if played is None:
        raise InvalidArgument("rounds", rounds, "how many rounds to play: the policy has no horizon")
    recording, last = (replay.recorded(policy, env, rounds=played, seed=seed, whose=whose) for whose in (0, -1))
    for whose, each in ((0, recording), (-1, last)):
        if each.difference and replay.leaking(policy, env, rounds=played, delta=at, confidence=_SURE, whose=whose):
            why = f"with the same answers, {each.difference} is another for a neighbour: raw data have reached it"
            return Target(name=shown, claim=Claim(epsilon=claimed, delta=at), leaks=_SURE, why=why)
    script = recording.script
    if not script.releases:
        raise InvalidArgument("rounds", rounds, "so many that the first user is in a release")
    if script.leaks is not None:
        return Target(name=shown, claim=Claim(epsilon=claimed, delta=at), leaks=script.leaks, why=CLEAR)
    return Target(
        name=shown,
        claim=claim_of(script.event, epsilon=claimed, delta=at),
        draw=script.draw,
        scored=script.scored,
        chunk=script.chunk,
        mu=script.mu,
        pure=script.pure,
        pairs=script.pairs,
        through=tuple(sorted({each.protocol.name for each in script.releases})),
    )


def policy_target(name: str, *, epsilon: float, delta: float) -> Target:
    """An algorithm by its name or place, in a small world of its own."""
    policy, setting = settings.policy_of(name, epsilon=epsilon, delta=delta)
    return of_policy(policy, setting.env, rounds=setting.rounds, name=name)
