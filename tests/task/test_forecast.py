"""What is expected of a task: simulated where a typical world fits, within seconds, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.preflight import fixed_arms
from bandanna.deployment.task.description import forecast, world_for
from bandanna.policies.registry import ALGORITHMS
from bandanna.simulation.environments.linear import LinearContextual

from ..simulation.golden_runs import RUNS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_world(name: str) -> None:
    policy = bd.make(name, **RUNS[name][0])
    env = world_for(policy)
    assert env is not None
    for size in ("dim", "n_arms"):
        assert getattr(policy, size, None) in (None, getattr(env, size))


@pytest.mark.parametrize(
    "name", ["LinTS-JDP", "AdaC-UCB", "AdaC-GOPE", "LDP-DPE", "GLM-SDP", "AdaC-OFUL-JDP", "LDP-UCB"]
)
def test_every_kind_can_be_simulated(name: str) -> None:
    policy = bd.make(name, **RUNS[name][0])
    found = forecast(policy)
    assert found is not None
    assert found["rounds"] == policy.horizon
    assert found["seeds"] == 4
    assert found["regret"] > 0
    assert found["stderr"] > 0
    assert found["random play"] > 0


def test_it_is_the_simulators_regret() -> None:
    policy = bd.make("LinTS-JDP", dim=3, horizon=300, epsilon=5.0, delta=1e-3)
    found = forecast(policy)
    assert found is not None
    assert found["environment"] == "LinearContextual: 10 arms, 3 features"
    result = bd.simulate(policy, LinearContextual(dim=3, n_arms=10), n_seeds=4)
    assert found["regret"] == float(np.mean(result.final_regret))


def test_arms_that_stay_are_simulated_as_such() -> None:
    policy = bd.make("LinTS", dim=2, horizon=50)
    assert world_for(policy, fixed_arms(policy, {"a": [0, 1], "b": [1, 0]})) == LinearContextual(
        dim=2, n_arms=2, fixed=True
    )
    own = bd.make("LinTS", n_arms=3, features=2, horizon=50)
    assert forecast(own, fixed_arms(own, None)) is not None
    assert "DisjointLinear: 3 arms" in str(forecast(own, fixed_arms(own, None)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("LinTS", {"dim": 5, "horizon": 10**7}),
        ("LinUCB", {"dim": 2, "horizon": 10**4}),
        ("UCB1", {"n_arms": 2, "horizon": 10**5}),
        ("GLM-UCB", {"dim": 2, "horizon": 10**5}),
        ("DPE", {"dim": 2, "horizon": 3000, "clients": 2**31}),
        ("DPE", {"dim": 2, "horizon": 3000, "alpha": 3}),
    ],
)
def test_what_takes_too_long_is_not_begun(name: str, arguments: dict[str, int]) -> None:
    policy = bd.make(name, **arguments)
    policy._prepare()
    assert forecast(policy) is None
