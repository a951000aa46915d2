"""Least Gaussian, continual and Laplace noise: kept, tight, and 20 % less is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.calibration import continual_std, finite_mu, gaussian_std, laplace_scale, level_prices
from bandanna.privacy.events import ContinualEvent, Event, GaussianEvent, LaplaceEvent, RepetitionEvent
from bandanna.privacy.factorisation import BinaryTree, factorise
from bandanna.privacy.prices import fine_grid

from ..drawn import examples

DELTA_2 = math.sqrt(4.5)
BUDGETS: list[Budget] = [
    ApproxDP(epsilon=0.2, delta=0.1),
    ApproxDP(epsilon=1.0, delta=1e-5),
    ApproxDP(epsilon=10.0, delta=1e-5),
    ApproxDP(epsilon=0.01, delta=1e-12),
    ApproxDP(epsilon=20.0, delta=1e-2),
    ZCDP(rho=0.1),
    RenyiDP(alpha=8.0, epsilon=0.5),
]


def released(std: float, dim: int, participations: int, sensitivity: float = DELTA_2) -> Event:
    """What the secure source releases with this noise."""
    one = GaussianEvent(std=std, sensitivity=sensitivity, dim=dim, grid=fine_grid(std, sensitivity, dim))
    return RepetitionEvent(event=one, times=participations)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize(("dim", "participations"), [(1, 1), (20, 1), (135, 3)])
def test_gaussian_noise_is_within_1e_4_of_the_analytic_std(budget: Budget, dim: int, participations: int) -> None:
    std = gaussian_std(sensitivity=DELTA_2, dim=dim, budget=budget, participations=participations)
    ideal = DELTA_2 * math.sqrt(participations) / budget.mu()
    assert ideal <= std <= ideal * (1 + 1e-4)
    assert accountant.satisfies(released(std, dim, participations), budget)
    assert not accountant.satisfies(released(0.8 * std, dim, participations), budget)
    assert not accountant.satisfies(released(ideal * (1 - 1e-6), dim, participations), budget)


@pytest.mark.parametrize(
    ("epsilon", "delta", "central"),
    [(0.2, 0.1, 4.877), (0.2, 1e-5, 34.586), (1, 0.1, 2.303), (1, 1e-5, 7.914), (10, 0.1, 0.598), (10, 1e-5, 1.060)],
)
def test_central_noise_is_that_of_the_derivation(epsilon: float, delta: float, central: float) -> None:
    std = gaussian_std(sensitivity=DELTA_2, dim=20, budget=ApproxDP(epsilon=epsilon, delta=delta))
    assert std == pytest.approx(central, rel=1e-3)


@examples(10, full=25)
@given(st.floats(0.05, 10.0), st.floats(1e-9, 0.1), st.floats(0.1, 9.0), st.floats(1.05, 3.0))
def test_gaussian_noise_falls_with_the_budget(epsilon: float, delta: float, sensitivity: float, factor: float) -> None:

    def std(**changes: float) -> float:
        parts = {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity, **changes}
        budget = ApproxDP(epsilon=parts["epsilon"], delta=parts["delta"])
        return gaussian_std(sensitivity=parts["sensitivity"], dim=3, budget=budget)

    assert std(epsilon=factor * epsilon) < std()
    assert std(delta=factor * delta) < std()
    assert std(sensitivity=factor * sensitivity) == pytest.approx(factor * std(), rel=1e-6)


@pytest.mark.parametrize("name", ["tree", "blt"])
@pytest.mark.parametrize("participations", [1, 3])
def test_continual_noise_is_within_2e_4_of_the_formula(name: str, participations: int) -> None:
    factors, budget = factorise(name, horizon=200), ApproxDP(epsilon=1.0, delta=1e-5)
    std = continual_std(
        factorisation=factors, sensitivity=DELTA_2, dim=20, budget=budget, participations=participations
    )
    change = DELTA_2 * factors.sensitivity(participations)
    apart = participations * DELTA_2 * factors.sensitivity()
    assert change / budget.mu() <= std <= change / budget.mu() * (1 + 2e-4)

    def event(std: float) -> Event:
        return ContinualEvent(
            factorisation=factors,
            std=std,
            sensitivity=DELTA_2,
            participations=participations,
            dim=20,
            grid=fine_grid(std, apart, 20 * factors.releases(participations)),
        )

    assert accountant.satisfies(event(std), budget)
    assert not accountant.satisfies(event(0.8 * std), budget)


def test_the_worst_prefix_of_a_tree_is_that_of_the_derivation() -> None:
    tree = BinaryTree(horizon=20_000)
    for delta, stated in ((0.1, 33.4), (1e-5, 114.7)):
        budget = ApproxDP(epsilon=1.0, delta=delta)
        std = continual_std(factorisation=tree, sensitivity=DELTA_2, dim=20, budget=budget)
        assert std * tree.error() == pytest.approx(stated, rel=2e-3)


def affordable(rho: float) -> float:
    """epsilon of randomized response whose relative entropy is rho."""
    return float(optimize.brentq(lambda e: e * (math.exp(e) - 1) / (math.exp(e) + 1) - rho, 1e-9, 100.0, xtol=1e-13))


@pytest.mark.parametrize("participations", [1, 4])
@pytest.mark.parametrize("dim", [1, 7])
def test_laplace_noise_is_the_least_for_its_budget(dim: int, participations: int) -> None:
    cases: list[tuple[Budget, float]] = [
        (PureDP(epsilon=0.7), participations / 0.7),
        (ApproxDP(epsilon=0.7, delta=0.0), participations / 0.7),
        (ApproxDP(epsilon=0.7, delta=1e-5), participations / 0.7),
        *((ZCDP(rho=rho), 1 / affordable(rho / participations)) for rho in (0.1, 20.0)),
    ]
    for budget, ideal in cases:
        scale = laplace_scale(sensitivity=3.0, dim=dim, budget=budget, participations=participations)
        assert 3 * ideal <= scale <= 3 * ideal * (1 + 1e-4)

        def event(scale: float) -> Event:
            one = LaplaceEvent(scale=scale, sensitivity=3.0, dim=dim, grid=fine_grid(scale, 3.0, dim**2))
            return RepetitionEvent(event=one, times=participations)

        strict = PureDP(epsilon=budget.epsilon) if isinstance(budget, ApproxDP) else budget
        assert accountant.satisfies(event(scale), strict)
        assert not accountant.satisfies(event(0.8 * scale), strict)


@pytest.mark.parametrize("nodes", [(255.0, 15.0, 1.0), (9.0, 9.0), (4.0,), (1.0, 2.0, 3.0, 4.0)])
def test_the_split_of_a_price_over_levels_has_the_least_variance(nodes: tuple[float, ...]) -> None:
    mu = 0.7
    prices = level_prices(mu, nodes)
    assert math.fsum(p**2 for p in prices) == pytest.approx(mu**2)

    def variance(split: Any) -> float:
        return float(sum(m / p**2 for m, p in zip(nodes, split, strict=True)))

    assert variance(prices) == pytest.approx(sum(math.sqrt(m) for m in nodes) ** 2 / mu**2)
    rng = np.random.default_rng(0)
    for weights in rng.dirichlet(np.ones(len(nodes)), size=200):
        assert variance(mu * np.sqrt(weights)) >= variance(prices) * (1 - 1e-12)


def test_the_split_over_levels_is_that_of_the_derivation() -> None:
    nodes = (255.0, 15.0, 1.0)
    best = math.sqrt(sum(m / p**2 for m, p in zip(nodes, level_prices(1.0, nodes), strict=True)))
    assert best == pytest.approx(20.8417, abs=1e-3)
    assert math.sqrt(3 * sum(nodes)) == pytest.approx(28.513, abs=1e-2)


def test_budgets_that_cannot_be_met() -> None:
    factors = BinaryTree(horizon=4)
    for budget in (PureDP(epsilon=1.0), ApproxDP(epsilon=1.0, delta=0.0)):
        with pytest.raises(InvalidBudget, match="delta"):
            gaussian_std(sensitivity=1.0, dim=1, budget=budget)
        with pytest.raises(InvalidBudget, match="delta"):
            continual_std(factorisation=factors, sensitivity=1.0, dim=1, budget=budget)
    endless: list[Budget] = [ApproxDP(epsilon=math.inf, delta=1e-5), ZCDP(rho=math.inf), PureDP(epsilon=math.inf)]
    for budget in endless:
        with pytest.raises(InvalidBudget, match="finite"):
            gaussian_std(sensitivity=1.0, dim=1, budget=budget)
        with pytest.raises(InvalidBudget, match="finite"):
            laplace_scale(sensitivity=1.0, dim=1, budget=budget)
        with pytest.raises(InvalidBudget, match="finite"):
            finite_mu(budget)
    assert finite_mu(ApproxDP(epsilon=1.0, delta=1e-5)) == gdp.mu(1.0, 1e-5)


@pytest.mark.parametrize("epsilon", [600.1, 1e3, 1e300])
def test_an_epsilon_beyond_the_floats_is_named(epsilon: float) -> None:
    with pytest.raises(InvalidBudget, match=r"epsilon must be at most 600, or math\.inf, got"):
        gaussian_std(sensitivity=1.0, dim=2, budget=ApproxDP(epsilon=epsilon, delta=1e-5))
    assert gaussian_std(sensitivity=1.0, dim=2, budget=ApproxDP(epsilon=600.0, delta=1e-5)) < 0.04


@pytest.mark.parametrize("participations", [0, -1, 2.5, True, None])
def test_meaningless_participations_are_refused_for_gaussian_noise(participations: Any) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidArgument, match="participations"):
        gaussian_std(sensitivity=1.0, dim=1, budget=budget, participations=participations)
    with pytest.raises(InvalidArgument, match="participations"):
        continual_std(
            factorisation=BinaryTree(horizon=4), sensitivity=1.0, dim=1, budget=budget, participations=participations
        )


def test_a_level_without_nodes_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="nodes"):
        level_prices(1.0, (4.0, 0.0))
