"""The kernel of tallies plays what NumPy plays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna import kernels
from bandanna.core.streams import Streams
from bandanna.environments import FiniteArms
from bandanna.policies.arms.ucb1 import UCB1
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import lockstep


@settings(max_examples=20, deadline=None)
@given(
    means=st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.500001, 1.0]), min_size=1, max_size=12),
    optimism=st.sampled_from([0.1, 4.0]),
    span=st.sampled_from([17, 4096]),
)
def test_kernel_and_numpy_take_the_same_arms(means: list[float], optimism: float, span: int) -> None:
    """A run by the kernel is another one, with arms that are tied or before all were played."""
    env = FiniteArms(means=tuple(means))
    policy = UCB1(n_arms=len(means), horizon=80, optimism=optimism)
    results = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(lockstep, "_ROUNDS", span)
        for least in (1, math.inf):
            monkeypatch.setattr(kernels, "BREAK_EVEN", least)
            assert (lockstep._kernel_for(policy, env.begin(Streams([0])), 80) is None) == (least > 1)
            results.append(simulate(policy, env, n_seeds=3, checkpoints=80))
    one, two = results
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(one.rewards, two.rewards)
    assert (one.releases, one.users, one.numbers_per_user) == (two.releases, two.users, two.numbers_per_user)


def test_rewards_that_are_clipped_are_left_to_numpy() -> None:
    """The kernel forgets to clip rewards of 0 or 1 into a narrower range."""
    world = FiniteArms(means=(0.2, 0.4)).begin(Streams([0]))
    narrow, wide = (UCB1(n_arms=2, horizon=9000, reward_range=ends) for ends in ((0.0, 0.5), (-1.0, 2.0)))
    assert lockstep._kernel_for(narrow, world, 9000) is None
    assert lockstep._kernel_for(wide, world, 9000) is not None
