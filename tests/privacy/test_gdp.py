"""Gaussian DP against 60-digit arithmetic, direct integration of the divergence, and dp-accounting."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import gdp
from bandanna.privacy.gdp import Price

from ..drawn import examples

EPSILONS = (1e-6, 1e-4, 1e-2, 0.2, 1.0, 3.0, 10.0, 30.0, 100.0)
DELTAS = (0.9, 0.5, 0.1, 1e-3, 1e-5, 1e-10, 1e-15)


def exact(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def hockey_stick(epsilon: float, mu: float, std: float = 1.0) -> float:
    """Integral of (N(mu, std^2) - e^epsilon N(0, std^2))+, the divergence by its definition."""

    def gain(x: float) -> float:
        p, q = math.exp(-0.5 * ((x - mu) / std) ** 2), math.exp(epsilon - 0.5 * (x / std) ** 2)
        return max(p - q, 0.0) / (std * math.sqrt(2 * math.pi))

    crossing = epsilon * std**2 / mu + mu / 2
    value, _ = integrate.quad(gain, crossing, max(crossing, mu) + 12 * std, epsabs=1e-16, epsrel=1e-11, limit=200)
    return float(value)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_agrees_with_60_digits_from_1e_15_to_1(epsilon: float) -> None:
    mus = [*np.geomspace(1e-4, 60.0, 60), *(gdp.mu(epsilon, delta) for delta in DELTAS)]
    shown = 0
    for mu in mus:
        truth = exact(epsilon, mu)
        if truth < 1e-15:
            continue
        shown += 1
        assert float(abs(gdp.delta(epsilon, mu) - truth) / truth) < 1e-9, (epsilon, mu)
        assert abs(float(gdp.log_delta(epsilon, mu)) - float(mpmath.log(truth))) < 1e-9
    assert shown >= 15


def test_delta_is_accurate_far_beyond_the_stated_range() -> None:
    for epsilon, mu in [(1.0, 0.01), (100.0, 0.7), (20.0, 0.3), (5.0, 0.05), (600.0, 20.0)]:
        truth = mpmath.log(exact(epsilon, mu))
        assert float(gdp.log_delta(epsilon, mu)) == pytest.approx(float(truth), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_inverses_are_tight_and_safe(epsilon: float, delta: float) -> None:
    mu = gdp.mu(epsilon, delta)
    assert exact(epsilon, mu) <= delta * (1 + 1e-10)
    assert exact(epsilon, mu * (1 + 1e-9)) > delta
    back = gdp.epsilon(delta, mu)
    assert back <= epsilon * (1 + 1e-9)
    assert exact(back, mu) <= delta * (1 + 1e-10)
    assert exact(back, mu) >= delta * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "inverse"),
    [
        (0.2, 0.1, 2.299),
        (0.2, 1e-5, 16.304),
        (1.0, 0.1, 1.0859),
        (1.0, 1e-5, 3.7306),
        (10.0, 0.1, 0.28181),
        (10.0, 1e-5, 0.49989),
    ],
)
def test_the_least_noise_is_that_of_the_derivation(epsilon: float, delta: float, inverse: float) -> None:
    digits = len(str(inverse).split(".")[1])
    assert round(1 / gdp.mu(epsilon, delta), digits) == inverse


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 0.1), (1.0, 1e-5), (10.0, 1e-5), (20.0, 1e-10)])
def test_the_integrated_divergence_is_delta_and_a_fifth_less_noise_exceeds_it(epsilon: float, delta: float) -> None:
    mu = gdp.mu(epsilon, delta)
    assert hockey_stick(epsilon, 1.0, 1 / mu) == pytest.approx(delta, rel=1e-7)
    assert hockey_stick(epsilon, 1.0, 0.8 / mu) > 1.2 * delta


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_dp_accounting_has_the_same_profile(mu: float) -> None:
    upper = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    for delta in (1e-2, 1e-5, 1e-9):
        theirs, ours = upper.get_epsilon_for_delta(delta), gdp.epsilon(delta, mu)
        assert ours * (1 - 1e-9) <= theirs <= ours + 1e-3
    for epsilon in (0.1, 1.0, 4.0):
        theirs, ours = upper.get_delta_for_epsilon(epsilon), float(gdp.delta(epsilon, mu))
        assert ours * (1 - 1e-9) - 1e-15 <= theirs <= 1.001 * ours + 1e-15


@given(st.floats(1e-6, 100.0), st.floats(1e-3, 40.0), st.floats(1.0, 3.0))
def test_delta_falls_with_epsilon_and_rises_with_mu(epsilon: float, mu: float, factor: float) -> None:
    here = float(gdp.log_delta(epsilon, mu))
    assert float(gdp.log_delta(factor * epsilon, mu)) <= here + 1e-10
    assert float(gdp.log_delta(epsilon, factor * mu)) >= here - 1e-10
    assert here <= 0.0


@examples(30, full=100)
@given(st.floats(1e-6, 100.0), st.floats(1e-15, 0.99), st.floats(1.0, 3.0))
def test_a_larger_budget_buys_more_mu(epsilon: float, delta: float, factor: float) -> None:
    assert gdp.mu(factor * epsilon, delta) >= gdp.mu(epsilon, delta) * (1 - 1e-10)
    assert gdp.mu(epsilon, min(factor * delta, 0.999)) >= gdp.mu(epsilon, delta) * (1 - 1e-10)


def test_the_profile_of_arrays_is_that_of_their_elements() -> None:
    epsilon, mu = np.array([[0.5], [2.0]]), np.array([0.0, 0.3, 1.0, 5.0, math.inf])
    table = gdp.delta(epsilon, mu)
    assert table.shape == (2, 5)
    assert np.all(table[:, 0] == 0.0)
    assert np.all(table[:, -1] == 1.0)
    for i, j in np.ndindex(2, 3):
        assert table[i, 1 + j] == float(gdp.delta(float(epsilon[i, 0]), float(mu[1 + j])))


def test_zero_and_infinite_prices_have_their_epsilon() -> None:
    assert gdp.epsilon(1e-5, 0.0) == 0.0
    assert gdp.epsilon(0.0, 1.0) == math.inf
    assert gdp.epsilon(1e-5, math.inf) == math.inf
    assert gdp.epsilon(0.9, 0.5) == 0.0  # delta at epsilon 0 is below 0.9 already
    assert gdp.mu(math.inf, 1e-5) == math.inf
    assert float(gdp.delta(0.0, 2.0)) == pytest.approx(math.erf(1 / math.sqrt(2)), rel=1e-12)  # total variation


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, True, "1", None])
def test_a_meaningless_epsilon_buys_no_price(epsilon: Any) -> None:
    with pytest.raises(InvalidBudget, match="epsilon"):
        gdp.mu(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [1.0, -1e-9, math.nan, math.inf, True, "0.1", None])
def test_a_delta_outside_of_0_and_1_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidBudget, match="delta"):
        gdp.mu(1.0, delta)
    with pytest.raises(InvalidBudget, match="delta"):
        gdp.epsilon(delta, 1.0)


@pytest.mark.parametrize("mu", [-1e-9, -math.inf, math.nan, True, "0.1", None, [1.0], 10**400])
def test_a_price_must_be_a_number_from_0_on(mu: Any) -> None:
    for use in (lambda: gdp.epsilon(1e-5, mu), lambda: gdp.epsilon(0.0, mu), lambda: Price(mu=mu)):
        with pytest.raises(InvalidArgument, match="mu must be"):
            use()
    with pytest.raises(InvalidArgument, match="tail must be"):
        Price(mu=1.0, tail=mu)


@pytest.mark.parametrize("bad", [-1e-9, math.nan, True, "0.1", None, [1.0, -1.0], [[1.0], [1.0, 2.0]], [1.0, math.nan]])
@pytest.mark.parametrize("profile", [gdp.delta, gdp.log_delta])
def test_bad_numbers_have_no_profile(profile: Any, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="mu must be numbers >= 0"):
        profile(1.0, bad)
    with pytest.raises(InvalidBudget, match="epsilon must be numbers >= 0"):
        profile(bad, 1.0)


@pytest.mark.parametrize("mu", [0.0, math.inf, [1.0, 0.0]])
def test_the_logarithm_needs_some_noise_and_some_signal(mu: Any) -> None:
    with pytest.raises(InvalidArgument, match="mu must be finite numbers > 0"):
        gdp.log_delta(1.0, mu)


def test_gaussian_noise_is_never_pure() -> None:
    with pytest.raises(InvalidBudget, match=r"\(0, 1\)"):
        gdp.mu(1.0, 0.0)


@given(st.lists(st.floats(1e-9, 5.0), min_size=1, max_size=6), st.lists(st.floats(0.0, 1e-6), min_size=6, max_size=6))
def test_prices_compose_by_squares(mus: list[float], tails: list[float]) -> None:
    total = Price(mu=0.0)
    for mu, tail in zip(mus, tails, strict=False):
        total = total + Price(mu=mu, tail=tail)
    assert total.mu == pytest.approx(math.sqrt(math.fsum(mu**2 for mu in mus)), rel=1e-12, abs=1e-300)
    assert total.tail == pytest.approx(math.fsum(tails[: len(mus)]), rel=1e-12, abs=1e-300)


def test_repetition_is_repeated_addition() -> None:
    one, total = Price(mu=0.3, tail=1e-9), Price(mu=0.0)
    for _ in range(7):
        total = total + one
    repeated = one.repeated(7)
    assert repeated.mu == pytest.approx(total.mu, rel=1e-14)
    assert repeated.tail == pytest.approx(total.tail, rel=1e-14)


def test_composed_gaussians_agree_with_convolved_losses() -> None:
    total = Price(mu=0.5) + Price(mu=0.9)
    first = pld.from_gaussian_mechanism(1 / 0.5, value_discretization_interval=1e-3)
    composed = first.compose(pld.from_gaussian_mechanism(1 / 0.9, value_discretization_interval=1e-3))
    for delta in (1e-2, 1e-5):
        assert total.epsilon(delta) - 1e-9 <= composed.get_epsilon_for_delta(delta) <= total.epsilon(delta) + 2e-3


def test_tails_cost_both_directions() -> None:
    price = Price(mu=0.5, tail=1e-7)
    assert price.delta(2.0) == pytest.approx(float(exact(2.0, 0.5)) + (1 + math.exp(2.0)) * 1e-7, rel=1e-12)
    assert Price(mu=0.5, tail=0.4).delta(2.0) == 1.0
    # two laws that differ from one another by mass t at each end reach it: (1 - t, t) and (1 - t, 0, t)
    p, q = np.array([0.9, 0.1, 0.0]), np.array([0.9, 0.0, 0.1])
    truth = float(np.maximum(p - math.exp(2.0) * q, 0).sum())
    assert truth <= Price(mu=0.0, tail=0.1).delta(2.0)


@pytest.mark.parametrize(("mu", "tail", "delta"), [(0.5, 1e-12, 1e-5), (1.0, 1e-13, 1e-6), (0.2, 0.0, 1e-8)])
def test_price_epsilon_inverts_price_delta(mu: float, tail: float, delta: float) -> None:
    price = Price(mu=mu, tail=tail)
    epsilon = price.epsilon(delta)
    assert price.delta(epsilon) <= delta
    assert price.delta(epsilon * (1 - 1e-9)) > delta
    assert Price(mu=mu, tail=1e-3).epsilon(1e-4) == math.inf


def test_the_search_for_epsilon_ends_on_the_safe_side_of_the_crossing() -> None:
    for target in (0.9, 1e-3, 1e-12, 1e-200):
        found = gdp.solve_epsilon(lambda e: math.exp(-e), target)
        assert math.exp(-found) <= target
        assert found == pytest.approx(-math.log(target), rel=1e-11)
    assert gdp.solve_epsilon(lambda e: math.exp(-e), 1.0) == 0.0
    assert gdp.solve_epsilon(lambda e: math.exp(-e), 1e-300) == math.inf  # beyond `most`
    assert gdp.solve_epsilon(lambda e: math.exp(-1e9 * e), 0.5) == pytest.approx(math.log(2) * 1e-9, rel=1e-11)
    far = gdp.solve_epsilon(lambda e: math.exp(-e / 1e4), 0.5, reach=1e4)
    assert far == pytest.approx(1e4 * math.log(2), rel=1e-11)  # a guess beyond `most` that meets the target


@pytest.mark.parametrize("mu", [1e155, 1e200, 1e308])
def test_a_price_beyond_floats_is_no_promise(mu: float) -> None:
    assert gdp.epsilon(1e-6, mu) == math.inf
