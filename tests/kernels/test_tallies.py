"""Kernels of finite arms play what NumPy plays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna import kernels
from bandanna.core import coins
from bandanna.core.streams import Streams
from bandanna.environments import FiniteArms
from bandanna.policies.arms import thompson
from bandanna.policies.arms.ldp_ucb import LDPUCB
from bandanna.policies.arms.thompson import Thompson
from bandanna.policies.arms.ucb1 import UCB1
from bandanna.protocols.trust import local
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import tallied

POLICIES: dict[str, Callable[[int], Any]] = {
    "UCB1": lambda n: UCB1(n_arms=n, horizon=80),
    "less optimism": lambda n: UCB1(n_arms=n, horizon=80, optimism=0.1),
    "LDP-UCB": lambda n: LDPUCB(n_arms=n, horizon=80, privacy=local(epsilon=1.0, delta=0.0)),
    "Thompson": lambda n: Thompson(n_arms=n, horizon=80),
}


@settings(max_examples=20, deadline=None)
@given(
    means=st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.500001, 1.0]), min_size=1, max_size=12),
    policy=st.sampled_from(sorted(POLICIES)),
    span=st.sampled_from([17, 4096]),
)
def test_kernel_and_numpy_take_the_same_arms(means: list[float], policy: str, span: int) -> None:
    """A run by the kernel is another one, with arms that are tied or before all were played."""
    env, results = FiniteArms(means=tuple(means)), []
    made = POLICIES[policy](len(means))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(tallied, "_ROUNDS", span)
        for least in (1, math.inf):
            monkeypatch.setattr(kernels, "BREAK_EVEN", least)
            assert (tallied.kernel_for(made, env.begin(Streams([0])), 80) is None) == (least > 1)
            results.append(simulate(made, env, n_seeds=3, checkpoints=80))
    one, two = results
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
    for name in ("rewards", "plays", "clipped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert (one.releases, one.users, one.numbers_per_user) == (two.releases, two.users, two.numbers_per_user)


@pytest.mark.parametrize("proposals", [3, 1])
def test_refused_proposals_are_drawn_anew(proposals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gamma number all of whose proposals were refused is another one, or is drawn from other coins."""
    monkeypatch.setattr(tallied, "_PROPOSALS", proposals)
    plain = coins.gamma
    monkeypatch.setattr(thompson, "gamma", lambda shapes, own: plain(shapes, own, proposals=proposals))
    env, policy, results = FiniteArms(means=(0.2, 0.5, 0.6, 0.3)), POLICIES["Thompson"](4), []
    for least in (1, math.inf):
        monkeypatch.setattr(kernels, "BREAK_EVEN", least)
        results.append(simulate(policy, env, n_seeds=4, checkpoints=80))
    np.testing.assert_array_equal(results[0].plays, results[1].plays)
    np.testing.assert_allclose(results[0].regret, results[1].regret, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_rewards_that_are_clipped_are_left_to_numpy(policy: str) -> None:
    """The kernel forgets to clip rewards of 0 or 1 into a narrower range, or to round them in a wider one."""
    world = FiniteArms(means=(0.2, 0.4)).begin(Streams([0]))
    narrow, wide = (replace(POLICIES[policy](2), reward_range=ends) for ends in ((0.0, 0.5), (-1.0, 2.0)))
    assert tallied.kernel_for(narrow, world, 9000) is None
    assert (tallied.kernel_for(wide, world, 9000) is None) == (policy not in ("UCB1", "less optimism"))
