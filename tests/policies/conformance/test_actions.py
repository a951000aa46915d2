"""What a device does: by its own features and coins alone, with the probability that it states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.device.action_selection import Choice
from bandanna.numeric.rng import GeneratorRandomness, NumberedRandomness, Streams
from bandanna.policies.base import AssignedArms, Policy

from .catalogue import CASES, OF_EVERY_CLASS, Case
from .driving import usual

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
    """Of devices in a row."""
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


@pytest.mark.often(of=lambda key: key in OF_EVERY_CLASS)
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


@pytest.mark.often(of=lambda key: key in OF_EVERY_CLASS)
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
