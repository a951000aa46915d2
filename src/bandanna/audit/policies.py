"""Policies as targets: by name, by place ("module:Class"), or as they stand."""

from __future__ import annotations

from typing import Any

from bandanna.audit import replay, settings
from bandanna.audit.claims import Claim, claim_of
from bandanna.audit.crowds import Search
from bandanna.audit.releases import SURE
from bandanna.audit.spy import SOURCES
from bandanna.audit.targets import SINGLE, Target
from bandanna.audit.worst import worst
from bandanna.environments.base import Environment
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy

_UNSEEN = (
    "other worlds and later rounds",
    "rewards and features between these",
    "faults that need certain rows of several people",
    "the secure noise source",
)


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
    search = Search(policy=policy, env=env, rounds=played, seed=seed)
    plain = Claim(epsilon=claimed, delta=at)
    try:
        _ = search.probe
    except BandannaError:
        raise
    except Exception:  # of the policy: does it depend on somebody's reward?
        calm = search.calmed()
        if calm is None or (why := _leak(calm, at)) is None:
            raise
        return Target(name=shown, claim=plain, leaks=SURE, why=why, looked=calm.looked, unseen=_UNSEEN)
    if (why := _leak(search, at)) is not None:
        return Target(name=shown, claim=plain, leaks=SURE, why=why, looked=search.looked, unseen=_UNSEEN)
    standard = search.standard
    if not standard.script.releases:
        raise InvalidArgument("rounds", rounds, "so many that the first user is in a release")
    others = [*search.others(), *search.suspects()]
    recordings = [standard, *(each for each in others if each.script.releases)]
    people = ", ".join(f"{each.place + 1}/{each.position + 1}" for each in recordings)
    looked = (*search.looked, f"the noise of batch/position {people}, of {SOURCES} sources, and noise used twice")
    if (bare := next((each.script.bare for each in recordings if each.script.bare), None)) is not None:
        return Target(name=shown, claim=plain, leaks=bare[1], why=bare[0], looked=looked, unseen=_UNSEEN)
    chosen = recordings[worst([each.script for each in recordings], epsilon=claimed, delta=at)]
    script = chosen.script
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
        most=SINGLE if script.alone else None,
        looked=(*looked, f"runs of batch {chosen.place + 1}, position {chosen.position + 1}"),
        unseen=_UNSEEN,
    )


def _leak(search: Search, delta: float) -> str | None:
    """What raw data reach with a probability above delta, in words; None where nothing was found."""
    policy, env = search.policy, search.env
    for difference, place, worlds in search.leaks():
        if replay.leaking(policy, env, worlds, rounds=search.rounds, delta=delta, confidence=SURE):
            return (
                f"with the same answers, {difference} differs between neighbours (batch {place.episode + 1}, position "
                f"{place.position + 1}): raw data have reached it"
            )
    return None


def policy_target(name: str, *, epsilon: float, delta: float) -> Target:
    """An algorithm by its name or place, in a small world of its own."""
    policy, setting = settings.policy_of(name, epsilon=epsilon, delta=delta)
    return of_policy(policy, setting.env, rounds=setting.rounds, name=name)
