"""The kernel of explored rounds plays what NumPy plays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna import kernels
from bandanna.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.policies.glm import RSGLinUCB
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import rounds


@settings(max_examples=12, deadline=None)
@given(
    dim=st.integers(1, 5),
    n_arms=st.integers(1, 9),
    preset=st.sampled_from(["corrected", "published"]),
    constants=st.sampled_from(["theory", "published"]),
    shared=st.booleans(),
    small=st.booleans(),
)
def test_kernel_and_numpy_take_the_same_arms(
    dim: int, n_arms: int, preset: str, constants: str, shared: bool, small: bool
) -> None:
    """A run by the kernel explores other rounds, takes other arms or switches elsewhere; also at the ends of chunks."""
    horizon, results = 150, []
    env = (
        PublishedGLM(dim=dim, n_arms=n_arms, rounds=horizon, link="logistic")
        if shared
        else GeneralisedLinear(dim=dim, n_arms=n_arms)
    )
    policy = RSGLinUCB(dim=dim, horizon=horizon, preset=preset, constants=constants, parameter_bound=2.0)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if small:
            monkeypatch.setattr(rounds, "_BYTES", 8 * 3 * n_arms * (dim + 2) * 20)
        for least in (1, math.inf):
            monkeypatch.setattr(kernels, "BREAK_EVEN", least)
            results.append(simulate(policy, env, n_seeds=3, checkpoints=horizon))
    one, two = results
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
    for name in ("rewards", "plays", "clipped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.counts.keys() == two.counts.keys()
    for name, counted in one.counts.items():
        np.testing.assert_array_equal(counted, two.counts[name])
