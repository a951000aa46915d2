"""Least Gaussian, continual and Laplace noise, and the printed noise of the papers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from bandanna.errors import InvalidArgument, InvalidBudget, OutsideTheorem
from bandanna.privacy import accountant, calibration, gdp
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


ROWS = [
    # epsilon, delta, then d = 5, 10, 15: std of the batch sum as printed (proofs.md A.5, column "paper")
    (0.2, 0.1, 7368, 8808, 9662),
    (0.2, 1e-5, 17137, 18577, 19431),
    (1.0, 0.1, 1474, 1762, 1932),
    (1.0, 1e-5, 3427, 3715, 3886),
    (10.0, 0.1, 147, 176, 193),
    (10.0, 1e-5, 343, 372, 389),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("batch", [20, 200, 2000])
def test_the_vector_sum_has_the_printed_std(row: tuple[float, ...], batch: int) -> None:
    epsilon, delta, *stds = row
    for features, std in zip((5, 10, 15), stds, strict=True):
        noise = calibration.paper_binomial_noise(
            features=features, bound=1.0, users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta)
        )
        assert noise.probability == 0.25
        assert noise.scale == max(2 * math.sqrt(batch), features, 4)
        coins = batch * noise.trials * 3 / 16
        assert math.sqrt(coins) / noise.scale == pytest.approx(std, abs=0.5 + 1e-4 * std)
        assert noise.std() == pytest.approx(std, abs=0.5 + 1e-4 * std)


def test_vector_sum_scales_with_the_bound() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    wide, narrow = (calibration.paper_binomial_noise(features=5, bound=b, users=20, budget=budget) for b in (2.0, 1.0))
    assert wide.trials == narrow.trials
    assert wide.std() == pytest.approx(2 * narrow.std())


def test_the_vector_sum_of_returning_users_has_the_printed_coins() -> None:
    noise = calibration.paper_binomial_noise(
        features=5, bound=1.0, users=20, budget=ApproxDP(epsilon=1.0, delta=0.1), participations=7
    )
    horizon, g = 140, 2 * math.sqrt(20)
    printed = 10**7 * math.log(20) * g**2 * horizon * math.log(8 * horizon * 26 / (20 * 0.1)) ** 2 / 20**2
    assert noise.trials == math.ceil(printed)
    assert noise.trials == 77_079_501_652
    assert noise.scale == g


# proofs.md B, column "paper Thm 3.2": std per user; those that the theorem's range admits
PRINTED = [(0.2, 0.1, 20, 27.289), (0.2, 1e-5, 20, 86.782), (0.2, 1e-5, 200, 29.420)]
BEYOND = [
    (0.2, 0.1, 200, 10.103),
    (0.2, 0.1, 2000, 3.601),
    (0.2, 1e-5, 2000, 9.889),
    (1.0, 0.1, 20, 5.458),
    (1.0, 1e-5, 20, 17.356),
    (10.0, 0.1, 20, 0.546),
    (10.0, 1e-5, 2000, 0.198),
]


@pytest.mark.parametrize(("epsilon", "delta", "batch", "std"), PRINTED)
def test_shuffled_reports_have_the_printed_std(epsilon: float, delta: float, batch: int, std: float) -> None:
    ours = calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta))
    assert ours == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta", "batch", "std"), BEYOND)
def test_shuffled_reports_are_refused_beyond_theorem_3_2(epsilon: float, delta: float, batch: int, std: float) -> None:
    bound = math.sqrt(math.log(2 / delta) / batch)
    assert epsilon > bound
    with pytest.raises(OutsideTheorem, match=r"epsilon must be at most .*Thm 3\.2.*tight") as caught:
        calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta))
    assert f"{bound:.4g}" in caught.value.allowed
    # the formula goes on beyond its range: at the bound it gives the table's value times epsilon / bound
    inside = calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=bound * (1 - 1e-12), delta=delta))
    assert inside * bound / epsilon == pytest.approx(std, rel=3e-3)


def test_shuffled_reports_of_returning_users_follow_theorem_e_3() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    std = calibration.shuffled_report_std(users=100, budget=budget, participations=9)
    assert std == pytest.approx(16 * math.log(2e5) * math.sqrt(900 * math.log(4.5e8)) / 100, rel=1e-12)
    assert std == pytest.approx(261.5, abs=0.1)
    bound = 2 / 100 * math.log(2e5) * math.sqrt(1800)
    with pytest.raises(OutsideTheorem, match=r"Thm E\.3"):
        calibration.shuffled_report_std(users=100, budget=ApproxDP(epsilon=bound * 1.001, delta=1e-5), participations=9)
    calibration.shuffled_report_std(users=100, budget=ApproxDP(epsilon=bound * 0.999, delta=1e-5), participations=9)


def test_the_classical_gaussian_mechanism_stops_at_epsilon_1() -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-5)
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=budget) == pytest.approx(19.3792, abs=1e-3)
    for epsilon in (1.0001, 10.0):
        with pytest.raises(OutsideTheorem, match="epsilon"):
            calibration.paper_gaussian_std(sensitivity=2.0, budget=ApproxDP(epsilon=epsilon, delta=1e-5))
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ApproxDP(epsilon=1.0, delta=1e-5)) > 0
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ZCDP(rho=0.5)) == pytest.approx(2.0)
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ZCDP(rho=0.5), participations=4) == pytest.approx(4.0)


def test_local_reports_follow_proposition_f_1_up_to_epsilon_1() -> None:
    assert calibration.report_std(budget=ApproxDP(epsilon=0.5, delta=1e-5)) == pytest.approx(39.8866, abs=1e-3)
    with pytest.raises(OutsideTheorem, match=r"Prop\. F\.1"):
        calibration.report_std(budget=ApproxDP(epsilon=1.01, delta=1e-5))


def test_releases_of_returning_users_share_the_budget_by_theorem_e_2() -> None:
    epsilon, delta, m = 0.5, 1e-5, 6
    share = epsilon / (2 * math.sqrt(2 * m * math.log(2 / delta)))
    assert calibration.paper_gaussian_std(
        sensitivity=2.0, budget=ApproxDP(epsilon=epsilon, delta=delta), participations=m
    ) == pytest.approx(2 * math.sqrt(2 * math.log(1.25 * 2 * m / delta)) / share)
    assert calibration.report_std(budget=ApproxDP(epsilon=epsilon, delta=delta), participations=m) == pytest.approx(
        4 * math.sqrt(2 * math.log(2.5 * 2 * m / delta)) / share
    )
    for call in (
        lambda b: calibration.paper_gaussian_std(sensitivity=1.0, budget=b, participations=m),
        lambda b: calibration.report_std(budget=b, participations=m),
    ):
        with pytest.raises(OutsideTheorem, match=r"Thm E\.2"):
            call(ApproxDP(epsilon=1.0, delta=1e-5))


def test_the_vector_sum_is_refused_beyond_theorem_c_1() -> None:
    shape = {"features": 5, "bound": 1.0, "users": 20}
    for m in (1, 3):
        with pytest.raises(OutsideTheorem, match="epsilon"):
            calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=15.01, delta=1e-5), participations=m)
        with pytest.raises(OutsideTheorem, match="delta"):
            calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=1.0, delta=0.5), participations=m)
    assert calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=15.0, delta=0.499)).trials > 0


def test_budgets_that_the_papers_do_not_have_are_refused() -> None:
    budgets: list[Budget] = [
        PureDP(epsilon=0.1),
        RenyiDP(alpha=2.0, epsilon=0.1),
        ApproxDP(epsilon=0.1, delta=0.0),
        ZCDP(rho=0.1),
    ]
    for budget in budgets:
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.report_std(budget=budget)
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.shuffled_report_std(users=20, budget=budget)
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.paper_binomial_noise(features=2, bound=1.0, users=20, budget=budget)
        if not isinstance(budget, ZCDP):
            with pytest.raises(InvalidBudget, match="budget"):
                calibration.paper_gaussian_std(sensitivity=1.0, budget=budget)


def test_one_user_is_no_batch() -> None:
    budget = ApproxDP(epsilon=0.1, delta=1e-5)
    with pytest.raises(InvalidArgument, match="batch"):
        calibration.shuffled_report_std(users=1, budget=budget)
    with pytest.raises(InvalidArgument, match="batch"):
        calibration.paper_binomial_noise(features=2, bound=1.0, users=1, budget=budget)
