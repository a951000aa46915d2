"""What is stated is the accountant's number for the asks that were made, composed here by who is in them.

A person is in the asks about the episode with the person's row, if the ask's report has a row for it; from then on in
those about the group that keeps the row, until it is forgotten. A stream is one event for all of its steps. Different
people pay side by side: the largest sum counts. A replaced person may change groups, which costs less than to stay in
the dearer one (`policies/glm/jdp_privacy.py`, of the only policy with several).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.numeric.rng import NoRandomness
from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, Event
from bandanna.protocols.base import StreamProtocol

from .catalogue import CASES, Case
from .driving import Seen, drive, usual
from .own_policy import Greedy

# how far the stated epsilon may lie above what the run has spent; 1e-6 for all others
ROOM = {
    "SDP-DPE": (2e-3, "the budget is promised for phases of any size, and their noise is a little above the least"),
    "LDP-DPE": (1e-3, "directions spend epsilon alone, and delta is for phases with one action"),
    "Anytime": (5e-3, "the budget is promised for phases of any length"),
}


def people(played: PlayedRounds) -> Iterator[tuple[PlayedRounds, int]]:
    """One row of every kind that asks may tell apart, with its group."""
    arms = np.zeros(len(played.rewards), dtype=int) if played.arms is None else played.arms
    groups = np.zeros(len(played.rewards), dtype=int) if played.groups is None else played.groups
    _, places = np.unique(np.stack([arms, groups]), axis=1, return_index=True)
    for place in places.tolist():
        yield played.at(slice(place, place + 1)), int(groups[place])


def is_in(policy: Policy[Any], ask: SumQuery, row: PlayedRounds) -> bool:
    """Whether a report is made of the row."""
    if ask.arm is not None and (row.arms is None or ask.arm != row.arms[0]):
        return False
    return policy.report(ask, row, NoRandomness()).values.shape[-2] > 0


def paid(policy: Policy[Any], seen: Seen, episode: int, row: PlayedRounds, group: int) -> tuple[Event, ...]:
    """The events of one person, who was in this episode."""
    events, streams, kept = list[Event](), set[int](), True
    for asked in seen.asks:
        ask = asked.ask
        if ask.of == "episode":
            mine = asked.episode == episode and is_in(policy, ask, row)
        else:
            mine = asked.episode >= episode and kept and policy.execution.retained_groups[group] == ask.of
            kept = kept and not (mine and ask.last)
        if mine and not (isinstance(ask.protocol, StreamProtocol) and ask.stream in streams):
            events.append(ask.event())
            streams |= {ask.stream} if isinstance(ask.protocol, StreamProtocol) else set()
    return tuple(events)


def spent(policy: Policy[Any], case: Case) -> float:
    """The epsilon of the person who pays most, at the delta of the guarantee."""
    seen = usual(case.key) if policy is case.policy else drive(policy, case)
    persons = {
        paid(policy, seen, place, row, group)
        for place, (_, played) in enumerate(seen.episodes)
        for row, group in people(played)
    }
    return max(accountant.epsilon(CompositionEvent(events=events), policy.guarantee.delta) for events in persons)


@pytest.mark.parametrize("key", CASES)
def test_the_stated_guarantee_is_what_the_asks_cost(key: str) -> None:
    case, (room, _) = CASES[key], ROOM.get(key, (1e-6, ""))
    policy = case.policy
    found, stated = spent(policy, case), policy.guarantee.epsilon
    if math.isinf(stated):
        assert math.isinf(found)
        assert not policy.privacy.noisy
    else:
        assert stated * (1 - room) <= found <= stated * (1 + 1e-9)


class Twice(Greedy):  # type: ignore[misc, valid-type]
    """Asks about the same people again, and states the price of one ask."""

    def learn(self, state: Any, episode: Any) -> Any:
        """Two sums."""
        learned = yield from super().learn(state, episode)
        yield SumQuery(protocol=self.protocol, step=1)
        return learned


def test_an_ask_that_is_not_in_the_guarantee_is_noticed() -> None:
    case = CASES["one's own"]
    policy = Twice(dim=3, horizon=120, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
    assert spent(policy, case) > 1.3 * policy.guarantee.epsilon
