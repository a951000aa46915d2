"""Memory of a simulation: it holds some users at a time and the checkpoints, however long the run is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from bandanna.policies.linear.base import Schedule, geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.players import fixed_batches

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MODELS = [none(), central(**BUDGET), local(**BUDGET), shuffle(**BUDGET), shuffle(**BUDGET, protocol="gaussian")]
models = pytest.mark.parametrize("privacy", MODELS, ids=lambda privacy: f"{privacy.model}-{privacy.protocol}")
WORLDS = {
    "fixed": LinearContextual(dim=2, n_arms=3, fixed=True),
    "fixed-bounded": LinearContextual(dim=2, n_arms=3, fixed=True, reward=Bounded()),
    "fresh": LinearContextual(dim=2, n_arms=3),
}


def peak(privacy: Privacy, env: LinearContextual, horizon: int) -> int:
    """Bytes that a run of a few large batches needs at once."""
    policy = LinUCB(dim=2, horizon=horizon, privacy=privacy, batch=horizon // 4)
    _ = policy.radii, policy.guarantee
    tracemalloc.start()
    simulate(policy, env, n_seeds=2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def _in_its_own_world(privacy: Privacy, world: str) -> bool:
    """Every model in one world, and every world with several."""
    own = {"none": "fixed", "central": "fixed-bounded", "local": "fresh"}.get(privacy.model, world)
    return world == own and (privacy.protocol != "gaussian" or world == "fresh")


@pytest.mark.often(of=_in_its_own_world)
@models
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rounds", [6_000, pytest.param(30_000, marks=pytest.mark.full)])
def test_memory_does_not_grow_with_the_horizon(
    privacy: Privacy, world: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounds == 6_000:  # a batch has several parts all the same
        monkeypatch.setattr(fixed_batches, "_PART", 512)
        monkeypatch.setattr(fixed_batches, "_PART", 512)
    simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=10), WORLDS[world], n_seeds=2)  # what is loaded once
    assert peak(privacy, WORLDS[world], 8 * rounds) < 1.3 * peak(privacy, WORLDS[world], rounds)


def _once(privacy: Privacy, world: str, batch: int | Schedule) -> bool:
    """Every model with both schedules, each in another world; Gaussians that are shuffled, of one size."""
    return (batch == 150) == (world == "fresh") and (batch == 150 or privacy.protocol != "gaussian")


@pytest.mark.often(of=_once)
@models
@pytest.mark.parametrize("world", ["fixed-bounded", "fresh"])
@pytest.mark.parametrize("batch", [150, geometric(first=30, ratio=2.0)], ids=["fixed", "geometric"])
def test_batches_played_in_parts_give_the_same_run(
    privacy: Privacy, world: str, batch: int | Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = LinearContextual(dim=3, n_arms=4, fixed=world != "fresh", reward=WORLDS[world].reward)
    policy = LinUCB(dim=3, horizon=500, privacy=privacy, batch=batch, width=0.2)
    whole = simulate(policy, env, n_seeds=3)
    monkeypatch.setattr(fixed_batches, "_PART", 7)
    monkeypatch.setattr(fixed_batches, "_PART", 7)
    parts = simulate(policy, env, n_seeds=3)
    np.testing.assert_allclose(parts.regret, whole.regret, rtol=1e-9)
    np.testing.assert_allclose(parts.rewards, whole.rewards, rtol=1e-9)
    assert (parts.releases, parts.users) == (whole.releases, whole.users)
