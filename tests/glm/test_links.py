from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument
from bandanna.policies.glm.estimation import loss, loss_gradient, loss_hessian
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson, link_of

from ..drawn import examples

ALL = [Logistic(), Probit(), Binomial(trials=4), TruncatedPoisson(most=5), Linear()]
CURVED = ALL[:-1]


@pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)
def test_extreme_arguments_are_finite(link: Link) -> None:
    z = np.array([-1e9, -500.0, -40.0, 0.0, 40.0, 500.0, 1e9])
    for values in (link.mean(z), link.slope(z), link.potential(z)):
        assert np.all(np.isfinite(values))
    if not isinstance(link, Linear):
        assert np.all((link.mean(z) >= 0) & (link.mean(z) <= link.reward_bound))


@pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)
def test_derivatives_agree_with_differences(link: Link) -> None:
    z, h = np.linspace(-5, 5, 41), 1e-5
    np.testing.assert_allclose((link.potential(z + h) - link.potential(z - h)) / (2 * h), link.mean(z), atol=1e-8)
    np.testing.assert_allclose((link.mean(z + h) - link.mean(z - h)) / (2 * h), link.slope(z), atol=1e-8)


FAMILIES = [Logistic(), Probit(), Linear(), *(Binomial(trials=n) for n in (1, 4, 10, 60))]
FAMILIES += [TruncatedPoisson(most=most) for most in (1, 3, 5, 20, 60)]


def grid(bound: float) -> np.ndarray:
    """Points of [-bound, bound], a few thousandths apart and with both ends."""
    return np.linspace(-bound, bound, 1 + 2 * math.ceil(250 * bound))


@pytest.mark.parametrize("link", FAMILIES, ids=str)
def test_the_slope_bound_is_the_largest_slope(link: Link) -> None:
    largest = float(np.max(link.slope(grid(16.0))))
    assert largest <= link.slope_bound * (1 + 1e-12)
    assert link.slope_bound <= 1.001 * largest


@pytest.mark.parametrize("bound", [0.5, 2.0, 16.0])
@pytest.mark.parametrize("link", FAMILIES, ids=str)
def test_the_concordance_is_the_largest_relative_bend(link: Link, bound: float) -> None:
    z = grid(bound)
    derivatives = link.derivatives(z, 2)
    assert derivatives is not None
    bend = float(np.max(np.abs(derivatives[:, 2]) / derivatives[:, 1]))
    assert bend <= link.concordance(bound) * (1 + 1e-9)
    if bound == 16.0:
        assert link.concordance(bound) <= 1.001 * max(bend, 0.0 if isinstance(link, Linear) else 1.0)


@pytest.mark.parametrize("bound", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("link", FAMILIES, ids=str)
def test_kappa_and_the_residual_bound_hold_on_the_ball(link: Link, bound: float) -> None:
    z = grid(bound)
    assert link.kappa(bound) == pytest.approx(float(np.max(1 / link.slope(z))), rel=1e-9)
    means = link.mean(z)
    farthest = float(np.max(np.maximum(np.abs(means), np.abs(link.reward_bound - means))))
    assert farthest <= link.residual_bound(bound) * (1 + 1e-12)


@pytest.mark.parametrize("link", FAMILIES, ids=str)
def test_drawn_rewards_stay_in_their_range(link: Link) -> None:
    means = np.repeat([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0], 3) * link.reward_bound
    rewards = link.draw(means, np.tile([0.0, 0.5, np.nextafter(1.0, 0.0)], 5))
    assert rewards.min() == 0.0
    assert rewards.max() == link.reward_bound


def test_constants_of_a_truncated_poisson_of_five() -> None:
    """1.9007 and 1.2316, not R^2/4 and R."""
    assert TruncatedPoisson(most=5).slope_bound == pytest.approx(1.9007, abs=5e-5)
    assert TruncatedPoisson(most=5).concordance(1.0) == pytest.approx(1.2316, abs=2e-4)


def test_constants_of_very_large_counts_are_bounds_without_a_search() -> None:
    link = TruncatedPoisson(most=1001)
    assert (link.slope_bound, link.concordance(2.0)) == (1001.0, 1001.0)
    assert float(np.max(link.slope(np.linspace(5.0, 9.0, 101)))) <= 1001.0


def test_concordance_of_the_probit_is_not_r() -> None:
    z, h = np.array([3.0]), 1e-5
    second = abs(float(Probit().slope(z + h)[0] - Probit().slope(z - h)[0]) / (2 * h))
    assert second > 2.9 * float(Probit().slope(z)[0])


def test_the_probit_potential_keeps_its_digits() -> None:
    z = np.array([-8.0, -2.0, 0.0, 3.0, 20.0])
    exact = [float(mpmath.mpf(x) * mpmath.ncdf(x) + mpmath.npdf(x)) for x in z]
    np.testing.assert_allclose(Probit().potential(z), exact, rtol=1e-12, atol=1e-16)


def test_kappa_has_its_closed_forms() -> None:
    assert Logistic().kappa(3.0) == pytest.approx(2 + np.exp(3) + np.exp(-3))
    assert Probit().kappa(2.0) == pytest.approx(np.sqrt(2 * np.pi) * np.exp(2))
    assert Binomial(trials=4).kappa(1.0) == pytest.approx((2 + np.exp(1) + np.exp(-1)) / 4)
    assert Probit().kappa(1e3) == np.inf


@pytest.mark.parametrize("link", [Binomial(trials=4), TruncatedPoisson(most=5)], ids=lambda link: link.name)
def test_drawn_counts_have_their_mean_and_variance(link: Link) -> None:
    z = np.full(15_000, 0.4)
    means = link.mean(z)
    counts = link.draw(means, np.random.default_rng(3).random(len(z)))
    error = float(np.sqrt(link.slope(z[:1])[0] / len(z)))
    assert abs(float(np.mean(counts)) - float(means[0])) < 5 * error
    assert float(np.var(counts)) == pytest.approx(float(link.slope(z[:1])[0]), rel=0.06)
    assert counts.min() >= 0
    assert counts.max() <= link.reward_bound


@examples(25, full=100)
@given(
    link=st.sampled_from(ALL), theta=st.lists(st.floats(-3, 3), min_size=3, max_size=3), seed=st.integers(0, 2**31 - 1)
)
def test_gradient_and_hessian_agree_with_differences(link: Link, theta: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, r = rng.uniform(-0.5, 0.5, (7, 3)), rng.random(7) * link.reward_bound
    at, h = np.asarray(theta), 1e-5
    sides = [(at + h * e, at - h * e) for e in np.eye(3)]
    slopes = [float(loss(link, a, x, r, ridge=0.3) - loss(link, b, x, r, ridge=0.3)) / (2 * h) for a, b in sides]
    np.testing.assert_allclose(loss_gradient(link, at, x, r, ridge=0.3), slopes, atol=1e-6)
    bends = [
        (loss_gradient(link, a, x, r, ridge=0.3) - loss_gradient(link, b, x, r, ridge=0.3)) / (2 * h) for a, b in sides
    ]
    np.testing.assert_allclose(loss_hessian(link, at, x, ridge=0.3), bends, atol=1e-6)


def test_a_link_is_found_by_its_name() -> None:
    assert link_of("probit") == Probit()
    assert link_of(Binomial(trials=2)).reward_bound == 2
    with pytest.raises(InvalidArgument, match="cloglog"):
        link_of("cloglog")


def test_links_of_a_file_are_tables() -> None:
    assert link_of({"name": "Binomial", "trials": 4}) == Binomial(trials=4)
    assert link_of({"name": "TruncatedPoisson", "most": 5}) == TruncatedPoisson(most=5)
    for wrong in ({"name": "Poisson"}, {"name": "Binomial", "trial": 4}, {}, ["logistic"], None):
        with pytest.raises(InvalidArgument, match=r"link must be a Link .* or one of 'logistic'"):
            link_of(wrong)  # type: ignore[arg-type]
