"""The baselines' rules by hand: what `published` and `corrected` do in one step, from the formulas of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import optimize, special

from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog, _minimize_proximal
from bandanna.policies.glm.batched import BGLinUCB
from bandanna.policies.glm.estimation import loss, loss_gradient
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import PublishedGLM

from .answering import COINS, Teacher

presets = pytest.mark.parametrize("preset", ["published", "corrected"])
SETTING = {"dim": 3, "horizon": 50, "parameter_bound": 1.5, "failure": 0.02}


def rows(count: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Features of norm at most 1, and rewards of 0 and 1."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(count, 3))
    return x / np.maximum(1.2, np.linalg.norm(x, axis=1, keepdims=True)), (rng.random(count) < 0.7).astype(float)


@presets
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_glm_ucb_has_the_bonus_and_the_estimate_of_its_preset(preset: str, link: str) -> None:
    policy = GLMUCB(**SETTING, link=link, preset=preset, kappa=30.0)
    x, r = rows()
    teacher = Teacher(policy)
    for features, reward in zip(x, r, strict=True):
        state = teacher.learn(features, reward)
    ridge = 6.0 if preset == "published" else 3.0
    best = optimize.minimize(
        lambda theta: float(loss(policy.model, theta, x, r, ridge=ridge)),
        np.zeros(3),
        jac=lambda theta: loss_gradient(policy.model, theta, x, r, ridge=ridge),
        options={"gtol": 1e-10},
    ).x
    np.testing.assert_allclose(state.theta, best, atol=1e-5)
    np.testing.assert_allclose(np.linalg.inv(state.inverse), 3 * np.eye(3) + x.T @ x, rtol=1e-9)
    slope = 0.25 if link == "logistic" else 1 / math.sqrt(2 * math.pi)
    rho = 2 * slope * math.sqrt(3 + 2 * math.log(1 + 2 / 3)) * 30 * math.sqrt(6 * math.log(6 * 50 / 0.02))
    log = 1.0 if (preset, link) == ("published", "logistic") else math.sqrt(math.log(31))
    assert policy.bonus(30) == pytest.approx(rho * log)


@presets
def test_gloc_steps_projects_and_widens_as_its_preset(preset: str) -> None:
    policy, kappa, s = GLOC(**SETTING, link="probit", preset=preset, kappa=9.0), 9.0, 1.5
    x, r = rows()
    teacher = Teacher(policy)
    v, z, theta, b = 3 * np.eye(3), np.zeros(3), np.zeros(3), 2 / kappa * s**2 * 3
    for features, reward in zip(x, r, strict=True):
        state = teacher.learn(features, reward)
        v = v + np.outer(features, features)
        g = (special.ndtr(features @ theta) - reward) * features
        b += kappa / 2 * g @ np.linalg.solve(v, g)
        z = z + (features @ theta) * features
        free = theta - kappa * np.linalg.solve(v, g)
        theta = s * free / np.linalg.norm(free) if preset == "published" else nearest(free, v, s)
    np.testing.assert_allclose(state.theta, theta, atol=1e-6)
    np.testing.assert_allclose(state.vector, z, atol=1e-6)
    assert state.bound == pytest.approx(b, rel=1e-6)
    q = 1 / (2 * math.pi) if preset == "published" else 0.5
    inside = 1 + 2 * b * kappa + 4 * (q * kappa) ** 4 / 0.02**2
    square = 1 + 4 * kappa * b + 8 * (q * kappa) ** 2 * math.log(2 / 0.02 * math.sqrt(inside))
    assert float(policy.radius(state.bound)) == pytest.approx(math.sqrt(square), rel=1e-6)
    arms = rows(8)[0]
    middle = special.ndtr(arms @ theta) if preset == "published" else arms @ np.linalg.solve(v, z)
    spread = np.sqrt(np.einsum("ki,ij,kj->k", arms, np.linalg.inv(v), arms))
    assert policy.act(state, arms[None], COINS).actions[0] == np.argmax(middle + math.sqrt(square) * spread)


def nearest(point: np.ndarray, matrix: np.ndarray, bound: float) -> np.ndarray:
    """argmin |y - point|_matrix over |y| <= bound, by a multiplier found by bracketing."""
    if np.linalg.norm(point) <= bound:
        return point

    def at(nu: float) -> np.ndarray:
        return np.linalg.solve(matrix + nu * np.eye(len(point)), matrix @ point)

    return at(optimize.brentq(lambda nu: float(np.linalg.norm(at(nu))) - bound, 0.0, 1e6, xtol=1e-13))


@presets
def test_ecolog_steps_agree_with_a_general_minimiser(preset: str) -> None:
    policy, s = ECOLog(**{**SETTING, "parameter_bound": 0.6}, preset=preset), 0.6
    x, r = rows(12)
    published, weight = preset == "published", 0.5 if preset == "published" else 1 / (2 + 2 * s)
    teacher = Teacher(policy)
    w, theta, c = 10 * np.eye(3), np.zeros(3), 0.0

    def proximal(centre: np.ndarray, value: Callable[[np.ndarray], float]) -> np.ndarray:
        return optimize.minimize(
            lambda v: weight * (v - centre) @ w @ (v - centre) + value(v),
            np.zeros(3),
            method="SLSQP",
            constraints=[{"type": "ineq", "fun": lambda v: s * s - v @ v}],
            options={"ftol": 1e-14, "maxiter": 300},
        ).x

    for features, reward in zip(x, r, strict=True):
        state = teacher.learn(features, reward)

        def single(v: np.ndarray, target: float, features: np.ndarray = features) -> float:
            return float(np.logaddexp(0, features @ v) - target * (features @ v))

        new = proximal(theta, lambda v, reward=reward: single(v, reward))
        other = proximal(new if published else theta, lambda v: single(v, 0.0) + single(v, 1.0))
        square = float((new - other) @ w @ (new - other))
        gain = single(other, reward) - single(new, reward)
        c = max(0.0, c + 2 * (1 + s) * gain - (math.sqrt(square) if published else square) / 2)
        z = float(features @ new)
        w, theta = w + special.expit(z) * special.expit(-z) * np.outer(features, features), new
    np.testing.assert_allclose(state.theta, theta, atol=2e-5)
    np.testing.assert_allclose(state.matrix, w, atol=1e-4)
    np.testing.assert_allclose(np.linalg.inv(state.inverse), state.matrix, rtol=1e-9)
    assert state.correction == pytest.approx(c, abs=2e-3)
    gamma = math.sqrt(10) / 2 + 2 / math.sqrt(10) * math.log(2 / 0.02 * math.sqrt(1 + 13 / 40))
    assert float(policy.radius(state)) == pytest.approx(
        math.sqrt(20 * s**2 + (1 + s) ** 2 * gamma + float(state.correction)), rel=1e-9
    )


def test_the_errata_of_rs_glinucb_are_in_the_published_preset_alone() -> None:
    """K1, K6, K10, data and centre."""
    env = PublishedGLM(norm=2.0, rounds=600)
    setting = {"dim": 3, "horizon": 600, "link": "probit", "parameter_bound": 2.0, "kappa": 18.39}
    theirs, ours = (RSGLinUCB(**setting, preset=p, constants="published") for p in ("published", "corrected"))
    np.testing.assert_allclose(theirs.explored_weight(np.array([0.0, 1.0])), [1.0, 0.5])  # K1
    np.testing.assert_allclose(ours.explored_weight(np.array([0.0, 1.0])), 1.0)
    assert simulate(theirs, env, n_seeds=2).counts["switches"].max() <= 1  # K6
    assert simulate(ours, env, n_seeds=2).counts["switches"].min() > 5
    x = rows()[0]
    separable = (x[:, 0] > 0).astype(float)
    assert np.linalg.norm(theirs.fit_o(x, separable, np.zeros(3))) > 10  # K10
    assert np.linalg.norm(ours.fit_o(x, separable, np.zeros(3))) <= 2 + 1e-12
    near = (np.array([-2.0, 0.0, 0.0]), 1e4 * np.eye(3))
    assert np.linalg.norm(theirs.fit_tau(x, separable, np.zeros(3), *near)) > 10
    kept = ours.fit_tau(x, separable, np.zeros(3), *near)
    assert 100 * np.linalg.norm(kept - near[0]) <= ours.elimination * (1 + 1e-6)
    assert theirs.fits_all_rounds
    assert not ours.fits_all_rounds
    pair = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]])
    np.testing.assert_allclose(theirs.centre(*pair, np.array([3])), [[0.5, 0.5, 0.0]])
    np.testing.assert_allclose(ours.centre(*pair, np.array([3])), pair[1])
    np.testing.assert_allclose(ours.centre(*pair, np.array([0])), pair[0])


def test_constants_of_the_rarely_switching_and_the_batched_are_the_printed_ones() -> None:
    setting = {"dim": 3, "horizon": 5000, "link": "probit", "parameter_bound": 2.0, "kappa": 18.0, "failure": 0.02}
    log = 3 * math.log(5000 / 0.02)
    theory, run = RSGLinUCB(**setting), RSGLinUCB(**setting, preset="published")
    found = [(p.regulariser, p.gamma, p.threshold, p.bonus, p.growth, p.ridge) for p in (theory, run)]
    gamma = 50 * math.sqrt(log)
    expected = [
        (log, gamma, 1 / (gamma**2 * 18), 150 * math.sqrt(log), 2.0, log),
        (0.5, 2 * math.sqrt(log), 1 / (0.01 * 18 * 4 * 3), 4 * math.sqrt(log), 1.5, 2e-5),
    ]
    np.testing.assert_allclose(found, expected)
    batched = BGLinUCB(**setting, preset="published")
    assert batched.regulariser == pytest.approx(60 * math.log(5000))
    assert batched.gamma == pytest.approx(60 * math.sqrt(3 * math.log(5000)))
    assert (batched.concordance, BGLinUCB(**setting).concordance) == (1.0, 2.0)  # P8


@pytest.mark.parametrize("bound", [0.2, 1.0, 5.0])
def test_ecologs_steps_are_minima_on_the_ball(bound: float) -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(200, 3, 3))
    matrix = root @ np.swapaxes(root, -1, -2) + 0.5 * np.eye(3)
    x, centre, r = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)), rng.integers(0, 2, 200).astype(float)
    centre *= bound / np.maximum(np.linalg.norm(centre, axis=-1, keepdims=True), bound)
    v = _minimize_proximal(centre, matrix, np.linalg.inv(matrix), x, r, 2.0, 0.3, bound)
    left = 1 / (1 + np.exp(-np.sum(x * v, axis=-1))) - r
    slope = 2 * 0.3 * (matrix @ (v - centre)[..., None])[..., 0] + 2.0 * left[:, None] * x
    inside = np.linalg.norm(v, axis=-1) < bound * (1 - 1e-9)
    assert np.all(np.linalg.norm(v, axis=-1) <= bound * (1 + 1e-9))
    assert np.any(~inside) == (bound < 5)  # at 5 none is that far away
    inward = np.where(inside, 0.0, -np.sum(slope * v, axis=-1) / bound**2)
    assert np.all(inward >= 0)
    np.testing.assert_allclose(slope + inward[:, None] * v, 0.0, atol=1e-6)


def test_a_run_whose_bonus_follows_h_takes_one_round_as_it_would_the_first_of_two() -> None:
    policy = RSGLinUCB(dim=3, horizon=50, link="probit", parameter_bound=2.0, kappa=18.4, preset="published")
    rng, runs = np.random.default_rng(3), 4
    noise = rng.normal(size=(runs, 3, 3))
    h = 0.5 * np.eye(3) + noise @ np.swapaxes(noise, -1, -2)
    thetas = {name: rng.normal(size=(runs, 3)) for name in ("next_o", "next_tau", "theta_o", "theta_tau")}
    for due in (False, True):
        state = replace(
            policy.init(replicates=(runs,)),
            **thetas,
            h=h,
            h_inverse=np.linalg.inv(h),
            switches=np.full(runs, 0 if due else 1),
            due=np.full(runs, due),
            late=rng.random(runs) < 0.5,
        )
        x, limit = rng.normal(size=(runs, 2, 3)) / 2, np.array([1, 0, 1, 1])
        (one, taken), (first, of_two) = (
            policy._record_played(state, x[:, :1], limit),
            policy._record_played(state, x, limit),
        )
        np.testing.assert_array_equal(taken, of_two)
        for field in fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(first, field.name), err_msg=field.name)
