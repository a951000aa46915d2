"""A row that no policy can take is nobody's: whoever sends it changes nothing for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.analyzer.query_answers import TrustedServerRunner, played_from_rows
from bandanna.device.noise import SecureNoise
from bandanna.numeric.rng import SecureRandomness
from bandanna.policies.base import RunnerState

from ..deployment.simulated import case

BAD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e90, -1.0, 0.5, 2.0**40, -(2.0**70), 0.0, 7.0)


@pytest.mark.parametrize("name", ["LinTS-JDP", "LinUCB", "AdaC-UCB", "UCB1", "LinTS-JDP-rewards", "GLM-UCB"])
def test_hostile_rows_are_learned_from_as_nobodys(name: str) -> None:
    policy, _, arms, _ = case(name)
    rng = np.random.default_rng(2)
    state = policy.init(None if arms is None else np.asarray(arms.features if hasattr(arms, "features") else arms))
    episode: Any = policy.episode(state)
    length = int(getattr(policy, "dim", 0)) + 4
    for _ in range(20):
        rows = np.zeros((episode.users, length))
        rows[:, -1] = 1.0
        if length > 4:
            rows[:, length - 5] = 1.0  # a constant
        hit = rng.random(rows.shape) < 0.4
        rows[hit] = rng.choice(BAD, int(hit.sum()))
        server = TrustedServerRunner(
            policy=policy, desk=RunnerState(), source=SecureNoise(), stream=SecureNoise(), coins=SecureRandomness()
        )
        assert server.learn(state, episode, played_from_rows(policy, episode, rows)) is not None
        for each in server.charges:
            assert np.isfinite(np.frombuffer(each.data)).all()


def test_a_row_with_an_arm_that_is_none_counts_for_no_arm() -> None:
    policy = bd.LinTS(n_arms=3, features=2, horizon=64, batch=4, privacy=bd.none())
    rows = np.array([[0.1, 0.2, 1.0, arm, 0.0, 1.0] for arm in (1.0, -1.0, np.nan, 1e300)])
    rows = rows[:, -6 - (int(policy.dim) - 2) :] if int(policy.dim) > 2 else rows
    played = played_from_rows(policy, policy.episode(policy.init()), rows)
    assert played.answered is not None
    assert played.answered.tolist() == [True, False, False, False]
