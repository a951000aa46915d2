"""Exploration by a public rule, and centred rewards: policies whose users of an episode are not alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.device.action_selection import Choice, explore_choice
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import GeneratorRandomness, NoRandomness, SecureRandomness
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot
from bandanna.simulation.players.fixed_batches import _users_at_once

from .conformance.laws import one_law
from .conformance.test_players import plainly

BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3}
WORLDS = [bd.environments.LinearContextual(dim=3, n_arms=4, fixed=fixed) for fixed in (True, False)]
RULES: list[dict[str, Any]] = [
    {"explore": bd.policies.uniform(first=90, then=0.2)},
    {"reward_centre": 0.5},
    {"explore": bd.policies.uniform(then=1.0), "reward_centre": 1.0},
]


def coins(seed: int = 0) -> GeneratorRandomness:
    """Seeded."""
    rng = np.random.default_rng(seed)
    return GeneratorRandomness(lambda _: rng)


def test_probabilities_are_those_of_the_mixture() -> None:
    snapshot = OptimisticSnapshot(theta=np.array([1.0, 0.0]), inverse=np.zeros((2, 2)), radius=0.0, explore=0.3)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])  # the first and the third are tied
    users = 100_000
    choice = LinUCB(dim=2, horizon=5, privacy=bd.none()).act(snapshot, np.broadcast_to(arms, (users, 4, 2)), coins())
    for arm, chance in enumerate((0.425, 0.075, 0.425, 0.075)):
        took = choice.actions == arm
        assert abs(np.mean(took) - chance) < 5 * np.sqrt(chance / users)
        np.testing.assert_allclose(choice.probabilities[took], chance)


def test_a_certain_choice_is_mixed_without_help() -> None:
    choice = Choice(actions=np.zeros(1000, dtype=np.int64), probabilities=np.ones(1000))
    mixed = explore_choice(choice, 0.5, 4, coins())
    np.testing.assert_allclose(mixed.probabilities, np.where(mixed.actions == 0, 0.625, 0.125))
    assert set(mixed.actions) == {0, 1, 2, 3}
    assert explore_choice(choice, 0.0, 4, NoRandomness()) is choice
    np.testing.assert_array_equal(explore_choice(choice, 1.0, 4, SecureRandomness()).probabilities, 0.25)


def test_the_share_of_exploring_users_follows_the_public_rule() -> None:
    policy = LinUCB(dim=2, horizon=100, batch=20, explore=bd.policies.uniform(first=30, then=0.1), privacy=bd.none())
    shares = [policy._estimate(np.zeros(policy._domain.dim), batches)[0].explore for batches in range(5)]
    assert shares == [1.0, 1.0, 0.1, 0.1, 0.1]
    assert policy.regret_bound > LinUCB(dim=2, horizon=100, batch=20, privacy=bd.none()).regret_bound
    everywhere = policy.publish(policy.init())
    assert policy.best(everywhere, np.array([[[1.0, 0.0], [0.0, 1.0]]])).shape == (1,)
    with pytest.raises(InvalidArgument, match="explore"):
        LinUCB(dim=2, horizon=100, explore=0.1, privacy=bd.none())  # type: ignore[arg-type]
    for bad in ({"first": -1}, {"then": 1.5}, {"then": float("nan")}):
        with pytest.raises(InvalidArgument, match=next(iter(bad))):
            bd.policies.uniform(**bad)  # type: ignore[arg-type]
    for centre in (-0.1, 1.1):
        with pytest.raises(InvalidArgument, match="reward_centre"):
            LinUCB(dim=2, horizon=100, reward_centre=centre, privacy=bd.none())


@pytest.mark.parametrize("rule", RULES, ids=["explore", "centre", "both"])
@pytest.mark.parametrize("env", WORLDS, ids=["fixed", "fresh"])
def test_the_player_is_the_plain_loop(rule: dict[str, Any], env: Any) -> None:
    """Users who explore, or whose rewards are centred, are played by a shortcut that is not theirs.

    Of arms that stay users are counted by their arm, so that only the laws are alike (false alarms 1e-5).
    """
    policy = LinUCB(dim=3, horizon=150, batch=30, width=0.2, privacy=bd.central(**BUDGET), **rule)
    seeds = 25 if env.fixed else 2
    own, plain = (bd.simulate(each, env, n_seeds=seeds, seed=4).regret for each in (policy, plainly(policy)))
    if env.fixed:
        assert one_law(own[:, -1], plain[:, -1])
    else:
        np.testing.assert_allclose(own, plain, atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=["explore", "centre", "both"])
def test_aggregates_have_the_law_of_messages(rule: dict[str, Any]) -> None:
    policy = LinUCB(dim=3, horizon=300, batch=50, width=0.2, privacy=bd.shuffle(**BUDGET), **rule)
    law, messages = (
        bd.simulate(policy, WORLDS[0], n_seeds=25, seed=9, path=path).regret[:, -1] for path in ("law", "messages")
    )
    assert one_law(law, messages)


def test_a_run_does_not_depend_on_its_company() -> None:
    policy = LinUCB(
        dim=3, horizon=300, batch=30, privacy=bd.local(**BUDGET), explore=bd.policies.uniform(first=50, then=0.3)
    )
    few, many = (bd.simulate(policy, WORLDS[0], n_seeds=n, seed=1).regret for n in (1, 4))
    np.testing.assert_allclose(few[0], many[0], atol=1e-9)


def test_with_then_1_the_regret_is_that_of_random_play() -> None:
    """5 s.e., false alarm 1e-6."""
    env = bd.environments.FiniteArms(means=(0.9, 0.1))
    policy = LinUCB(dim=2, horizon=4000, batch=100, explore=bd.policies.uniform(then=1.0), privacy=bd.none())
    regret = bd.simulate(policy, env, n_seeds=5).regret[:, -1]
    assert abs(np.mean(regret) - 1600) < 5 * 0.4 * np.sqrt(4000 / 5)


def test_centred_rewards_need_less_noise() -> None:
    plain, centred = (LinUCB(dim=2, horizon=10, reward_centre=centre, privacy=bd.none()) for centre in (0.0, 0.5))
    assert centred._domain.sensitivity == pytest.approx(0.75 * plain._domain.sensitivity)
    report = centred._form_statistic(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 0.25, 7.0]))
    vector, _ = centred._domain.unpack(report.total())
    np.testing.assert_allclose(vector, [0.75, 0.0])  # 0.5 - 0.25 + 0.5
    assert report.clipped == 1


def test_anytime_policies_explore_in_every_phase() -> None:
    policy = bd.policies.Anytime(
        first=LinUCB(dim=3, horizon=40, batch=10, explore=bd.policies.uniform(first=10), privacy=bd.none())
    )
    assert not policy._devices_agree
    assert policy.phase(1).explore == bd.policies.uniform(first=10)
    assert bd.simulate(policy, WORLDS[0], horizon=200, n_seeds=2).regret.shape[0] == 2


def test_long_reports_are_held_in_smaller_parts() -> None:
    assert _users_at_once(LinUCB(dim=5, horizon=10, privacy=bd.none())) == 4096
    assert (
        8
        * _users_at_once(LinUCB(dim=640, horizon=10, privacy=bd.none()))
        * LinUCB(dim=640, horizon=10, privacy=bd.none())._domain.dim
        <= 256 << 20
    )
