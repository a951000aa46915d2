from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from bandanna.environments.arrays import ArrayEnvironment
from bandanna.errors import InvalidStatistic
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate


@dataclass(frozen=True)
class Broken:
    """Rewards of which one is wrong."""

    value: float
    both: bool = False  # arms
    binary: bool = False

    def draw(self, means: np.ndarray, streams: object) -> np.ndarray:
        """The means, and one wrong number."""
        rewards = np.array(means)
        rewards[0, len(rewards[0]) // 2, : None if self.both else 1] = self.value
        return rewards


@pytest.mark.parametrize("name", ["GLM-JDP", "GLM-SDP", "RS-GLinUCB", "B-GLinUCB", "GLM-UCB", "GLOC", "ECOLog"])
def test_fixed_arms_and_rewards_that_are_not_numbers(name: str) -> None:
    """Arms that stay would fail, or have one reward for all users; a reward that is no number would be learned from."""
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
    """A reward beyond [0, R] would be learned from as it is, or be clipped without being counted."""
    budget = {} if name == "GLOC" else {"epsilon": 4.0, "delta": 1e-3}
    policy = make(name, dim=2, horizon=80, link="logistic", parameter_bound=1.0, **budget)
    arms = np.tile([[0.6, 0.8], [0.6, 0.8]], (80, 1, 1))
    results = [
        simulate(
            policy, ArrayEnvironment(arms=arms, means=np.ones((80, 2)), reward=Broken(value, both=True)), n_seeds=1
        )
        for value in (1.0, 7.0)
    ]
    np.testing.assert_array_equal([result.rewards for result in results], 80.0)
    blocks = len(getattr(policy, "sizes", (80,)))  # of rounds that are read at once: one wrong reward in each
    assert [int(result.clipped[0]) for result in results] == [0, blocks]
