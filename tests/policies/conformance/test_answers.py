"""What a policy learns is a function of the answers to its asks: raw data reach neither its asks nor its state.

Two runs are answered by one script, on other people's data: other contexts and rewards, or other rewards where
contexts are public. They must ask the same, and end each episode in the same state.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.device.domain import Box
from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.policies.finite.base import DirectionRewardDomain
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPState
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.clear import ClearRows

from .catalogue import CASES, OF_EVERY_CLASS, Case, every_case
from .driving import Asked, Seen, Way, bits, drive
from .own_policy import Greedy


def script(ask: SumQuery, before: list[Asked]) -> Any:
    """Sums of statistics that nobody has; those of a stream grow."""
    domain, rng = ask.protocol.domain, np.random.default_rng(len(before))
    if isinstance(ask.protocol, ClearRows):
        return domain.project(rng.normal(size=(1 if ask.of == "episode" else 5, domain.dim)))
    values = rng.normal(size=(20, domain.dim)) / domain.dim
    total = np.sum(values if isinstance(domain, DirectionRewardDomain) else domain.project(values), axis=0)
    if type(domain) is Box:
        return np.sort(total)  # Thompson's successes come first, and are at most its plays
    if isinstance(ask.protocol, StreamProtocol):
        earlier = [each.estimate.total for each in before if (each.ask.of, each.ask.stream) == (ask.of, ask.stream)]
        same = [each for each in earlier if each.shape == total.shape]
        return total / 20 + (same[-1] if same else 0)
    return total


def other(played: PlayedRounds) -> PlayedRounds:
    """The same arms and features, other rewards."""
    return replace(played, rewards=0.3 - played.rewards)


def told(seen: Seen) -> list[Any]:
    """When was asked, for what and where, and all states."""
    asks: list[Any] = [
        (each.episode, each.ask.of, each.ask.last, each.ask.step, each.ask.stream, repr(each.ask.protocol))
        for each in seen.asks
    ]
    asks += [bits(each.ask.at) for each in seen.asks]
    return [asks, [bits(state) for state in seen.states]]


def two_runs(policy: Policy[Any], case: Case) -> tuple[Seen, Seen]:
    """With the same answers, on other people's data."""
    if case.public:
        return drive(policy, case, Way(script=script)), drive(policy, case, Way(script=script, rows=other))
    return drive(policy, case, Way(script=script)), drive(policy, case, Way(script=script, seed=1))


@cache
def own_runs(key: str) -> tuple[Seen, Seen]:
    """Of a case's own policy, which no test changes."""
    return two_runs(CASES[key].policy, CASES[key])


def only_answers_count(one: Seen, two: Seen) -> bool:
    """Whether other raw data with the same answers lead to the same asks and states."""
    assert [bits(rows) for _, rows in one.episodes] != [bits(rows) for _, rows in two.episodes]
    return told(one) == told(two)


@pytest.mark.often(of=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_the_same_answers_lead_to_the_same_asks_and_states(case: Case) -> None:
    assert only_answers_count(*own_runs(case.key))


def test_refit_times_depend_on_releases_only() -> None:
    one, two = own_runs("GLM-JDP")
    refits = [[(each.episode, each.ask.of) for each in seen.asks if each.ask.of != "episode"] for seen in (one, two)]
    assert refits[0] == refits[1]
    assert {of for _, of in refits[0]} == {"explored", "rest"}
    explored = [[rows.groups.tolist() for _, rows in seen.episodes if rows.groups is not None] for seen in (one, two)]
    assert explored[0] != explored[1]


class Printed(GLMJDP):
    """As printed: criterion I, which reads the raw contexts of a user, has theta_o fitted anew at once."""

    def act(self, snapshot: Any, contexts: Any, coins: Any) -> Any:
        """The server is told that it fired."""
        choice = super().act(snapshot, contexts, coins)
        object.__setattr__(self, "fired", bool(choice.groups is not None and choice.groups[-1] == 0))
        return choice

    def refit(self, state: GLMJDPState) -> Any:
        """A call of the optimiser, and its counter."""
        settled = yield from super().refit(state)
        if self.fired and settled.calls_o < self.used.calls_o:  # type: ignore[attr-defined]
            snapshot = self.matrices(settled.released)[0] / 3  # as if it had outgrown
            settled = yield from super().refit(replace(settled, v_o=snapshot))
        return settled


def test_the_printed_refit_rule_is_found_out() -> None:
    case = CASES["GLM-JDP"]
    own = {name: value for name, value in case.arguments.items() if name not in ("epsilon", "delta")}
    calls = {"constants": replace(own["constants"], calls_o=40, threshold=0.2)}  # calls are left when rounds differ
    honest, leaking = (kind(**own | calls, privacy=bd.central(epsilon=20.0, delta=1e-3)) for kind in (GLMJDP, Printed))
    assert only_answers_count(*two_runs(honest, case))
    assert not only_answers_count(*two_runs(leaking, case))


class Peeking(Greedy):  # type: ignore[misc, valid-type]
    """Keeps what a device saw for the server."""

    def report(self, ask: Any, played: Any, coins: Any) -> Any:
        """A reward is remembered."""
        object.__setattr__(self, "seen_reward", float(np.mean(played.rewards)))
        return super().report(ask, played, coins)

    def learn(self, state: Any, episode: Any) -> Any:
        """And gets into the state."""
        learned = yield from super().learn(state, episode)
        return replace(learned, total=learned.total + self.seen_reward)


def test_a_reward_in_the_state_is_found_out() -> None:
    policy = Peeking(dim=3, horizon=120, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
    assert not only_answers_count(*two_runs(policy, CASES["one's own"]))
