"""Likelihood, expansions and projections of generalised linear models."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression
from statsmodels.genmod import families
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import OLS

from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.policies.glm import baselines, estimation
from bandanna.policies.glm.baselines import GLMUCB
from bandanna.policies.glm.estimation import (
    is_expandable,
    loss,
    loss_gradient,
    make_empty_expansion,
    maximum_likelihood,
    monomials,
)
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear
from tests.policies.answering import Teacher

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


def test_a_value_that_is_not_finite_is_named_by_its_position() -> None:
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


ALL_EXPANSION = [Logistic(), Probit(), Binomial(trials=4), TruncatedPoisson(most=3), Linear()]
POTENTIALS = {
    "logistic": lambda z: mpmath.log(1 + mpmath.exp(z)),
    "probit": lambda z: z * mpmath.ncdf(z) + mpmath.npdf(z),
    "binomial": lambda z: 4 * mpmath.log(1 + mpmath.exp(z)),
    "truncated poisson": lambda z: mpmath.log(sum(mpmath.exp(k * z) / mpmath.factorial(k) for k in range(4))),
    "linear": lambda z: z**2 / 2,
}
links = pytest.mark.parametrize("link", ALL_EXPANSION, ids=lambda link: link.name)


def rows(link: Link, *, n: int, seeds: int, dim: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Features in the unit ball and rewards anywhere in the range: (seeds, n, dim), (seeds, n)."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(seeds, n, dim))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1))[..., None]
    return x, rng.random((seeds, n)) * link.reward_bound


@links
def test_derivatives_are_those_of_the_mean(link: Link) -> None:
    with mpmath.workdps(40):
        for z in (-6.0, -1.3, 0.0, 0.4, 2.5):
            exact = [float(mpmath.diff(POTENTIALS[link.name], z, k + 1)) for k in range(7)]
            found = link.derivatives(np.array(z), 6)
            assert found is not None
            np.testing.assert_allclose(found, exact, atol=1e-11)
            assert all(
                abs(exact[k]) <= link.derivative_ratio(k, abs(z)) * exact[1] * 1.0001 + 1e-11 for k in range(2, 7)
            )


@links
def test_extreme_arguments_stay_finite(link: Link) -> None:
    found = link.derivatives(np.array([-500.0, 500.0]), 6)
    assert found is not None
    assert np.all(np.isfinite(found))


@links
def test_the_minimum_of_the_polynomial_is_that_of_the_loss(link: Link) -> None:
    x, r = rows(link, n=400, seeds=4)
    first = maximum_likelihood(link, x[:, :300], r[:, :300], ridge=2.0).theta
    near = make_empty_expansion(4, 3).move(link, np.arange(4), first, x[:, :300], r[:, :300])
    theta = first
    for t in range(300, 400):
        near = near.add(link, x[:, t], r[:, t])
        theta, fine = near.minimise(link, theta, 2.0, 1e-9)
        if not np.all(fine):
            assert link.name == "truncated poisson"  # its stated bound is the most generous, so its reach the shortest
            near = near.move(link, np.arange(4), theta, x[:, : t + 1], r[:, : t + 1])
    np.testing.assert_allclose(theta, maximum_likelihood(link, x, r, ridge=2.0).theta, atol=2e-7)
    assert np.max(np.abs(theta - first)) > 0.01  # it went somewhere


@links
def test_the_rest_is_of_the_next_order_and_negligible_within_reach(link: Link) -> None:
    x, r = rows(link, n=50, seeds=1)
    terms, anchor = monomials(3), np.array([[0.3, -0.4, 0.2]])
    near = make_empty_expansion(1, 3).move(link, np.arange(1), anchor, x, r)
    ratio = link.derivative_ratio(6, float(np.linalg.norm(anchor)) + 1)
    assert ratio * near.reach[0] ** 6 / 720 <= 1e-7 * (1 + 1e-9)
    errors = []
    for length in (0.4, 0.2):
        move = length * np.array([[0.6, 0.0, 0.8]])
        powers = terms.of(move) * terms.inverse_factorials
        exact = loss_gradient(link, anchor + move, x, r)
        errors.append(float(np.max(np.abs((powers[:, None] @ near.table)[:, 0] - exact))))
    assert errors[1] <= max(errors[0] / 2**5.5, 1e-12)


@links
def test_every_estimate_of_a_run_is_that_of_all_data(link: Link) -> None:
    x, r = rows(link, n=60, seeds=2)
    policy = GLMUCB(dim=3, horizon=60, link=link, parameter_bound=1.0)
    teachers = [Teacher(policy) for _ in range(2)]
    for t in range(60):
        found = [teacher.learn(x[seed, t], r[seed, t]).theta for seed, teacher in enumerate(teachers)]
        exact = maximum_likelihood(link, x[:, : t + 1], r[:, : t + 1], ridge=3.0, tolerance=1e-12).theta
        np.testing.assert_allclose(found, exact, rtol=0, atol=3e-6)


def test_an_expansion_is_not_used_far_from_its_anchor() -> None:
    x, r = rows(Probit(), n=60, seeds=2)
    anchors = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 0.0]])
    near = make_empty_expansion(2, 3).move(Probit(), np.arange(2), anchors, x[:, :20], r[:, :20])
    for t in range(20, 60):
        near = near.add(Probit(), x[:, t], np.array([1.0, 1.0]))
    theta, fine = near.minimise(Probit(), near.anchor, 1e-3, 1e-9)
    assert not np.any(fine)
    exact = maximum_likelihood(Probit(), x, np.concatenate([r[:, :20], np.ones((2, 40))], axis=1), ridge=1e-3).theta
    assert np.max(np.abs(theta - exact)) > 1e-3


@pytest.mark.parametrize("preset", ["published", "corrected"])
def test_estimates_that_follow_decide_as_those_from_all_data(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = GeneralisedLinear(dim=2, n_arms=5, link="logistic", norm=1.5)
    policy = GLMUCB(dim=2, horizon=150, link="logistic", parameter_bound=1.5, preset=preset)
    followed = simulate(policy, env, n_seeds=3)
    monkeypatch.setattr(baselines, "is_expandable", lambda link, dim: False)
    np.testing.assert_allclose(followed.regret, simulate(policy, env, n_seeds=3).regret, atol=1e-9)


def test_many_features_and_links_without_derivatives_are_not_expanded() -> None:

    class Own(Logistic):
        """A link of one's own, of which only mean, slope and potential are known."""

        derivatives = Link.derivatives

    assert is_expandable(Logistic(), 5)
    assert not is_expandable(Logistic(), 20)
    assert not is_expandable(Own(), 3)


RNG_SEED = 11


def spd(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    root = rng.normal(size=(n, d, d))
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(d)


def nearest(objective, constraints, start):  # type: ignore[no-untyped-def]
    """The least value that SciPy finds under the constraints."""
    return optimize.minimize(objective, start, constraints=constraints, tol=1e-12, options={"maxiter": 500}).x


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_each_projection_is_the_nearest_point(dim: int) -> None:
    rng = np.random.default_rng(RNG_SEED)
    points, centres, matrices = 3 * rng.normal(size=(4, dim)), 0.3 * rng.normal(size=(4, dim)), spd(rng, 4, dim)
    ellipsoid = estimation.project_onto_ellipsoid(points, centres, matrices, 0.8)
    ball = estimation.project_onto_ball_in_norm(points, matrices, 1.2)
    both = estimation.project_onto_intersection(points, ball=1.0, centre=centres, matrix=matrices, radius=0.8)
    for i in range(4):
        inside = {"type": "ineq", "fun": lambda y, i=i: 0.64 - (y - centres[i]) @ matrices[i] @ (y - centres[i])}
        in_ball = {"type": "ineq", "fun": lambda y: 1.0 - y @ y}
        far = {"type": "ineq", "fun": lambda y: 1.44 - y @ y}
        square = lambda y, i=i: float((y - points[i]) @ (y - points[i]))  # noqa: E731
        skew = lambda y, i=i: float((y - points[i]) @ matrices[i] @ (y - points[i]))  # noqa: E731
        assert square(ellipsoid[i]) <= square(nearest(square, [inside], centres[i])) + 1e-6
        assert skew(ball[i]) <= skew(nearest(skew, [far], 0 * centres[i])) + 1e-6
        assert square(both[i]) <= square(nearest(square, [inside, in_ball], centres[i])) + 1e-4
        assert inside["fun"](ellipsoid[i]) >= -1e-9
        assert far["fun"](ball[i]) >= -1e-9
        assert inside["fun"](both[i]) >= -1e-6
        assert in_ball["fun"](both[i]) >= -1e-12


def test_points_inside_stay() -> None:
    point = np.array([0.1, -0.2])
    np.testing.assert_array_equal(estimation.project_onto_ball(point, 1.0), point)
    np.testing.assert_array_equal(estimation.project_onto_ellipsoid(point, np.zeros(2), np.eye(2), 1.0), point)
    np.testing.assert_array_equal(estimation.project_onto_ball_in_norm(point, np.diag([1.0, 9.0]), 1.0), point)
    np.testing.assert_allclose(
        estimation.project_onto_intersection(point, ball=1.0, centre=np.zeros(2), matrix=np.eye(2), radius=1.0), point
    )


def test_sets_that_do_not_meet_end_in_the_ball() -> None:
    answer = estimation.project_onto_intersection(
        np.array([5.0, 5.0]), ball=1.0, centre=np.array([10.0, 0.0]), matrix=np.eye(2), radius=0.5
    )
    assert np.linalg.norm(answer) <= 1 + 1e-12
