from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

from bandanna.errors import InvalidStatistic
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear
from bandanna.simulation.environments.recorded import ArrayEnvironment
from bandanna.simulation.players import glm_rounds


@dataclass(frozen=True)
class Broken:
    """Rewards of which one is wrong."""

    value: float
    both: bool = False  # arms
    binary: bool = False

    def draw(self, means: np.ndarray, streams: object) -> np.ndarray:
        """The means, and one wrong number."""
        rewards = np.array(means)
        middle = 0, len(rewards[0]) // 2
        if rewards.ndim == 2:  # of the arms that were played
            rewards[middle] = self.value
        else:
            rewards[(*middle, slice(None if self.both else 1))] = self.value
        return rewards


@pytest.mark.parametrize("name", ["GLM-JDP", "GLM-SDP", "RS-GLinUCB", "B-GLinUCB", "GLM-UCB", "GLOC", "ECOLog"])
def test_fixed_arms_and_rewards_that_are_not_numbers(name: str) -> None:
    budget = {"epsilon": 4.0, "delta": 1e-3} if name in ("GLM-JDP", "GLM-SDP") else {}
    policy = make(name, dim=2, horizon=80, link="logistic", parameter_bound=1.0, **budget)
    arms, theta = np.array([[1.0, 0.0], [0.6, 0.8]]), [0.5, 0.4]
    fixed = simulate(policy, ArrayEnvironment(arms=arms, theta=theta), n_seeds=3)
    same = simulate(policy, ArrayEnvironment(arms=np.tile(arms, (80, 1, 1)), theta=theta), n_seeds=3)
    np.testing.assert_allclose(fixed.regret, same.regret)
    np.testing.assert_array_equal(fixed.rewards, same.rewards)
    for value in (math.nan, math.inf):
        broken = ArrayEnvironment(arms=np.tile(arms, (80, 1, 1)), theta=theta, reward=Broken(value))
        with pytest.raises(InvalidStatistic, match="rewards"):
            simulate(policy, broken, n_seeds=1)


@pytest.mark.parametrize("name", ["GLM-JDP", "GLM-SDP", "GLOC"])
def test_rewards_out_of_range_are_clipped_and_counted(name: str) -> None:
    budget = {} if name == "GLOC" else {"epsilon": 4.0, "delta": 1e-3}
    policy = make(name, dim=2, horizon=80, link="logistic", parameter_bound=1.0, **budget)
    arms = np.tile([[0.6, 0.8], [0.6, 0.8]], (80, 1, 1))
    results = [
        simulate(
            policy, ArrayEnvironment(arms=arms, means=np.ones((80, 2)), reward=Broken(value, both=True)), n_seeds=1
        )
        for value in (1.0, 7.0)
    ]
    batches = len(getattr(policy, "sizes", ()))
    released = batches - 1 if batches else 1  # batches, or all rounds at once: one wrong reward in each
    assert [int(result.clipped[0]) for result in results] == [0, released]
    earned = [80.0, 80.0 + 6.0 * batches]  # the plain player counts rewards as they are earned, others as they are told
    np.testing.assert_array_equal([result.rewards[0] for result in results], earned)


@pytest.mark.often(of=lambda name, path: (path == "messages") == (name == "GLM-JDP"))  # others send nothing
@pytest.mark.parametrize("name", ["GLM-JDP", "RS-GLinUCB", "GLOC"])
@pytest.mark.parametrize("path", ["law", "messages"])
def test_reading_a_generalised_linear_world_in_parts_changes_nothing(
    name: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"epsilon": 8.0, "delta": 0.01} if name == "GLM-JDP" else {"preset": "published"}
    policy = make(name, dim=3, horizon=400, link="logistic", parameter_bound=2.0, **options)
    env = GeneralisedLinear(dim=3, n_arms=4, link="logistic", norm=2.0)
    whole = simulate(policy, env, n_seeds=3, path=path)
    monkeypatch.setattr(glm_rounds, "_BYTES", 8 * 3 * 4 * 5 * 37)  # 37 rounds of 3 seeds, without noise
    parts = simulate(policy, env, n_seeds=3, path=path)
    np.testing.assert_allclose(parts.regret, whole.regret, rtol=1e-9)
    for count, values in whole.counts.items():
        np.testing.assert_array_equal(parts.counts[count], values)


def test_noise_is_held_for_some_rounds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glm_rounds, "_BYTES", 1 << 19)
    policy = make("GLM-JDP", dim=8, horizon=4000, link="logistic", parameter_bound=1.0, epsilon=8.0, delta=0.01)
    _ = policy.guarantee
    env = GeneralisedLinear(dim=8, n_arms=2, link="logistic", norm=1.0)
    tracemalloc.start()
    simulate(policy, env, n_seeds=4)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 0.7 * 8 * 4 * 4000 * 72  # the noise of all rounds


@pytest.mark.parametrize("preset", ["tuned", "greedy", "paper"])
def test_an_arm_of_zeros_is_an_arm(preset: str) -> None:
    rng = np.random.default_rng(0)
    arms = rng.uniform(-0.5, 0.5, (300, 3, 2))
    arms[:, 0] = 0.0
    policy = make("GLM-JDP", dim=2, horizon=300, parameter_bound=1.0, epsilon=50.0, delta=0.1, preset=preset)
    result = simulate(policy, ArrayEnvironment(arms=arms, means=np.tile([0.0, 1.0, 1.0], (300, 1))), n_seeds=2)
    assert np.all(result.regret[:, -1] < 299)
