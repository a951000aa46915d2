"""Factors of confidence in private linear estimates, by hand or by another route: quantiles, radii, ellipsoids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.policies.contextual_bounds import linucb_ellipsoid, linucb_lemma
from bandanna.policies.linear import linucb
from bandanna.policies.linear.confidence import (
    Confidence,
    Ellipsoid,
    PaperConfidence,
    compute_confidence,
    compute_ellipsoid,
    matrix_quantile,
    mean_norm,
    noise_bounds,
    stretched_quantile,
    vector_quantile,
)

STDS, SIZES, FAILURE = np.array([3.0, 5.0, 9.0]), RunLengthSizes(((40, 3),)), 0.1
SETTING: dict[str, Any] = {"dim": 3, "failure": FAILURE, "ridge": 0.5, "parameter_bound": 2.0}


def test_quantiles_of_noise_by_another_route() -> None:
    for dim, tail in ((1, 0.05), (4, 1e-3), (40, 1e-9)):
        assert vector_quantile(dim, tail) == pytest.approx(stats.chi(dim).isf(tail), rel=1e-9)
        assert matrix_quantile(dim, tail) - mean_norm(dim) == pytest.approx(math.sqrt(-2 * math.log(tail)))


def test_mean_norms_by_another_route() -> None:
    mean = stats.norm(scale=math.sqrt(0.5)).expect(abs) + math.sqrt(math.pi) / 2  # |m| + r of a 2 x 2 matrix
    assert mean < mean_norm(2) < 1.06 * mean
    raw = np.random.default_rng(0).standard_normal((4000, 2, 2))
    middle, half = np.trace(raw, axis1=1, axis2=2) / 2, (raw[:, 0, 0] - raw[:, 1, 1]) / 2
    norms = np.abs(middle) + np.hypot(half, (raw[:, 0, 1] + raw[:, 1, 0]) / 2)
    assert mean_norm(2) == pytest.approx(float(norms.mean()) + 4 * float(norms.std()) / math.sqrt(4000), rel=1e-9)
    wanted = math.sqrt(2) * stats.chi(40).mean() + math.sqrt(2 / math.pi)
    assert mean_norm(40) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("independent", [True, False])
def test_noise_of_all_batches_by_hand(independent: bool) -> None:
    flat = noise_bounds(STDS, 3, FAILURE, independent=independent, growing=False)
    tail = FAILURE / 3 / (2 if independent else 3)
    np.testing.assert_allclose(flat[0], 9.0 * matrix_quantile(3, tail))
    np.testing.assert_allclose(flat[1], 9.0 * vector_quantile(3, tail))
    growing = noise_bounds(STDS, 3, FAILURE, independent=independent, growing=True)
    tails = [FAILURE / 6 / (2 if independent else length) for length in (1, 2)]  # blocks {1}, {2, 3}
    for found, quantile in zip(growing, (matrix_quantile, vector_quantile), strict=True):
        first, rest = 3.0 * quantile(3, tails[0]), 9.0 * quantile(3, tails[1])
        np.testing.assert_allclose(found, [first, rest, rest])


@pytest.mark.parametrize("growing", [True, False])
def test_the_lemma_s_radii_by_hand(growing: bool) -> None:
    """lambda, lambda_min and beta_m of Lemma A.2 [000]."""
    made = compute_confidence(STDS, SIZES, **SETTING, reward_std=0.5, independent=True, growing=growing)
    matrix, vector = noise_bounds(STDS, 3, FAILURE, independent=True, growing=growing)
    sigma = np.concatenate([matrix[:1], matrix])  # before the first batch as after it
    ridge = np.maximum(0.5, 2 * sigma)
    smallest = float(np.min(ridge - sigma))
    np.testing.assert_allclose(made.ridge, ridge)
    assert made.smallest == pytest.approx(smallest)
    users = np.array([0.0, 40.0, 80.0, 120.0])
    rewards = 0.5 * np.sqrt(2 * math.log(3 / FAILURE) + 3 * np.log1p(users / (3 * smallest)))
    noise = np.concatenate([[0.0], vector / np.sqrt((ridge - sigma)[1:])])
    wanted = rewards + 2.0 * np.sqrt(ridge + sigma) + noise
    np.testing.assert_allclose(made.radius, wanted)
    np.testing.assert_allclose([made.at(batches)[1] for batches in range(4)], wanted)
    radius = 0.7 * wanted[-1]
    assert made.facts(0.7) == {"radius": pytest.approx(radius), "smallest": pytest.approx(smallest)}
    bound = linucb_lemma(horizon=120, dim=3, batch=40, radius=radius, smallest=smallest)
    assert made.bound(horizon=120, batch=40, dim=3, width=0.7) == pytest.approx(float(bound))


def one_by_one(made: Confidence | Ellipsoid) -> None:
    """`ahead` is `at`, batch after batch of one user."""
    told = made.ahead(0, 4)
    assert [(w, r) for w, r in zip(told.weights, told.radii, strict=True)] == [
        pytest.approx(made.at(batches), rel=1e-9) for batches in range(4)
    ]


def test_what_kernels_are_told_is_what_is_estimated_with() -> None:
    single = RunLengthSizes(((1, 3),))
    one_by_one(compute_confidence(STDS, single, **SETTING, reward_std=0.5, independent=True, growing=True))
    printed = PaperConfidence(matrix=3.0, vector=0.5).radii(STDS, single, **SETTING)
    one_by_one(printed)
    for shrinks in (True, False):
        made = compute_ellipsoid(STDS / 10, single, **SETTING, reward_std=0.5, independent=True, shrinks=shrinks)
        one_by_one(made)
        told = made.ahead(0, 4)
        assert told.scale == 0.25
        np.testing.assert_allclose(told.floors, [made._after(batches)[0] for batches in range(4)], rtol=1e-12)


def made_of(**changes: Any) -> Ellipsoid:
    """Of three noisy batches."""
    return compute_ellipsoid(STDS, SIZES, **SETTING | changes, reward_std=0.5, independent=True)


def test_an_ellipsoid_is_of_the_noise_that_was_released() -> None:
    made = made_of()
    np.testing.assert_array_equal(made.stds, STDS)
    np.testing.assert_array_equal(made.matrix, noise_bounds(STDS, 3, FAILURE, independent=True, growing=True)[0])
    clear = compute_ellipsoid(np.zeros(3), SIZES, **SETTING, reward_std=0.5, independent=True)
    # without noise rho = ridge, beta^2 = 2 log(1/a) + d log(1 + t/(d ridge)), omega = s^2 ridge
    floor, beta2, _ = clear._after(3)
    assert floor == pytest.approx(0.125)
    assert beta2 == pytest.approx(2 * math.log(10) + 3 * math.log1p(120 / 1.5))


def test_the_potential_by_hand() -> None:
    """Gamma and b of the tangent at g_0 = sqrt(Sigma^2 + c k/2) - Sigma (docs/appendix/bounds.md)."""
    for made in (made_of(), compute_ellipsoid(np.zeros(3), SIZES, **SETTING, reward_std=0.5, independent=True)):
        gammas, smallest = [], []
        for batches in (1, 2, 3) if made.stds[-1] else (3,):
            k, beta2, c = made._after(batches)
            sigma = float(made.matrix[batches - 1])
            point = math.sqrt(sigma**2 + c * k / 2) - sigma
            slope = _slope(point, k)
            gammas.append(math.sqrt((beta2 + c * 4.0) / slope))
            smallest.append(c / (2 * slope))
        gamma, least = made.potential
        assert gamma == pytest.approx(max(gammas), rel=1e-5)
        assert least == pytest.approx(min(smallest), rel=1e-5)
        bound = linucb_ellipsoid(horizon=120, dim=3, batch=40, ellipsoid=0.7 * gamma, smallest=least)
        assert made.bound(horizon=120, batch=40, dim=3, width=0.7) == pytest.approx(float(bound))


def _slope(g: float, k: float) -> float:
    """Of g^2 / (k + s^2 g), s = 1/2, by differences."""
    step = 1e-4 * g

    def value(x: float) -> float:
        return x**2 / (k + 0.25 * x)

    return (value(g + step) - value(g - step)) / (2 * step)


@pytest.mark.parametrize(("dim", "stretch"), [(2, 4 / 3), (5, 1.7), (12, 2.0)])
def test_the_quantile_of_stretched_noise_by_quadrature(dim: int, stretch: float) -> None:
    """To two parts in 1,000."""
    tail = 1e-4
    length = stretched_quantile(dim, tail, stretch)
    rest = stats.chi2(dim - 1)
    inside, _ = integrate.quad(
        lambda g: 2 * stats.norm.pdf(g) * rest.sf(length**2 - stretch * g * g), 0, length / math.sqrt(stretch)
    )
    exceeds = inside + 2 * stats.norm.sf(length / math.sqrt(stretch))
    assert exceeds <= tail * (1 + 1e-6)
    assert exceeds == pytest.approx(tail, rel=2e-3)
    assert stretched_quantile(1, tail, stretch) == pytest.approx(math.sqrt(stretch) * stats.norm.isf(tail / 2))


def test_quadratic_forms_belong_to_their_replicate() -> None:
    rng = np.random.default_rng(0)
    matrix, arms = rng.standard_normal((2, 3, 4, 4)), rng.standard_normal((2, 3, 4, 5))
    by_hand = np.einsum("...ij,...ik,...jk->...k", matrix, arms, arms)[..., None, :]
    np.testing.assert_allclose(linucb._quadratic(matrix, arms), by_hand)


def test_the_mean_norm_has_four_standard_errors_on_top() -> None:
    sizes = np.abs(np.random.default_rng(0).standard_normal(4000))
    assert mean_norm(1) == pytest.approx(sizes.mean() + 4 * sizes.std() / math.sqrt(4000), rel=1e-12)
    assert mean_norm(1) > math.sqrt(2 / math.pi)
