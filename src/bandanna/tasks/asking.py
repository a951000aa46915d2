"""What an episode will ask of its users, before anybody has answered.

A policy asks one sum after the other and may place an ask where an answer was (gradients at the newest theta). What a
report is *made like* - its protocol - is public from the start; only where it is evaluated may follow from answers. So
devices can open their slots with a zero report for every ask, and mixers know what they will add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.estimate import Estimate
from bandanna.errors import BandannaError
from bandanna.policies.base import Ask, Assigned, Episode, Frozen, Policy, RunningSums

_MOST = 10_000  # asks of one episode


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The asks of an episode, in order, and in which round each is answered.

    In one round are the asks that can be answered together: whose place does not depend on an answer of this episode,
    and those after them until the next that does.
    """

    asks: tuple[Ask, ...]
    rounds: tuple[tuple[int, ...], ...]

    def round_of(self, number: int) -> tuple[Ask, ...]:
        """The asks of one round."""
        return tuple(self.asks[place] for place in self.rounds[number])


def users_of(episode: Episode) -> int:
    """How many people report in an episode: its clients, or the users of its rounds."""
    if isinstance(episode, Assigned):
        return episode.users if episode.clients is None else episode.clients
    assert isinstance(episode, Frozen)
    return episode.users


def planned(policy: Policy[Any], state: Any, episode: Episode) -> Planned:
    """Everything that will be asked, found by answering with numbers that mean nothing; twice, with different ones."""
    if not episode.released:
        return Planned(asks=(), rounds=())
    if isinstance(policy, RunningSums) and isinstance(episode, Frozen):  # one sum, whatever the state
        return Planned(asks=(policy.ask(episode),), rounds=((0,),))
    first, second = (_asked(policy, state, episode, answer) for answer in (0.0, 0.25))
    if [each.protocol for each in first] != [each.protocol for each in second]:
        raise BandannaError(f"{type(policy).__name__} asks for other sums when answers are other ones: not deployable")
    rounds: list[list[int]] = []
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if not rounds or not _same(one.at, other.at):
            rounds.append([])
        rounds[-1].append(place)
    return Planned(asks=first, rounds=tuple(map(tuple, rounds)))


def _asked(policy: Policy[Any], state: Any, episode: Episode, share: float) -> tuple[Ask, ...]:
    """The asks if every answer were `share` of the number of users in each coordinate."""
    steps, users = policy.learn(state, episode), users_of(episode)
    asks: list[Ask] = []
    try:
        ask = next(steps)
        while len(asks) < _MOST:
            asks.append(ask)
            total = np.full(ask.protocol.domain.dim, share * users)
            ask = steps.send(Estimate(total=total, count=users, variance=1.0))
    except StopIteration:
        return tuple(asks)
    raise BandannaError(f"{type(policy).__name__} asks more than {_MOST} times about one episode")


def _same(one: Any, other: Any) -> bool:
    """Equal, whatever they are made of."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__") and type(one) is type(other):
        return all(_same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return bool(one == other)


def next_asks(policy: Policy[Any], state: Any, episode: Episode, answers: Sequence[Estimate]) -> tuple[Ask | None, Any]:
    """The ask after these answers, or the state that was learned from them: (ask, None) or (None, state)."""
    steps = policy.learn(state, episode)
    try:
        ask = next(steps)
        for answer in answers:
            ask = steps.send(answer)
    except StopIteration as learned:
        return None, learned.value
    return ask, None


def asks_of_round(
    policy: Policy[Any], state: Any, episode: Episode, answers: Sequence[Estimate], plan: Planned, number: int
) -> tuple[Ask, ...]:
    """The asks of a round, placed where the answers of earlier rounds say."""
    asks: list[Ask] = []
    given = list(answers)
    for place in plan.rounds[number]:
        ask, _ = next_asks(policy, state, episode, given)
        if ask is None or ask.protocol != plan.asks[place].protocol:
            raise BandannaError(f"{type(policy).__name__} asks for another sum than was planned")
        asks.append(ask)
        total = np.zeros(ask.protocol.domain.dim)  # of asks in one round, none is placed where another's answer is
        given.append(Estimate(total=total, count=users_of(episode), variance=1.0))
    return tuple(asks)
