"""Measured regret between the bounds: below the policy's own, and above those for every policy on their hard worlds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.numeric.rng import Streams
from bandanna.policies import contextual_bounds, regret_bounds
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL
from bandanna.protocols.privacy_model import central, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment, World
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms
from bandanna.simulation.environments.linear import LinearContextual, SphereArms, SphereContexts
from bandanna.simulation.result import Result

MEANS = (0.75, 0.625, 0.5, 0.375, 0.25)
WIDE = ClippedGaussian(low=-9.0, high=9.0, std=1.0)  # unit variance, and practically never clipped


def keeps_to_its_upper_bounds(result: Result) -> None:
    upper = [curve for curve in result.bounds() if curve.bound.side == "upper" and curve.bound.explicit]
    assert upper
    for curve in upper:
        assert np.all(result.regret <= curve.values), curve.label


@pytest.mark.parametrize("rho", [0.01, 1.0, math.inf])
def test_adac_ucb_stays_below_theorems_10_and_11(rho: float) -> None:
    policy = UCBEpisodes(n_arms=5, horizon=10**6, privacy=central(rho=rho), optimism=3.1)
    result = simulate(policy, FiniteArms(means=MEANS), n_seeds=20)
    keeps_to_its_upper_bounds(result)
    names = [curve.bound.name for curve in result.bounds()]
    assert names == ["adac_ucb_gaps", "adac_ucb_worst", "finite_lower"]


@pytest.mark.parametrize("rho", [0.1, math.inf])
def test_gope_stays_below_the_proof_of_theorem_4(rho: float) -> None:
    policy = GOPE(dim=3, horizon=10**6, privacy=central(rho=rho))
    keeps_to_its_upper_bounds(simulate(policy, SphereArms(dim=3, n_arms=10), n_seeds=10))


@pytest.mark.parametrize("privacy", [none(), central(epsilon=1.0, delta=1e-5)])
def test_linucb_stays_below_lemma_a2(privacy: object) -> None:
    policy = LinUCB(dim=3, horizon=3000, privacy=privacy, batch="paper")  # type: ignore[arg-type]
    keeps_to_its_upper_bounds(simulate(policy, LinearContextual(dim=3, n_arms=10, fixed=True), n_seeds=5))


@pytest.mark.parametrize("rho", [1.0, math.inf])
def test_oful_stays_below_the_proof_of_theorem_5(rho: float) -> None:
    policy = OFUL(dim=3, horizon=20_000, privacy=central(rho=rho), eigenvalue=0.05)
    keeps_to_its_upper_bounds(simulate(policy, SphereContexts(dim=3, n_arms=10), n_seeds=3))


@pytest.mark.parametrize(("horizon", "rho"), [(2000, 1.0), (2000, 1e-4), (500, 1e-6)])
def test_the_hard_family_of_theorem_17_has_the_stated_regret(horizon: int, rho: float) -> None:
    arms, lower = 4, regret_bounds.finite_lower(horizon=horizon, n_arms=4, rho=rho)
    gaps = [regret_bounds.hard_gap(horizon=horizon, n_arms=arms, rho=rho), math.sqrt((arms - 1) / (4 * horizon))]
    policy = UCBEpisodes(n_arms=arms, horizon=horizon, privacy=central(rho=rho), reward_range=(-9.0, 9.0))
    worst = 0.0
    for gap in gaps:
        for raised in (None, 1, 2, 3):
            means = [gap, 0.0, 0.0, 0.0]
            if raised is not None:
                means[raised] = 2 * gap
            result = simulate(policy, FiniteArms(means=tuple(means), reward=WIDE), n_seeds=5)
            worst = max(worst, float(result.mean()[-1]))
    assert worst >= lower


@pytest.mark.parametrize("horizon", [500, pytest.param(2000, marks=pytest.mark.full), 8000])
def test_the_best_policies_stay_within_a_constant_of_theorem_17(horizon: int) -> None:
    lower, gap = regret_bounds.finite_lower(horizon=horizon, n_arms=4), math.sqrt(3 / (4 * horizon))
    policy = UCBEpisodes(n_arms=4, horizon=horizon, reward_range=(-9.0, 9.0), optimism=0.01, privacy=none())
    means = [tuple(2 * gap if arm == raised else gap * (arm == 0) for arm in range(4)) for raised in (None, 1, 2, 3)]
    worst = max(float(simulate(policy, FiniteArms(means=m, reward=WIDE), n_seeds=60).mean()[-1]) for m in means)
    assert 8 * lower < worst < 32 * lower  # a bound that is twice as large, or half, would be noticed


@dataclass(frozen=True, kw_only=True)
class Corners(Environment):
    """The corners of [-1, 1]^d as arms, a given theta: the hard worlds of Theorem 9."""

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    theta: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", len(self.theta))
        object.__setattr__(self, "n_arms", 2 ** len(self.theta))
        super().__post_init__()

    def begin(self, streams: Streams) -> World:
        return CornerWorld(environment=self, streams=streams, fixed=True)


class CornerWorld(World):
    """Worlds of `Corners`."""

    environment: Corners

    def contexts(self, start: int, rounds: int) -> NDArray[np.float64]:
        corners = np.array(list(product((-1.0, 1.0), repeat=self.environment.dim)))
        return np.broadcast_to(corners, (len(self.streams.seeds), 1, *corners.shape))

    def means(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        return contexts @ np.array(self.environment.theta)


@pytest.mark.parametrize(("horizon", "rho"), [(2000, 1.0), (1000, 1e-4)])
def test_the_hard_family_of_theorem_9_has_the_stated_regret(horizon: int, rho: float) -> None:
    policy = GOPE(dim=2, horizon=horizon, privacy=central(rho=rho), reward_range=(-9.0, 9.0), reward_std=1.0)
    worst = 0.0
    for size in (1 / (horizon * math.sqrt(rho)), 1 / math.sqrt(horizon)):
        for signs in product((-1.0, 1.0), repeat=2):
            env = Corners(theta=tuple(size * sign for sign in signs), reward=WIDE)
            worst = max(worst, float(simulate(policy, env, n_seeds=5).mean()[-1]))
    assert worst >= regret_bounds.linear_lower(horizon=horizon, dim=2, rho=rho, as_printed=True)


@pytest.mark.parametrize("horizon", [500, pytest.param(2000, marks=pytest.mark.full)])
def test_the_best_policies_stay_within_a_constant_of_theorem_9(horizon: int) -> None:
    lower, size = regret_bounds.linear_lower(horizon=horizon, dim=2), 1 / math.sqrt(horizon)
    policy = OFUL(
        dim=2, horizon=horizon, reward_range=(-9.0, 9.0), reward_std=1.0, feature_bound=1.5, width=0.3, privacy=none()
    )
    worlds = [Corners(theta=(size * one, size * two), reward=WIDE) for one, two in product((-1.0, 1.0), repeat=2)]
    worst = max(float(simulate(policy, world, n_seeds=8).mean()[-1]) for world in worlds)
    assert 16 * lower < worst < 66 * lower


@pytest.mark.parametrize("privacy", [none(), central(epsilon=1.0, delta=1e-5)])
def test_linucb_stays_below_theorem_c2_of_002(privacy: object) -> None:
    policy = LinUCB(dim=3, horizon=1000, privacy=privacy, batch=1, confidence="lemma")  # type: ignore[arg-type]
    result = simulate(policy, LinearContextual(dim=3, n_arms=10), n_seeds=5)
    least = float(result.setting["smallest"])
    bound = contextual_bounds.regular_linucb(
        horizon=result.checkpoints, dim=3, smallest=least, largest=3 * least, shift=math.sqrt(least), failure=0.1
    )
    assert np.all(result.regret <= bound)
