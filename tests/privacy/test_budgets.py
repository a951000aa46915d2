"""Conversions between budgets, each against a pair of laws that attains it or a formula of another origin."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from bandanna.errors import InvalidBudget
from bandanna.privacy import gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP


def responses(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    truth, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return np.array([truth, lie]), np.array([lie, truth])


def renyi(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    """log sum p^alpha q^(1 - alpha) / (alpha - 1), summed in logarithms."""
    return float(np.logaddexp.reduce(alpha * np.log(p) + (1 - alpha) * np.log(q))) / (alpha - 1)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 15.0])
@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 8.0, 64.0])
def test_pure_to_renyi_is_randomized_response(epsilon: float, alpha: float) -> None:
    p, q = responses(epsilon)
    truth = renyi(p, q, alpha)
    stated = PureDP(epsilon=epsilon).to_renyi(alpha)
    assert stated.alpha == alpha
    assert stated.epsilon == pytest.approx(truth, rel=1e-6)
    less = PureDP(epsilon=0.8 * epsilon).to_renyi(alpha)
    assert less.epsilon < truth  # 20 % less is noticed
    x = np.linspace(-40 / epsilon, 40 / epsilon, 200_001)  # the Laplace mechanism is epsilon-DP too
    log_p, log_q = -epsilon * np.abs(x - 1), -epsilon * np.abs(x)
    density = alpha * log_p + (1 - alpha) * log_q
    laplace = math.log(integrate.trapezoid(epsilon / 2 * np.exp(density - density.max()), x)) + density.max()
    assert laplace / (alpha - 1) <= stated.epsilon * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 10.0])
def test_a_pure_budget_is_the_zcdp_of_randomized_response(epsilon: float) -> None:
    rho = PureDP(epsilon=epsilon).to_zcdp().rho
    p, q = responses(epsilon)
    for alpha in (1.001, 1.5, 3.0, 20.0):
        assert renyi(p, q, alpha) <= rho * alpha * (1 + 1e-9)
    relative_entropy = float(np.sum(p * np.log(p / q)))  # alpha -> 1: that order needs all of it
    assert rho == pytest.approx(relative_entropy, rel=1e-9)
    assert rho < epsilon**2 / 2
    p, q = responses(epsilon / 0.8)
    assert float(np.sum(p * np.log(p / q))) > rho  # 20 % less noise is noticed


@given(st.floats(1e-3, 12.0), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_no_pure_pair_has_more_concentrated_price(epsilon: float, outcomes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(outcomes, 0.5)) + 1e-9
    odds = np.exp(epsilon * rng.choice([0.0, 1.0, rng.random()], outcomes))  # within a factor e^epsilon of each other
    p, q = q * odds / np.sum(q * odds), q / np.sum(q)
    assert np.max(np.abs(np.log(p / q))) <= epsilon * (1 + 1e-9)
    rho = PureDP(epsilon=epsilon).to_zcdp().rho
    for alpha in (1.0 + 1e-3, 1.3, 2.0, 6.0):
        assert renyi(p, q, alpha) <= rho * alpha * (1 + 1e-9) + 1e-12


def test_the_concentrated_price_is_rounded_up() -> None:
    with mpmath.workdps(50):
        for epsilon in np.geomspace(1e-6, 300.0, 200).tolist():
            exact = mpmath.mpf(epsilon) * mpmath.tanh(mpmath.mpf(epsilon) / 2)
            stated = mpmath.mpf(PureDP(epsilon=epsilon).to_zcdp().rho)
            assert exact <= stated <= exact * (1 + mpmath.mpf(10) ** -14)


@pytest.mark.parametrize("rho", [1e-9, 0.1, 0.5, 2.0, 4.0, 60.0])
def test_concentrated_to_pure_is_the_inverse(rho: float) -> None:
    epsilon = ZCDP(rho=rho).pure()
    assert PureDP(epsilon=epsilon).to_zcdp().rho <= rho
    assert PureDP(epsilon=epsilon * (1 + 1e-9)).to_zcdp().rho > rho
    assert math.isinf(ZCDP(rho=math.inf).pure())


@given(st.floats(1e-3, 20.0), st.floats(0.0, 0.999))
def test_pure_to_approximate_is_exact(epsilon: float, delta: float) -> None:
    converted = PureDP(epsilon=epsilon).to_approx(delta)
    p, q = responses(epsilon)
    assert hockey_stick(p, q, converted.epsilon) <= delta + 1e-12
    if converted.epsilon > 1e-6:
        assert hockey_stick(p, q, converted.epsilon - 1e-7 * epsilon) > delta - 1e-12
    else:
        assert hockey_stick(p, q, 0.0) <= delta + 1e-9


def test_pure_to_approximate_at_the_ends() -> None:
    assert PureDP(epsilon=0.7).to_approx(0.0).epsilon == pytest.approx(0.7, rel=1e-15)
    assert PureDP(epsilon=math.inf).to_approx(0.3) == ApproxDP(epsilon=math.inf, delta=0.3)
    assert PureDP(epsilon=math.inf).to_zcdp() == ZCDP(rho=math.inf)


@pytest.mark.parametrize("rho", [1e-4, 1e-2, 0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-5, 1e-10, 1e-15])
def test_zcdp_converts_to_no_less_than_the_gaussian_and_no_more_than_dp_accounting(rho: float, delta: float) -> None:
    epsilon = ZCDP(rho=rho).to_approx(delta).epsilon
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert epsilon >= gdp.epsilon(delta, math.sqrt(2 * rho)) * (1 - 1e-12)
    # another route to the optimum: dp-accounting's conversion at a dense list of orders
    orders = [*(1 + np.geomspace(1e-2, 1e5, 4001)).tolist()]
    theirs, _ = rdp.compute_epsilon(orders, [rho * order for order in orders], delta)
    assert epsilon <= theirs * (1 + 1e-3) + 1e-12 or theirs == 0.0
    assert gdp.epsilon(delta, math.sqrt(2 * rho) / 0.8) > epsilon or delta > 1e-3  # a std 20 % smaller breaks it


@pytest.mark.parametrize("rho", [1e-3, 0.1, 0.5, 3.0])
def test_the_delta_of_zcdp_inverts_its_conversion(rho: float) -> None:
    for delta in (1e-2, 1e-6, 1e-12):
        epsilon = ZCDP(rho=rho).to_approx(delta).epsilon
        assert ZCDP(rho=rho).delta(epsilon) == pytest.approx(delta, rel=1e-3)
        assert ZCDP(rho=rho).delta(epsilon) >= float(gdp.delta(epsilon, math.sqrt(2 * rho)))
    assert ZCDP(rho=rho).delta(1e-9) <= 1.0


@pytest.mark.parametrize("alpha", [1.1, 2.0, 10.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_renyi_budgets_convert_as_in_dp_accounting(alpha: float, epsilon: float, delta: float) -> None:
    theirs, _ = rdp.compute_epsilon([alpha], [epsilon], delta)
    ours = RenyiDP(alpha=alpha, epsilon=epsilon).to_approx(delta)
    assert ours.epsilon == pytest.approx(max(theirs, 0.0), rel=1e-12, abs=1e-300)
    assert ours.delta == delta


def test_zcdp_bounds_every_order_by_rho_alpha() -> None:
    assert ZCDP(rho=0.3).to_renyi(4.0) == RenyiDP(alpha=4.0, epsilon=1.2)


def gaussian_renyi(mu: float, alpha: float) -> float:
    """Renyi divergence of N(mu, 1) from N(0, 1), integrated."""
    x = np.linspace(-30, 30 + alpha * mu, 400_001)
    log_density = -0.5 * alpha * (x - mu) ** 2 - 0.5 * (1 - alpha) * x**2
    peak = float(log_density.max())
    return (math.log(integrate.trapezoid(np.exp(log_density - peak), x) / math.sqrt(2 * math.pi)) + peak) / (alpha - 1)


def test_mu_of_a_budget_is_the_largest_affordable_price() -> None:
    assert ApproxDP(epsilon=1.0, delta=1e-5).mu() == gdp.mu(1.0, 1e-5)
    for alpha in (1.5, 4.0, 30.0):
        assert gaussian_renyi(ZCDP(rho=0.2).mu(), alpha) == pytest.approx(0.2 * alpha, rel=1e-9)
        assert gaussian_renyi(RenyiDP(alpha=alpha, epsilon=0.7).mu(), alpha) == pytest.approx(0.7, rel=1e-9)
        assert gaussian_renyi(1.25 * RenyiDP(alpha=alpha, epsilon=0.7).mu(), alpha) > 0.7  # std 20 % smaller
    assert ApproxDP(epsilon=math.inf, delta=1e-5).mu() == math.inf
    assert PureDP(epsilon=math.inf).mu() == math.inf
    assert ZCDP(rho=math.inf).mu() == math.inf


def test_budgets_without_delta_pay_for_no_gaussian_noise() -> None:
    for budget in (PureDP(epsilon=1.0), ApproxDP(epsilon=1.0, delta=0.0)):
        with pytest.raises(InvalidBudget, match=r"delta must be a number in \(0, 1\), got 0\.0"):
            budget.mu()
    with pytest.raises(InvalidBudget, match="budget"):
        Budget().mu()


@pytest.mark.parametrize("value", [0, 0.0, -1.0, math.nan, -math.inf, True, False, "1", None, [1.0], 1j])
def test_a_meaningless_epsilon_or_rho_is_refused_by_name(value: Any) -> None:
    makers = (
        ("epsilon", lambda: PureDP(epsilon=value)),
        ("epsilon", lambda: ApproxDP(epsilon=value, delta=1e-5)),
        ("epsilon", lambda: RenyiDP(alpha=2.0, epsilon=value)),
        ("rho", lambda: ZCDP(rho=value)),
    )
    for name, make in makers:
        with pytest.raises(InvalidBudget) as caught:
            make()
        assert caught.value.argument == name
        assert caught.value.value is value
        assert "> 0" in caught.value.allowed


@pytest.mark.parametrize("value", [1.0, 1, 2.0, -1e-300, math.nan, math.inf, True, False, "0.1", None])
def test_a_delta_outside_of_its_range_is_refused_by_name(value: Any) -> None:
    for make in (
        lambda: ApproxDP(epsilon=1.0, delta=value),
        lambda: PureDP(epsilon=1.0).to_approx(value),
        lambda: ZCDP(rho=1.0).to_approx(value),
        lambda: RenyiDP(alpha=2.0, epsilon=1.0).to_approx(value),
    ):
        with pytest.raises(InvalidBudget, match="delta"):
            make()


def test_zcdp_and_renyi_budgets_have_no_pure_form() -> None:
    with pytest.raises(InvalidBudget, match="delta"):
        ZCDP(rho=1.0).to_approx(0.0)
    with pytest.raises(InvalidBudget, match="delta"):
        RenyiDP(alpha=2.0, epsilon=1.0).to_approx(0.0)


@pytest.mark.parametrize("value", [1.0, 1, 0.5, 0.0, -3.0, math.nan, math.inf, True, "2", None])
def test_a_renyi_order_must_be_finite_and_above_1(value: Any) -> None:
    with pytest.raises(InvalidBudget, match="alpha") as caught:
        RenyiDP(alpha=value, epsilon=1.0)
    assert caught.value.argument == "alpha"


def test_budgets_are_equal_and_frozen_values() -> None:
    assert ApproxDP(epsilon=1, delta=0) == ApproxDP(epsilon=1.0, delta=0.0)
    assert isinstance(ApproxDP(epsilon=1, delta=0).epsilon, float)
    budget = PureDP(epsilon=np.float32(0.5))
    assert type(budget.epsilon) is float
    with pytest.raises(AttributeError):
        budget.epsilon = 2.0
