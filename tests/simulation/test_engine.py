"""The simulator: freeze, collect, release, learn."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.policies.linear.base import geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded
from bandanna.simulation.environments.linear import LinearContextual

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
FRESH = LinearContextual(dim=3, n_arms=4)
FIXED = LinearContextual(dim=3, n_arms=4, fixed=True)
CHANNELS = {
    "none": (none(), 20),
    "none-every-round": (none(), 1),
    "central-blt": (central(**BUDGET), 20),
    "central-tree": (central(**BUDGET, mechanism="tree"), 20),
    "central-rho": (central(rho=0.5), 1),
    "local": (local(**BUDGET), 1),
    "shuffle": (shuffle(**BUDGET), 50),
    "shuffle-gaussian": (shuffle(**BUDGET, protocol="gaussian"), 50),
    "shuffle-geometric": (shuffle(**BUDGET), geometric(first=50, ratio=2.0)),
}
each = pytest.mark.parametrize("name", CHANNELS)
worlds = pytest.mark.parametrize("env", [FRESH, FIXED], ids=["fresh", "fixed"])


@cache
def policy(name: str, horizon: int = 200, **changes: Any) -> LinUCB:
    """A small policy over one of the channels."""
    privacy, batch = CHANNELS[name]
    return LinUCB(dim=3, horizon=horizon, privacy=privacy, batch=batch, **changes)


@pytest.mark.often(of=lambda name, env: env is FRESH or name in ("none-every-round", "local", "shuffle-geometric"))
@each
@worlds
def test_a_seed_gives_the_same_run_in_any_company(name: str, env: LinearContextual) -> None:
    many, alone = simulate(policy(name), env, n_seeds=4), simulate(policy(name), env, n_seeds=1, seed=2)
    np.testing.assert_allclose(many.regret[2], alone.regret[0], rtol=0, atol=1e-9)
    assert many.rewards[2] == alone.rewards[0]


@pytest.mark.often(of=lambda name, env: env is FRESH or name in ("none-every-round", "local", "shuffle-geometric"))
@each
@worlds
def test_regret_is_bounded_and_grows(name: str, env: LinearContextual) -> None:
    result = simulate(policy(name), env, n_seeds=3, checkpoints=17)
    assert result.checkpoints[-1] == 200
    assert result.regret.shape == (3, len(result.checkpoints))
    assert np.all(np.diff(result.regret, axis=1) >= -1e-12)
    assert np.all(result.final_regret <= 200)
    assert np.all(result.clipped == 0)


@worlds
@pytest.mark.parametrize("name", ["local", "shuffle", "central-blt"])
def test_infinite_epsilon_is_no_noise(name: str, env: LinearContextual) -> None:
    privacy, batch = CHANNELS[name]
    makers = {"local": local, "shuffle": shuffle, "central-blt": central}
    unlimited = makers[name](epsilon=math.inf, delta=1e-5)
    noisy = simulate(LinUCB(dim=3, horizon=200, privacy=unlimited, batch=batch), env, n_seeds=3)
    clear = simulate(LinUCB(dim=3, horizon=200, batch=batch, privacy=bd.none()), env, n_seeds=3)
    assert privacy.noisy
    np.testing.assert_array_equal(noisy.regret, clear.regret)
    assert noisy.guarantee.trust == "none"


@pytest.mark.often(of=lambda name, env: (env is FIXED) == (name in ("shuffle", "central-blt")))
@worlds
@pytest.mark.parametrize("name", ["shuffle", "shuffle-gaussian", "local", "central-blt"])
def test_law_and_messages_agree_in_distribution(name: str, env: LinearContextual) -> None:
    n_seeds = 150
    shortcut = simulate(policy(name, 100), env, n_seeds=n_seeds)
    plain = simulate(policy(name, 100), env, n_seeds=n_seeds, seed=1000, path="messages")
    assert stats.ks_2samp(shortcut.final_regret, plain.final_regret).pvalue > 1e-4


def test_without_noise_regret_is_far_below_random_play() -> None:
    result = simulate(LinUCB(dim=3, horizon=2000, privacy=bd.none()), LinearContextual(dim=3, n_arms=20), n_seeds=4)
    world_gap = 0.45  # best of 20 against an average arm: between 0.4 and 0.5
    assert np.mean(result.final_regret) < 0.5 * world_gap * 2000


def test_bounded_rewards_on_fixed_arms_are_drawn_user_by_user() -> None:
    env = LinearContextual(dim=3, n_arms=4, fixed=True, reward=Bounded(width=0.2))
    result = simulate(policy("shuffle"), env, n_seeds=2)
    assert np.all((result.rewards > 0) & (result.rewards < 200))


def test_a_shorter_last_batch_is_not_released() -> None:
    result = simulate(LinUCB(dim=3, horizon=130, batch=50, privacy=bd.none()), FRESH, n_seeds=2)
    assert result.releases == 2
    assert result.checkpoints[-1] == 130


@pytest.mark.parametrize("env", [None, "LinearContextual", bd.none(), LinearContextual])
def test_what_is_no_environment_is_refused(env: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"env must be an environment"):
        simulate(LinUCB(dim=2, horizon=10, batch=5, privacy=bd.none()), env)


def test_a_class_is_no_policy() -> None:
    world = bd.environments.LinearContextual(dim=3, n_arms=4)
    called = r"policy must be a policy .*, got the class LinTS. Call it: LinTS\(...\)$"
    for act in (lambda: bd.simulate(bd.LinTS, world), lambda: bd.Agent(policy=bd.LinTS)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=called):
            act()
    with pytest.raises(InvalidArgument, match=r"got the class FiniteArms. Call it: FiniteArms\(...\)$"):
        bd.simulate(bd.LinTS(dim=3, horizon=10, privacy=bd.none()), bd.environments.FiniteArms)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"policy must be a policy .*, got the class int$"):
        bd.simulate(int, world)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"policy must be a policy .*, got a str"):
        bd.simulate("LinTS", world)  # type: ignore[arg-type]


def test_bad_arguments_of_simulate_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="dim"):
        simulate(LinUCB(dim=2, horizon=10, privacy=bd.none()), FRESH)
    with pytest.raises(InvalidArgument, match="path"):
        simulate(LinUCB(dim=3, horizon=10, privacy=bd.none()), FRESH, path="short")
    with pytest.raises(InvalidArgument, match="horizon"):
        simulate(LinUCB(dim=3, horizon=10, batch=20, privacy=bd.none()), FRESH)


@pytest.mark.parametrize("wanted", [[1, 5], 0, -3, 2.5, "many"])
def test_checkpoints_must_be_a_number(wanted: Any) -> None:
    env = LinearContextual(dim=3, n_arms=4)
    with pytest.raises(InvalidArgument, match="checkpoints"):
        simulate(LinUCB(dim=3, horizon=20, privacy=bd.none()), env, checkpoints=wanted)
