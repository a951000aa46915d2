"""The summed ellipsoid of LinUCB: what it is, whether theta is in it, and what follows for regret."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.device.noise import FastNoise
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.rng import GeneratorRandomness
from bandanna.policies.base import PlayedRounds
from bandanna.policies.linear.confidence import (
    _DRAWN,
    Ellipsoid,
    compute_ellipsoid,
    mean_norm,
    stretched_quantile,
    vector_quantile,
)
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.players.reference import QueryAnswerer

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MODELS = [none(), central(**BUDGET), shuffle(**BUDGET), local(**BUDGET)]
models = pytest.mark.parametrize("privacy", MODELS, ids=lambda privacy: privacy.model)
RUNS, FAILURE = 12, 0.05


def made(**changes: Any) -> Ellipsoid:
    """Of three noisy batches."""
    given: dict[str, Any] = {"dim": 3, "failure": 0.1, "ridge": 0.5, "parameter_bound": 2.0, "reward_std": 0.5}
    sizes = RunLengthSizes(((40, 3),))
    return compute_ellipsoid(np.array([3.0, 5.0, 9.0]), sizes, independent=True, **(given | changes))


def plainly(found: Ellipsoid, batches: int) -> tuple[float, float, float]:
    """omega + s^2 Sigma, beta and c, as they stand in docs/appendix/proofs.md."""
    d, s, bound, users = found.dim, found.reward_std, found.parameter_bound, found.sizes.before(batches)
    omegas = np.asarray(found.stds) ** 2 * (1 + bound**2 / 2) + s**2 * found.ridge
    omega, least = omegas[batches - 1], omegas.min()
    blocks = math.floor(math.log2(omegas.max() / least)) + 1
    rho = least / s**2 * 2 ** math.floor(math.log2(omega / least))
    rewards = math.sqrt(2 * math.log(3 * blocks / found.failure) + d * math.log(1 + users / (d * rho)))
    quantile = stretched_quantile(d, found.failure / 3 / len(omegas), (1 + bound**2) / (1 + bound**2 / 2))
    beta = rewards + quantile * math.sqrt(1 - s**2 * found.ridge / omega)
    floor = omega + s**2 * found.matrix[batches - 1]
    known = (users / d) ** 2 / (floor + s**2 * users / d)
    unknown = beta**2 / (bound**2 * known)
    return floor, beta, (1 + beta**2 * min(unknown + (6 * unknown) ** 3, 1e4)) / bound**2


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_the_two_constraints_are_summed(batches: int) -> None:
    found, rng = made(), np.random.default_rng(batches)
    raw = rng.normal(size=(3, 3)) * 9
    gram, vector = raw + raw.T - 9 * np.eye(3), rng.normal(size=3) * 20
    assert np.linalg.eigvalsh(gram)[0] < -1
    floor, beta, weight = plainly(found, batches)
    theta, inverse, radius, repaired = found.estimate(vector, gram, batches)
    assert not repaired
    r_inverse = np.linalg.inv(floor * np.eye(3) + 0.25 * gram)
    away = vector - gram @ theta
    least = away @ r_inverse @ away + weight * theta @ theta  # the minimum of the sum
    for other in rng.normal(size=(20, 3)):
        rest = vector - gram @ other
        total = rest @ r_inverse @ rest + weight * other @ other
        distance = (other - theta) @ np.linalg.inv(inverse) @ (other - theta)
        assert total == pytest.approx(least + distance, rel=1e-7)
    assert radius == pytest.approx(math.sqrt(beta**2 + weight * 4), rel=1e-12)
    assert found.at(batches) == pytest.approx((weight, radius), rel=1e-12)
    assert found.radius[batches] == found.at(batches)[1]


def test_many_seeds_are_as_each_by_itself() -> None:
    found, rng = made(), np.random.default_rng(0)
    raw = rng.normal(size=(7, 3, 3))
    gram, vector = raw + np.swapaxes(raw, 1, 2), rng.normal(size=(7, 3))
    together = found.estimate(vector, gram, 2)
    for i in range(7):
        alone = found.estimate(vector[i : i + 1], gram[i : i + 1], 2)
        for place in (0, 1, 3):
            np.testing.assert_array_equal(together[place][i], alone[place][0])


@pytest.mark.parametrize(("dim", "stretch"), [(1, 1.3), (2, 4 / 3), (5, 4 / 3), (5, 2.0), (30, 1.0)])
def test_noise_exceeds_its_quantile_as_often_as_stated(dim: int, stretch: float) -> None:
    """200,000 draws; five standard errors, false alarm 6e-7."""
    tail, draws = 0.01, 200_000
    squares = np.random.default_rng(3).standard_normal((draws, dim)) ** 2
    longer = np.mean(
        np.sqrt(stretch * squares[:, 0] + np.sum(squares[:, 1:], axis=1)) > stretched_quantile(dim, tail, stretch)
    )
    assert abs(longer - tail) < 5 * math.sqrt(tail / draws) + 1e-3 * tail
    if stretch == 1:
        assert stretched_quantile(dim, 1e-9, 1.0) == pytest.approx(vector_quantile(dim, 1e-9), rel=1e-3)
    assert math.isfinite(stretched_quantile(dim, 1e-110, stretch))
    assert math.isfinite(stretched_quantile(dim, 1e-250, stretch))


def test_the_noise_has_the_stated_variance_along_and_across_theta() -> None:
    """40,000 draws; five standard errors, false alarm 1e-6."""
    rng, theta = np.random.default_rng(5), np.array([1.5, 0.0, 0.0])
    report = LinUCB(dim=3, horizon=9, privacy=none())._domain
    vector, matrix = report.sums(rng.standard_normal((40_000, report.dim)), 0)
    away = vector - matrix @ theta
    expected = np.array([1 + 1.5**2, 1 + 1.5**2 / 2, 1 + 1.5**2 / 2])
    np.testing.assert_allclose(np.var(away, axis=0), expected, rtol=5 * math.sqrt(2 / 40_000))


def misses(privacy: Privacy, run: int) -> tuple[bool, float]:
    """Whether theta leaves the ellipsoid in a run at width 1, and the largest |v - G theta|_{R^-1} / beta."""
    rng = np.random.default_rng(run)
    policy = LinUCB(dim=3, horizon=1200, batch=60, privacy=privacy, failure=FAILURE)
    theta = rng.normal(size=3)
    theta /= np.linalg.norm(theta)
    answers = QueryAnswerer(policy, FastNoise(rng), GeneratorRandomness(lambda _: rng), "law")
    state, missed, largest = policy.init(), False, 0.0
    while (episode := policy.episode(state)) is not None:
        contexts = rng.normal(size=(episode.users, 8, 3))
        contexts /= np.linalg.norm(contexts, axis=-1, keepdims=True)
        contexts *= np.sign(contexts @ theta)[..., None]  # means in [0, 1]
        actions = policy.act(policy.publish(state), contexts, GeneratorRandomness(lambda _: rng)).actions
        features = np.take_along_axis(contexts, actions[:, None, None], axis=1)[:, 0]
        rewards = (rng.random(episode.users) < features @ theta).astype(float)
        state = answers.learn(state, episode, PlayedRounds(features=features, rewards=rewards))
        away = theta - state.snapshot.theta
        missed |= math.sqrt(away @ np.linalg.solve(state.snapshot.inverse, away)) > state.snapshot.radius
        (vector, gram), (floor, beta2, _) = policy._domain.sums(state.total, 0), policy.radii._after(state.batches)
        rest = vector - gram @ theta
        largest = max(largest, math.sqrt(rest @ np.linalg.solve(floor * np.eye(3) + 0.25 * gram, rest) / beta2))
    return missed or largest > 1, largest


@models
def test_theta_is_in_the_ellipsoid_after_every_batch(privacy: Privacy) -> None:
    found = [misses(privacy, run) for run in range(RUNS)]
    assert sum(missed for missed, _ in found) <= 5
    assert max(share for _, share in found) > 0.4  # a set so wide that it says nothing would be found out


@models
def test_the_potential_is_above_every_radius(privacy: Privacy) -> None:
    policy, rng = LinUCB(dim=3, horizon=2000, batch=100, privacy=privacy), np.random.default_rng(1)
    found = policy.radii
    assert isinstance(found, Ellipsoid)
    gamma, smallest = found.potential
    for batches in (1, 3, 10, 20):
        largest = found.matrix[batches - 1]
        for share in (0.0, 0.3, 1.0, 1.0):
            x = rng.normal(size=(found.sizes.before(batches), 3)) * np.array([1.0, 0.1, 0.0])
            gram = x.T @ x / max(1.0, float(np.max(np.sum(x * x, axis=1))))
            noise = rng.normal(size=(3, 3))
            noise = noise + noise.T
            noise *= share * largest / np.linalg.norm(noise, 2)
            if share == 1.0:
                noise = -largest * np.eye(3)
            _, inverse, radius, _ = found.estimate(np.zeros(3), gram + noise, batches)
            other = np.linalg.inv(gram + smallest * np.eye(3))
            gap = np.linalg.eigvalsh(gamma**2 * other - radius**2 * inverse)
            assert gap[0] >= -1e-9 * abs(gap[-1])


def test_regret_stays_below_its_bound() -> None:
    policy = LinUCB(dim=2, horizon=100_000, batch=200, privacy=none())
    result = simulate(policy, LinearContextual(dim=2, n_arms=10), n_seeds=2, seed=1)
    bound = result.bounds()[0]
    assert bound.bound.name == "linucb_ellipsoid"
    assert bound.values[-1] == pytest.approx(policy.regret_bound)
    assert np.all(result.regret <= bound.values)
    assert policy.regret_bound < 100_000  # it says something


@pytest.mark.parametrize("privacy", [central(**BUDGET), shuffle(**BUDGET)], ids=lambda privacy: privacy.model)
def test_less_regret_than_by_the_lemma(privacy: Privacy) -> None:
    """Seeds are fixed; in truth a third less at width 1."""
    env = LinearContextual(dim=5, n_arms=20, fixed=True)
    exact, lemma = (
        simulate(LinUCB(dim=5, horizon=20_000, batch=400, privacy=privacy, confidence=name), env, n_seeds=6).mean()[-1]
        for name in ("exact", "lemma")
    )
    assert exact < 0.9 * lemma


@pytest.mark.parametrize("dim", [33, 60, 100])
def test_the_mean_norm_of_large_matrices_is_bounded_in_closed_form(dim: int) -> None:
    rng = np.random.default_rng(dim)
    raw = rng.standard_normal((60, dim, dim))
    norms = np.max(np.abs(np.linalg.eigvalsh((raw + np.swapaxes(raw, 1, 2)) / 2)), axis=1)
    assert np.mean(norms) < mean_norm(dim) < 1.15 * np.mean(norms)
    assert mean_norm(dim) == pytest.approx(math.sqrt(2 * dim) + math.sqrt(2 / math.pi), rel=1e-2)


def test_the_mean_norm_does_not_fall_where_it_is_no_longer_drawn() -> None:
    assert mean_norm(_DRAWN) < mean_norm(_DRAWN + 1) < 1.15 * mean_norm(_DRAWN)
    assert mean_norm(640) < mean_norm(1000) < 46
