"""Every algorithm has a case, a guarantee within its budget, and its bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import NoRandomness
from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.policies.registry import ALGORITHMS, compute_bounds
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, Event
from bandanna.protocols.base import StreamProtocol

from .catalogue import CASES, NAMED, OF_EVERY_CLASS, Case, every_case
from .driving import Seen, drive, simulated, usual
from .own_policy import Greedy

_MODELS = {
    "none": bd.none(),
    "central": bd.central(epsilon=1.0, delta=1e-6),
    "local": bd.local(epsilon=1.0, delta=1e-6),
    "shuffle": bd.shuffle(epsilon=1.0, delta=1e-6),
    "concurrent": bd.concurrent(epsilon=1.0, delta=1e-6),
}


def test_every_name_is_held_to_the_laws() -> None:
    assert [case.key for case in NAMED if case.key not in ALGORITHMS] == []
    assert sorted(set(ALGORITHMS) - set(CASES)) == []


@every_case
def test_a_policy_has_a_privacy_model_that_its_class_supports(case: Case) -> None:
    policy = case.policy
    assert isinstance(policy, Policy)
    own = policy.first if isinstance(policy, bd.policies.Anytime) else policy
    assert policy.privacy.model in own.trusts


@pytest.mark.parametrize("model", _MODELS)
@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.key)
def test_privacy_models_that_a_class_lacks_are_refused(case: Case, model: str) -> None:
    kind = ALGORITHMS[case.key].kind
    own = {name: value for name, value in case.arguments.items() if name not in ALGORITHMS[case.key].options}
    if model in kind.trusts:
        return
    with pytest.raises(InvalidArgument, match=rf"{kind.__name__} has no (private version\. |other privacy)") as refused:
        kind(**own, privacy=_MODELS[model])
    assert all(f"bd.{each}(" in refused.value.allowed for each in kind.trusts)


# how far the stated epsilon may lie above what the run has spent; 1e-6 for all others
ROOM = {
    "SDP-DPE": (2e-3, "the budget is promised for phases of any size, and their noise is a little above the least"),
    "LDP-DPE": (1e-3, "directions spend epsilon alone, and delta is for phases with one action"),
    "Anytime": (5e-3, "the budget is promised for phases of any length"),
}


def people(played: PlayedRounds) -> Iterator[tuple[PlayedRounds, int]]:
    """One row of every kind that queries may tell apart, with its group."""
    arms = np.zeros(len(played.rewards), dtype=int) if played.arms is None else played.arms
    groups = np.zeros(len(played.rewards), dtype=int) if played.groups is None else played.groups
    _, places = np.unique(np.stack([arms, groups]), axis=1, return_index=True)
    for place in places.tolist():
        yield played.at(slice(place, place + 1)), int(groups[place])


def is_in(policy: Policy[Any], query: SumQuery, row: PlayedRounds) -> bool:
    if query.arm is not None and (row.arms is None or query.arm != row.arms[0]):
        return False
    return policy.report(query, row, NoRandomness()).values.shape[-2] > 0


def paid(policy: Policy[Any], seen: Seen, episode: int, row: PlayedRounds, group: int) -> tuple[Event, ...]:
    """The events of one person, who was in this episode."""
    events, streams, kept = list[Event](), set[int](), True
    for asked in seen.queries:
        query = asked.query
        if query.group == "episode":
            mine = asked.episode == episode and is_in(policy, query, row)
        else:
            mine = asked.episode >= episode and kept and policy.execution.retained_groups[group] == query.group
            kept = kept and not (mine and query.last)
        if mine and not (isinstance(query.protocol, StreamProtocol) and query.stream in streams):
            events.append(query.event())
            streams |= {query.stream} if isinstance(query.protocol, StreamProtocol) else set()
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
def test_the_stated_guarantee_is_the_price_of_the_queries(key: str) -> None:
    case, (room, _) = CASES[key], ROOM.get(key, (1e-6, ""))
    policy = case.policy
    found, stated = spent(policy, case), policy.guarantee.epsilon
    if math.isinf(stated):
        assert math.isinf(found)
        assert not policy.privacy.noisy
    else:
        assert stated * (1 - room) <= found <= stated * (1 + 1e-9)


class Twice(Greedy):  # type: ignore[misc, valid-type]
    """Asks about the same people again, and states the price of one query."""

    def learn(self, state: Any, episode: Any) -> Any:
        learned = yield from super().learn(state, episode)
        yield SumQuery(protocol=self.protocol, step=1)
        return learned


def test_an_ask_that_is_not_in_the_guarantee_is_noticed() -> None:
    case = CASES["one's own"]
    policy = Twice(dim=3, horizon=120, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
    assert spent(policy, case) > 1.3 * policy.guarantee.epsilon


@pytest.mark.often(when=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_every_result_has_its_regret_bounds(case: Case) -> None:
    result = simulated(case.key, "law", seeds=2)
    for curve in result.bounds():
        assert curve.values.shape == result.checkpoints.shape
        assert np.all(curve.values >= 0)


def test_bounds_stand_with_the_policies() -> None:
    setting = {"policy": "UCB1", "n_arms": 3, "trust": "none", "epsilon": np.inf, "delta": 0.0}
    assert [formula.__name__ for formula, _ in ALGORITHMS["UCB1"].kind._regret_bounds(setting)] == ["finite_lower"]
    assert list(type(CASES["one's own"].policy)._regret_bounds(setting)) == []


@pytest.mark.parametrize("name", ["RS-GLinUCB", "GLM-JDP", "GLM-SDP"])
def test_bounds_begin_with_the_first_round(name: str) -> None:
    setting = {
        "policy": ALGORITHMS[name].kind.__name__,
        "dim": 3,
        "n_arms": 5,
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    curves = compute_bounds(setting, [1, 2, 10])
    assert curves
    for curve in curves:
        assert np.all(np.diff(curve.values) > 0)
        assert curve.values[0] >= 0
