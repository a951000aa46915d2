from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression
from statsmodels.genmod import families
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import OLS

from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.policies.glm.estimation import loss, loss_gradient, maximum_likelihood
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson

ALL = [Logistic(), Probit(), Binomial(trials=4), TruncatedPoisson(most=5), Linear()]


def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """200 rows, Bernoulli rewards and counts up to 4, from one fixed generator."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(200, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    theta = np.array([1.5, -1.0, 0.5])
    y = (rng.random(200) < 1 / (1 + np.exp(-x @ theta))).astype(float)
    counts = rng.poisson(np.exp(x @ theta)).clip(0, 4).astype(float)
    return x, y, counts


def test_optimum_agrees_with_scikit_learn() -> None:
    x, y, _ = sample()
    for ridge in (1e-3, 0.7, 20.0):
        theirs = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-12, max_iter=1000).fit(x, y)
        found = maximum_likelihood(Logistic(), x, y, ridge=ridge)
        np.testing.assert_allclose(found.theta, theirs.coef_[0], atol=1e-6)


def test_optimum_agrees_with_statsmodels() -> None:
    x, y, counts = sample()
    shares = np.column_stack([counts, 4 - counts])  # of 4 trials
    answers = [
        (Logistic(), y, GLM(y, x, family=families.Binomial()).fit(tol=1e-14)),
        (Binomial(trials=4), counts, GLM(shares, x, family=families.Binomial()).fit(tol=1e-14)),
        (Linear(), y, OLS(y, x).fit()),
    ]
    for link, rewards, theirs in answers:
        found = maximum_likelihood(link, x, rewards, ridge=1e-10)
        np.testing.assert_allclose(found.theta, theirs.params, atol=1e-7)


@pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)
def test_the_optimum_agrees_with_a_quasi_newton_method(link: Link) -> None:
    x, y, counts = sample()
    rewards = y if link.reward_bound == 1 else np.minimum(counts, link.reward_bound)
    other = optimize.minimize(
        lambda t: float(loss(link, t, x, rewards, ridge=0.5)),
        np.zeros(3),
        jac=lambda t: loss_gradient(link, t, x, rewards, ridge=0.5),
        tol=1e-12,
    )
    found = maximum_likelihood(link, x, rewards, ridge=0.5)
    assert np.all(found.converged)
    np.testing.assert_allclose(found.theta, other.x, atol=1e-5)


@pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)
@pytest.mark.parametrize("ridge", [1e-5, 1.0])
def test_separable_data_have_a_finite_answer(link: Link, ridge: float) -> None:
    x = np.concatenate([np.full((8, 2), 0.6), np.full((8, 2), -0.6)])
    for rewards in (np.repeat([link.reward_bound, 0.0], 8), np.full(16, link.reward_bound), np.zeros(16)):
        found = maximum_likelihood(link, x, rewards, ridge=ridge)
        assert np.all(np.isfinite(found.theta))
        assert np.all(found.converged)
        assert np.linalg.norm(loss_gradient(link, found.theta, x, rewards, ridge=ridge)) < 1e-6


def test_no_data_and_equal_arms_give_finite_answers() -> None:
    none = maximum_likelihood(Probit(), np.zeros((2, 0, 3)), np.zeros((2, 0)), ridge=1.0)
    np.testing.assert_array_equal(none.theta, np.zeros((2, 3)))
    equal = maximum_likelihood(Probit(), np.tile([0.5, 0.5, 0.0], (9, 1)), np.ones(9), ridge=1e-5)
    assert np.all(np.isfinite(equal.theta))
    far = maximum_likelihood(
        Logistic(), np.tile([0.5, 0.5, 0.0], (9, 1)), np.ones(9), ridge=1.0, start=np.full(3, 400.0)
    )
    np.testing.assert_allclose(
        far.theta,
        maximum_likelihood(Logistic(), np.tile([0.5, 0.5, 0.0], (9, 1)), np.ones(9), ridge=1.0).theta,
        atol=1e-8,
    )


def test_replicates_and_weights_change_nothing() -> None:
    x, y, _ = sample()
    alone = maximum_likelihood(Probit(), x[:150], y[:150], ridge=0.5).theta
    weights = np.stack([np.arange(200) < 150, np.arange(200) < 90]).astype(float)
    both = maximum_likelihood(Probit(), np.stack([x, x]), np.stack([y, 1 - y]), ridge=0.5, weights=weights).theta
    np.testing.assert_allclose(both[0], alone, atol=1e-9)


def test_what_is_no_number_is_refused_by_its_place() -> None:
    x, y, _ = sample()
    spoilt = x.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(InvalidStatistic, match=r"features\[3, 1\] must be .*, got a float that is not finite"):
        maximum_likelihood(Logistic(), spoilt, y, ridge=0.5)
    with pytest.raises(InvalidStatistic, match=r"rewards\[0\] must be a finite number, got a float that is not finite"):
        maximum_likelihood(Logistic(), x, np.where(np.arange(len(y)) == 0, np.inf, y), ridge=0.5)
    with pytest.raises(InvalidStatistic, match=r"shapes of features and rewards"):
        maximum_likelihood(Logistic(), x, y[:10], ridge=0.5)
    with pytest.raises(InvalidArgument, match=r"link must be a Link .*, got 'logit'"):
        maximum_likelihood("logit", x, y, ridge=0.5)
