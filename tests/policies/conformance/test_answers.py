"""Devices and the server use their own data and the answers only."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Box
from bandanna.numeric.rng import GeneratorRandomness, NumberedRandomness, Streams
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy, SumQuery
from bandanna.policies.finite.base import DirectionRewardDomain
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPState
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.clear import ClearRows

from .catalogue import CASES, OF_EVERY_CLASS, Case, every_case
from .driving import Asked, Seen, Way, bits, drive, usual
from .own_policy import Greedy


def script(query: SumQuery, before: list[Asked]) -> Any:
    """Sums of statistics that nobody has; those of a stream grow."""
    domain, rng = query.protocol.domain, np.random.default_rng(len(before))
    if isinstance(query.protocol, ClearRows):
        return domain.project(rng.normal(size=(1 if query.group == "episode" else 5, domain.dim)))
    values = rng.normal(size=(20, domain.dim)) / domain.dim
    total = np.sum(values if isinstance(domain, DirectionRewardDomain) else domain.project(values), axis=0)
    if type(domain) is Box:
        return np.sort(total)  # Thompson's successes come first, and are at most its plays
    if isinstance(query.protocol, StreamProtocol):
        earlier = [
            each.estimate.total
            for each in before
            if (each.query.group, each.query.stream) == (query.group, query.stream)
        ]
        same = [each for each in earlier if each.shape == total.shape]
        return total / 20 + (same[-1] if same else 0)
    return total


def other(played: PlayedRounds) -> PlayedRounds:
    return replace(played, rewards=0.3 - played.rewards)


def told(seen: Seen) -> list[Any]:
    """When was asked, for what and where, and all states."""
    queries: list[Any] = [
        (each.episode, each.query.group, each.query.last, each.query.step, each.query.stream, repr(each.query.protocol))
        for each in seen.queries
    ]
    queries += [bits(each.query.at) for each in seen.queries]
    return [queries, [bits(state) for state in seen.states]]


def two_runs(policy: Policy[Any], case: Case) -> tuple[Seen, Seen]:
    if case.public:
        return drive(policy, case, Way(script=script)), drive(policy, case, Way(script=script, rows=other))
    return drive(policy, case, Way(script=script)), drive(policy, case, Way(script=script, seed=1))


@cache
def own_runs(key: str) -> tuple[Seen, Seen]:
    """Of a case's own policy, which no test changes."""
    return two_runs(CASES[key].policy, CASES[key])


def only_answers_count(one: Seen, two: Seen) -> bool:
    """Whether other raw data with the same answers lead to the same queries and states."""
    assert [bits(rows) for _, rows in one.episodes] != [bits(rows) for _, rows in two.episodes]
    return told(one) == told(two)


@pytest.mark.often(when=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_the_same_answers_lead_to_the_same_asks_and_states(case: Case) -> None:
    assert only_answers_count(*own_runs(case.key))


def test_refit_times_depend_on_releases_only() -> None:
    one, two = own_runs("GLM-JDP")
    refits = [
        [(each.episode, each.query.group) for each in seen.queries if each.query.group != "episode"]
        for seen in (one, two)
    ]
    assert refits[0] == refits[1]
    assert {of for _, of in refits[0]} == {"explored", "rest"}
    explored = [[rows.groups.tolist() for _, rows in seen.episodes if rows.groups is not None] for seen in (one, two)]
    assert explored[0] != explored[1]


class Printed(GLMJDP):
    """As printed: criterion I, which reads the raw contexts of a user, has theta_o fitted anew at once."""

    def act(self, snapshot: Any, contexts: Any, coins: Any) -> Any:
        choice = super().act(snapshot, contexts, coins)
        object.__setattr__(self, "fired", bool(choice.groups is not None and choice.groups[-1] == 0))
        return choice

    def refit(self, state: GLMJDPState) -> Any:
        settled = yield from super().refit(state)
        if self.fired and settled.calls_o < self.used.calls_o:  # type: ignore[attr-defined]
            snapshot = self.matrices(settled.released)[0] / 3  # as if it had outgrown
            settled = yield from super().refit(replace(settled, v_o=snapshot))
        return settled


def test_the_printed_refit_rule_is_noticed() -> None:
    case = CASES["GLM-JDP"]
    own = {name: value for name, value in case.arguments.items() if name not in ("epsilon", "delta")}
    calls = {"constants": replace(own["constants"], calls_o=40, threshold=0.2)}  # calls are left when rounds differ
    honest, leaking = (kind(**own | calls, privacy=bd.central(epsilon=20.0, delta=1e-3)) for kind in (GLMJDP, Printed))
    assert only_answers_count(*two_runs(honest, case))
    assert not only_answers_count(*two_runs(leaking, case))


class Peeking(Greedy):  # type: ignore[misc, valid-type]
    """Keeps what a device saw for the server."""

    def report(self, query: Any, played: Any, coins: Any) -> Any:
        object.__setattr__(self, "seen_reward", float(np.mean(played.rewards)))
        return super().report(query, played, coins)

    def learn(self, state: Any, episode: Any) -> Any:
        learned = yield from super().learn(state, episode)
        return replace(learned, total=learned.total + self.seen_reward)


def test_a_reward_in_the_state_is_found_out() -> None:
    policy = Peeking(dim=3, horizon=120, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
    assert not only_answers_count(*two_runs(policy, CASES["one's own"]))


ASSIGNED = [key for key, case in CASES.items() if type(case.policy).act is Policy.act]
CHOOSING = [key for key in CASES if key not in ASSIGNED]
DEVICES = 3000
FALSE_ALARM = 1e-6  # of one comparison of frequencies


def snapshots(key: str) -> list[Any]:
    """Before anything is known, in the middle and in the end."""
    policy, seen = CASES[key].policy, usual(key)
    states = [seen.states[0], seen.states[len(seen.states) // 2], seen.final]
    return [policy.publish(state) for state in states]


def contexts(case: Case, users: int) -> Any:
    """Of the case's world, (users, K, d), as devices see them."""
    world = case.env.begin(Streams([3]))
    drawn = world.contexts(0, users)[0]
    return case.policy.clip_features(np.broadcast_to(drawn, (users, *drawn.shape[1:])))


def coins(seed: int) -> GeneratorRandomness:
    rng = np.random.default_rng(seed)
    return GeneratorRandomness(lambda name: rng)


@pytest.mark.parametrize("key", ASSIGNED)
def test_where_the_server_decides_devices_do_not(key: str) -> None:
    assert isinstance(usual(key).episodes[0][0], AssignedArms)
    with pytest.raises(TypeError, match="devices do not choose"):
        CASES[key].policy.act(None, np.zeros((1, 1, 1)), coins(0))


def truthful(choice: Choice) -> bool:
    """Whether devices with one context took arms as often as they say; sums over arms are 1, but for rare ones."""
    arms, first, counts = np.unique(choice.actions, return_index=True, return_counts=True)
    said = choice.probabilities[first]
    same = np.array_equal(choice.probabilities, said[np.searchsorted(arms, choice.actions)])
    left = 1 - np.sum(said)
    if not (same and np.all((said > 0) & (said <= 1)) and -1e-9 <= left < 20 / len(choice.actions)):
        return False
    return len(arms) == 1 or bool(stats.chisquare(counts, np.sum(counts) * said / np.sum(said)).pvalue > FALSE_ALARM)


@pytest.mark.often(when=lambda key: key in OF_EVERY_CLASS)
@pytest.mark.parametrize("key", CHOOSING)
def test_stated_probabilities_are_frequencies(key: str) -> None:
    """False alarms: 1e-6 for each of three snapshots."""
    case = CASES[key]
    assert not isinstance(usual(key).episodes[0][0], AssignedArms)
    one = np.broadcast_to(contexts(case, 2)[1], (DEVICES, case.env.n_arms, contexts(case, 1).shape[-1]))
    for snapshot in snapshots(key):
        assert truthful(case.policy.act(snapshot, one, coins(1)))


def test_probabilities_a_tenth_off_are_noticed() -> None:
    case = CASES["one's own"]
    one = np.broadcast_to(contexts(case, 1)[0], (DEVICES, 6, 3))
    choice = case.policy.act(snapshots("one's own")[-1], one, coins(1))
    rare = choice.probabilities < 0.5
    assert truthful(choice)
    moved = np.where(rare, 2 * choice.probabilities, choice.probabilities - 5 / 60)
    assert not truthful(Choice(actions=choice.actions, probabilities=moved))
    assert not truthful(Choice(actions=choice.actions, probabilities=0.9 * choice.probabilities))


@pytest.mark.often(when=lambda key: key in OF_EVERY_CLASS)
@pytest.mark.parametrize("key", CHOOSING)
def test_a_device_decides_by_its_own_features(key: str) -> None:
    case, users = CASES[key], 9
    everybody = np.array(contexts(case, users))
    everybody[::3] = case.policy.clip_features(1e6 * everybody[::3])
    for snapshot in snapshots(key):
        together = case.policy.act(snapshot, everybody, NumberedRandomness(7, 0))
        for user in range(users):
            alone = case.policy.act(snapshot, everybody[user : user + 1], NumberedRandomness(7, user))
            assert alone.actions[0] == together.actions[user]
            np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[user])
            if together.groups is not None:
                assert alone.groups is not None
                assert alone.groups[0] == together.groups[user]
