"""What can be learned from so many users: shares of random play, and how many users would be enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.experiments import plan as plan_module
from bandanna.experiments.plan import Forecast, plan
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.lints import LinTS
from bandanna.protocols.privacy_model import shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import regret_of_random_play
from bandanna.simulation.environments.linear import DisjointLinear, LinearContextual

SMALL: dict[str, Any] = {"dim": 3, "n_arms": 5, "users": 400, "epsilon": 2.0, "n_seeds": 3}


@pytest.fixture(scope="module")
def small() -> dict[str, Forecast]:
    """All privacy models."""
    return {each.trust: each for each in plan(**SMALL)}


def test_every_privacy_model_has_a_forecast(small: dict[str, Forecast]) -> None:
    assert list(small) == ["none", "central", "shuffle", "local"]
    assert 0 < small["none"].share < small["central"].share < small["local"].share
    assert all(each.stderr > 0 and each.users == 400 for each in small.values())


def test_a_forecast_is_the_simulation_of_the_policy_that_it_names(small: dict[str, Forecast]) -> None:
    policy = LinTS(dim=3, horizon=400, intercept=True, privacy=shuffle(epsilon=2.0, delta=1e-5))
    result = simulate(policy, LinearContextual(dim=3, n_arms=5), n_seeds=3)
    found = small["shuffle"]
    assert found.regret == pytest.approx(result.mean()[-1])
    assert found.guarantee == policy.guarantee
    assert found.guarantee.epsilon <= 2.0
    assert (found.first_batch, found.releases) == (policy._channel.sizes[0], len(policy._channel.sizes))
    assert found.bits_per_user == policy._bits_per_user


def test_the_share_is_a_ratio_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    share, stderr = plan_module._regret_ratio(np.array([1.0, 3.0, 0.0]), np.array([4.0, 4.0, 0.0]))
    assert share == pytest.approx(0.5)
    assert stderr == pytest.approx(np.std([-1.0, 1.0, 0.0], ddof=1) / math.sqrt(3) / (8 / 3))
    assert math.isnan(plan_module._regret_ratio(np.array([1.0]), np.array([2.0]))[1])
    with pytest.raises(InvalidArgument, match=r"n_seeds must be larger: .* got 2"):
        plan_module._regret_ratio(np.zeros(2), np.zeros(2))


def test_random_play_is_what_chance_loses() -> None:
    env = LinearContextual(dim=3, n_arms=4)
    idle = regret_of_random_play(env, horizon=2_000, n_seeds=4, seed=5)
    lazy = LinTS(dim=3, horizon=2_000, intercept=True, privacy=shuffle(epsilon=1e-3, delta=1e-9), prior=1e-9)
    played = simulate(lazy, env, n_seeds=4, seed=5).final_regret
    np.testing.assert_allclose(played, idle, rtol=0.12)  # 3.5 standard errors of a seed: a false alarm in 500
    assert regret_of_random_play(env, horizon=2_000, n_seeds=1, seed=7)[0] == pytest.approx(idle[2])


def test_random_play_on_arms_that_stay_is_exact() -> None:
    env = LinearContextual(dim=3, n_arms=4, fixed=True)
    world = env.begin(Streams([5, 6]))
    means = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    expected = 100 * (means.max(axis=-1) - means.mean(axis=-1))
    np.testing.assert_allclose(regret_of_random_play(env, horizon=100, n_seeds=2, seed=5), expected)


def test_users_are_doubled_until_something_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[tuple[str, int]] = []

    def of(self: Any, trust: str, users: int, n_seeds: int) -> Forecast:
        simulated.append((trust, users))
        share = {"none": 0.1}.get(trust, 800 / users)
        return Forecast(trust=trust, users=users, share=share, stderr=0.0, **dict.fromkeys(REST, None))  # type: ignore[arg-type]

    monkeypatch.setattr(plan_module._PlanProblem, "forecast", of)
    none, local = (plan(**{**SMALL, "trust": trust})[0] for trust in ("none", "local"))
    assert (none.hopeless, none.enough, none.tried) == (False, None, None)
    assert (local.hopeless, local.enough, local.tried) == (True, 3_200, 3_200)
    assert simulated == [("none", 400), ("local", 400), ("local", 800), ("local", 1_600), ("local", 3_200)]


def test_a_search_for_enough_users_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "_SEARCH", plan_module._PlanProblem.numbers(_problem(), 1_700, 3))
    said: list[str] = []
    (local,) = plan(
        **{**SMALL, "epsilon": 0.01, "trust": "local"}, progress=lambda done, total, what: said.append(what)
    )
    assert local.hopeless
    assert (local.enough, local.tried) == (None, 1_600)
    assert said[-1] == "local: are 1,600 users enough?"
    (alone,) = plan(**{**SMALL, "epsilon": 0.01, "trust": "local"}, search=False)
    assert (alone.share, alone.enough, alone.tried) == (local.share, None, None)


def test_forecasts_are_plain_values(small: dict[str, Forecast]) -> None:
    (one,) = plan(**{**SMALL, "n_seeds": 1, "trust": "none", "fixed": True})
    assert one.to_dict()["stderr"] is None
    assert one.to_dict()["guarantee"]["epsilon"] is None
    assert small["central"].to_dict()["guarantee"]["trust"] == "central"


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("dim", 1, "whole number >= 2"),
        ("n_arms", 1, "whole number >= 2"),
        ("users", 15, "whole number >= 16"),
        ("users", 10**9, "random numbers"),
        ("epsilon", 0, "> 0"),
        ("delta", 1, "[0, 1)"),
        ("trust", "shufle", "Did you mean 'shuffle'?"),
        ("n_seeds", 0, "whole number >= 1"),
        ("fixed", "yes", "True or False"),
        ("search", 1, "True or False"),
        ("seed", -1, "whole number >= 0"),
    ],
)
def test_bad_arguments_are_named(argument: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan(**{**SMALL, "n_seeds": 50, argument: value})
    assert str(caught.value).startswith(f"{argument} must be ")
    assert f"got {value!r}" in str(caught.value)
    assert words in str(caught.value)


REST = ("regret", "first_batch", "releases", "bits_per_user", "guarantee")


def _problem() -> plan_module._PlanProblem:
    return plan_module._PlanProblem(dim=3, n_arms=5, epsilon=1.0, delta=1e-5, fixed=False, per_arm=False, seed=0)


def test_a_model_for_every_arm_is_planned_as_such() -> None:
    (found,) = plan(features=2, n_arms=3, users=400, epsilon=2.0, n_seeds=2, trust="shuffle")
    policy = LinTS(n_arms=3, features=2, horizon=400, privacy=shuffle(epsilon=2.0, delta=1e-5))
    result = simulate(policy, DisjointLinear(dim=2, n_arms=3), n_seeds=2)
    assert found.regret == np.mean(result.final_regret)
    assert (found.releases, found.bits_per_user) == (result.releases, result.bits_per_user)
    for wrong in ({}, {"dim": 3, "features": 2}, {"features": 0}, {"features": 2, "fixed": True}):
        with pytest.raises(InvalidArgument, match=r"dim|features"):
            plan(n_arms=3, users=400, **wrong)  # type: ignore[arg-type]
