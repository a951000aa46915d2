"""What an agent asks of its policy before it runs: noise, calibrated protocols, and whether the budget pays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.accounting.events import ContinualEvent, Event, plain
from bandanna.accounting.factorisation import BLT, begun
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.sizes import Sizes
from bandanna.errors import BandannaError, BudgetExceeded, InvalidArgument, InvalidStatistic
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.policies.base import Ask, Policy, RunningSums
from bandanna.protocols.channel import Channel

_ROUNDING = 1e-9


def first_ask(policy: Policy[Any], state: Any) -> Ask | None:
    """What is asked first about the episode of a state; None if it is not released."""
    episode = policy.episode(state)
    return None if episode is None or not episode.released else next(policy.learn(state, episode), None)


def noise_for(seed: int | None) -> tuple[NoiseSource, np.random.Generator | None]:
    """Secure noise; or seeded noise and its generator."""
    if seed is None:
        return SecureNoise(), None
    rng = np.random.Generator(np.random.PCG64(seed))
    return FastNoise(rng), rng


def affordable(policy: Policy[Any]) -> None:
    """Refuse a policy whose noise is not enough for its own budget, such as a paper's printed constants."""
    stated = next(policy.phases()).guarantee if isinstance(policy, RunningSums) else policy.guarantee
    budget, often = policy.privacy.budget, policy.privacy.participations
    if policy.keeps and often > 1:
        allowed = "1 where a policy keeps rows for later: somebody's reports would be in one sum"
        raise InvalidArgument("participations", often, allowed)
    if budget is not None and not _keeps(stated, budget):
        raise BudgetExceeded(
            f"the policy's noise is not proven to keep {budget} for {policy.privacy.participations} participations: "
            'use calibration="tight", and batches of one size for returning users'
        )


def _keeps(stated: Guarantee, budget: Budget) -> bool:
    """Whether what is promised is within the budget."""
    room = 1 + _ROUNDING
    if isinstance(budget, ZCDP):
        return stated.rho <= budget.rho * room
    if isinstance(budget, RenyiDP):
        return stated.rho * budget.alpha <= budget.epsilon * room
    if isinstance(budget, PureDP):
        return stated.epsilon <= budget.epsilon * room and stated.delta == 0.0
    return isinstance(budget, ApproxDP) and stated.epsilon <= budget.epsilon * room and stated.delta <= budget.delta


def release_seconds(policy: Policy[Any], ask: Ask | None, users: int, *, secure: bool) -> float:
    """The estimated time of the longest release that is planned, or of the next one."""
    pairs = [(ask.protocol, users)] if ask is not None else []
    if isinstance(policy, RunningSums):
        pairs = [(each, size) for channel in policy.calibrated().values() for size, each in channel.protocols.items()]
    return max((protocol.draws(size).seconds(secure=secure) for protocol, size in pairs), default=0.0)


def reward_of(reward: Any, name: str = "reward") -> float:
    """A finite number; True and False are 1 and 0."""
    if type(reward) is float and math.isfinite(reward):
        return reward
    if isinstance(reward, bool | np.bool_):
        return float(reward)
    return require.finite(name, reward, "a finite number; the slot is still open", error=InvalidStatistic)


def as_begun(policy: Policy[Any], events: Iterable[Event]) -> Policy[Any]:
    """The policy with the streams of these releases, where a search on this machine has found others.

    Policies on running sums keep their channels (`calibrations`); what others search for is in their releases.
    """
    if isinstance(policy, RunningSums):
        return policy
    atoms = {plain(atom) for event in set(events) for atom in accountant.atoms(event)}
    streams = [atom for atom in atoms if isinstance(atom, ContinualEvent)]
    if any(_in_other_digits(*pair) for pair in combinations(streams, 2)):
        raise BandannaError("the journal has half a stream of one noise and half of another, which has no price")
    known = [each.factorisation for each in streams if isinstance(each.factorisation, BLT)]
    if all(each == BLT.optimal(horizon=each.horizon) for each in known):
        return policy
    again: Policy[Any] = replace(policy)  # type: ignore[type-var]  # nothing searched yet
    with begun(known):
        _ = again.guarantee
    return again


def _in_other_digits(one: ContinualEvent, other: ContinualEvent) -> bool:
    """Whether two events must be one stream, searched for on two machines."""
    alike = replace(one, factorisation=other.factorisation, std=other.std, grid=other.grid) == other
    same_length = one.factorisation.horizon == other.factorisation.horizon
    return alike and same_length and math.isclose(one.std, other.std, rel_tol=1e-3)


def phases_of(policy: Policy[Any]) -> int:
    """How many `calibrations` there are by now."""
    return len(policy.calibrated()) if isinstance(policy, RunningSums) else 0


def calibrations(policy: Policy[Any]) -> dict[int, tuple[Channel, list[int]]]:
    """The calibrated channels in use, by phase: a search elsewhere might find others, of the same budget.

    The batch sizes stand beside the channel as runs: size, how often, size, how often, ...
    """
    channels = policy.calibrated() if isinstance(policy, RunningSums) else {}
    return {
        phase: (replace(channel, sizes=Sizes()), [n for run in channel.sizes.runs for n in run])
        for phase, channel in channels.items()
    }


def recalibrate(policy: Policy[Any], saved: dict[int, tuple[Channel, list[int]]]) -> None:
    """Make a policy use these channels, where it has none yet; what they guarantee is computed from them anew."""
    for phase, (channel, runs) in saved.items():
        assert isinstance(policy, RunningSums)
        policy.recalibrate(phase, replace(channel, sizes=Sizes(tuple(zip(runs[::2], runs[1::2], strict=True)))))
