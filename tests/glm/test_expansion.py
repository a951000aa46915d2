"""The loss near a point: derivatives of every link, the polynomial beside the loss itself, estimates that follow."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from bandanna.policies.glm import baselines
from bandanna.policies.glm.baselines import GLMUCB
from bandanna.policies.glm.estimation import (
    is_expandable,
    loss_gradient,
    make_empty_expansion,
    maximum_likelihood,
    monomials,
)
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear
from tests.policies.answering import Teacher

ALL = [Logistic(), Probit(), Binomial(trials=4), TruncatedPoisson(most=3), Linear()]
POTENTIALS = {
    "logistic": lambda z: mpmath.log(1 + mpmath.exp(z)),
    "probit": lambda z: z * mpmath.ncdf(z) + mpmath.npdf(z),
    "binomial": lambda z: 4 * mpmath.log(1 + mpmath.exp(z)),
    "truncated poisson": lambda z: mpmath.log(sum(mpmath.exp(k * z) / mpmath.factorial(k) for k in range(4))),
    "linear": lambda z: z**2 / 2,
}
links = pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)


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


def test_what_is_far_away_is_not_trusted() -> None:
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
