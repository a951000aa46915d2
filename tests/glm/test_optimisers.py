from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidStatistic
from bandanna.numeric.exact_sums import exact_sum
from bandanna.policies.glm.estimation import loss, maximum_likelihood
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson
from bandanna.policies.glm.optimisers import (
    NoisyGradient,
    OuterProducts,
    ShuffledGradient,
    lemma_steps,
    make_gradient_ball,
)
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import binomial_noise_for_std
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial


def data(link: Link, replicates: int, n: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features in the unit ball, rewards of the link, and the unit vectors that they come from."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(replicates, n, 3))
    x *= (rng.random((replicates, n)) ** (1 / 3) / np.linalg.norm(x, axis=-1))[..., None]
    theta = rng.normal(size=(replicates, 3))
    theta /= np.linalg.norm(theta, axis=-1)[:, None]
    r = link.draw(link.mean((x @ theta[..., None])[..., 0]), rng.random((replicates, n)))
    return x, r, theta


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=lambda link: link.name)
def test_excess_loss_is_within_the_lemma(link: Link) -> None:
    n, rho, ridge = 400, 0.05, 1.0
    steps = lemma_steps(rho=rho, count=n, dim=3, failure=0.1)
    optimiser = NoisyGradient.priced(link=link, dim=3, parameter_bound=1.5, steps=steps, mu=math.sqrt(2 * rho))
    x, r, _ = data(link, 15, n)
    theta = optimiser.minimise(x, r, FastNoise(np.random.default_rng(1)), count=n, ridge=ridge)
    best = maximum_likelihood(link, x, r, ridge=ridge).theta  # the minimum over all theta is below that over the ball
    excess = (loss(link, theta, x, r, ridge=ridge) - loss(link, best, x, r, ridge=ridge)) / n
    assert np.all(excess >= -1e-9)
    assert float(np.mean(excess)) <= optimiser.excess_bound(count=n, ridge=ridge)
    lemma = 2.13 * 2 * 1.5 * (1 + ridge * 1.5 / n) * math.sqrt(3 + math.log(10)) / (n * math.sqrt(rho))
    assert optimiser.excess_bound(count=n, ridge=ridge) <= lemma * 1.01


SETTINGS = [(5, 3.0, 1.0), (40, 30.0, 1.0), (150, 120.0, 25.0), (6, 200.0, 300.0)]


@pytest.mark.parametrize(("steps", "std", "ridge"), SETTINGS)
@pytest.mark.parametrize("model", ["central", "shuffle"])
def test_excess_losses_stay_below_the_bounds(model: str, steps: int, std: float, ridge: float) -> None:
    link, n, s = Logistic(), 300, 1.5
    optimiser: NoisyGradient | ShuffledGradient
    if model == "central":
        optimiser = NoisyGradient.of_std(std, link=link, dim=3, parameter_bound=s, steps=steps)
    else:
        optimiser = shuffled(link, n, steps, std)
    assert optimiser.std == pytest.approx(std, rel=0.02)
    x, r, _ = data(link, 40, n)
    theta = optimiser.minimise(x, r, FastNoise(np.random.default_rng(9)), count=n, ridge=ridge)
    best = maximum_likelihood(link, x, r, ridge=ridge).theta
    inside = np.linalg.norm(best, axis=-1) <= s  # elsewhere the minimum over the ball is larger
    excess = (loss(link, theta, x, r, ridge=ridge) - loss(link, best, x, r, ridge=ridge))[inside] / n
    assert inside.sum() > 20
    assert float(np.max(excess)) <= optimiser.excess_bound(count=n, ridge=ridge, failure=1e-4)
    assert float(np.mean(excess)) <= optimiser.excess_bound(count=n, ridge=ridge)


@pytest.mark.parametrize(("steps", "std", "ridge"), [*SETTINGS, (1, 5.0, 2.0), (500, 1000.0, 140.0)])
def test_the_excess_bound_is_lemma_u2_by_hand(steps: int, std: float, ridge: float) -> None:
    optimiser = NoisyGradient.of_std(std, link=Binomial(trials=3), dim=4, parameter_bound=0.7, steps=steps)
    t, diameter, log, root = 900, 1.4, math.log(2 / 0.03), math.sqrt(steps)
    slope = 3 + ridge * 0.7 / t
    size = 4 + 2 * math.sqrt(4 * log / steps) + 2 * log / steps
    terms = [
        diameter * slope / root,
        diameter * (std / t) ** 2 * size / (2 * slope * root),
        diameter * std / t * (1 + 1 / root) * math.sqrt(2 * log / steps),
    ]
    found = optimiser.excess_bound(count=t, ridge=ridge, failure=0.03)
    assert found == pytest.approx(min(sum(terms), diameter * slope))
    mean = terms[0] + diameter * (std / t) ** 2 * 4 / (2 * slope * root)
    assert optimiser.excess_bound(count=t, ridge=ridge) == pytest.approx(min(mean, diameter * slope))


@pytest.mark.parametrize(("steps", "std", "ridge"), [*SETTINGS, (1, 5.0, 2.0), (9, 1e4, 1e3), (500, 0.1, 1.0)])
def test_the_worst_excess_is_the_largest_of_all_numbers_of_rows(steps: int, std: float, ridge: float) -> None:
    optimiser = NoisyGradient.of_std(std, link=Logistic(), dim=3, parameter_bound=2.0, steps=steps)
    worst = optimiser.worst_excess(horizon=3000, ridge=ridge, failure=1e-4)
    every = max(t * optimiser.excess_bound(count=t, ridge=ridge, failure=1e-4) for t in range(1, 3001))
    assert every <= worst * (1 + 1e-12)
    assert worst <= 1.02 * every


def test_price_is_the_budget_and_less_noise_is_noticed() -> None:
    mu = 1.3
    optimiser = NoisyGradient.priced(link=Probit(), dim=3, parameter_bound=2.0, steps=7, mu=mu, calls=5)
    exact = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3).get_epsilon_for_delta(1e-5)
    stated = accountant.epsilon(optimiser.event, 1e-5)
    assert stated == pytest.approx(exact, rel=2e-3)
    composed = pld.from_gaussian_mechanism(
        optimiser.std / (2 * optimiser.residual_bound), value_discretization_interval=1e-3
    ).self_compose(35)
    assert composed.get_epsilon_for_delta(1e-5) <= stated * 1.002
    quieter = NoisyGradient.of_std(0.8 * optimiser.std, link=Probit(), dim=3, parameter_bound=2.0, steps=7, calls=5)
    assert accountant.epsilon(quieter.event, 1e-5) > 1.2 * exact
    assert accountant.rho(optimiser.half_event) == pytest.approx(accountant.rho(optimiser.event) / 4, rel=1e-3)


@pytest.mark.parametrize("link", [Logistic(), Probit(), Linear()], ids=lambda link: link.name)
def test_one_user_moves_the_sum_by_at_most_the_sensitivity(link: Link) -> None:
    optimiser = NoisyGradient.priced(link=link, dim=3, parameter_bound=1.0, steps=1, mu=1.0)
    x, r, theta = data(link, 1, 30)
    bound = optimiser.protocol.domain.sensitivity
    rng = np.random.default_rng(2)
    largest = 0.0
    for _ in range(300):
        worst = np.where(rng.random(3) < 0.5, -1, 1) * 10.0 ** rng.integers(-1, 6)
        other_x, other_r = x.copy(), r.copy()
        other_x[0, 0], other_r[0, 0] = worst, rng.choice([-1e6, 0.0, 1.0, 1e6])
        moved = [
            optimiser.gradients(theta[:1], each, rewards).total() for each, rewards in ((x, r), (other_x, other_r))
        ]
        largest = max(largest, float(np.linalg.norm(moved[0] - moved[1])))
    assert largest <= bound + 1e-9


def test_clipping_happens_inside_the_call() -> None:
    quiet = NoisyGradient.of_std(1e-9, link=Logistic(), dim=2, parameter_bound=1.0, steps=1)
    x, r = np.zeros((1, 2)), np.zeros(1)
    start = np.zeros(2)
    calm = quiet.minimise(
        x, r, FastNoise(np.random.default_rng(0)), count=1000, ridge=0.1, start=start, matrix=np.eye(2) * 100
    )
    wild = quiet.minimise(
        np.full((1, 2), 1e9),
        np.full(1, -1e9),
        FastNoise(np.random.default_rng(0)),
        count=1000,
        ridge=0.1,
        start=start,
        matrix=np.eye(2) * 100,
    )
    assert np.linalg.norm(wild - calm) <= 1.0 / 100 + 1e-9


def test_newton_steps_reach_the_minimum_without_noise() -> None:
    x, r, _ = data(Logistic(), 3, 500)
    gram = np.swapaxes(x, -1, -2) @ x / 4 + np.eye(3)
    optimiser = NoisyGradient.of_std(1e-6, link=Logistic(), dim=3, parameter_bound=5.0, steps=120)
    theta = optimiser.minimise(x, r, FastNoise(np.random.default_rng(0)), count=500, ridge=1.0, matrix=gram)
    np.testing.assert_allclose(theta, maximum_likelihood(Logistic(), x, r, ridge=1.0).theta, atol=1e-4)


def shuffled(link: Link, n: int, steps: int, std: float) -> ShuffledGradient:
    """A vector sum of the given standard deviation on gradients of three coordinates."""
    domain = make_gradient_ball(link, 3, 1.5)
    noise = binomial_noise_for_std(std, sensitivity=domain.sensitivity, dim=3, users=n, composed=True)
    protocol = ShuffleBinomial(domain=domain, noise=noise, delta=1e-5)
    return ShuffledGradient(link=link, parameter_bound=1.5, steps=steps, protocol=protocol)


def test_shuffled_estimate_is_near_the_minimum() -> None:
    x, r, _ = data(Logistic(), 2, 2000)
    optimiser = shuffled(Logistic(), 2000, 12, 20.0)
    gram = np.swapaxes(x, -1, -2) @ x / 4 + np.eye(3)
    best = maximum_likelihood(Logistic(), x, r, ridge=1.0).theta
    for path in ("law", "messages"):
        theta = optimiser.minimise(x, r, FastNoise(np.random.default_rng(4)), ridge=1.0, matrix=gram, path=path)
        assert np.max(np.abs(theta - best)) < 6 * 20.0 / 90  # noise 20 over a curvature of at least 90
    plain = optimiser.minimise(x, r, FastNoise(np.random.default_rng(4)), ridge=1.0)
    excess = (loss(Logistic(), plain, x, r, ridge=1.0) - loss(Logistic(), best, x, r, ridge=1.0)) / 2000
    assert np.all(excess < 2 * 1.5 / math.sqrt(12) + 1.5 * 3 * (20.0 / 2000) ** 2 / math.sqrt(12))


def test_shuffled_price_notices_less_noise() -> None:
    optimiser, std = shuffled(Logistic(), 2000, 12, 20.0), 20.0
    gaussian = pld.from_gaussian_mechanism(std / 2, value_discretization_interval=1e-3).self_compose(12)
    floor = gaussian.get_epsilon_for_delta(1e-5)
    stated = accountant.epsilon(optimiser.event, 1e-5)
    assert floor * 0.99 <= stated <= 1.1 * floor
    assert accountant.epsilon(shuffled(Logistic(), 2000, 12, 0.8 * std).event, 1e-5) > 1.15 * stated
    assert accountant.satisfies(optimiser.event, ApproxDP(epsilon=stated * 1.001, delta=1e-5))


def test_outer_products_differ_by_at_most_root_two() -> None:
    domain = OuterProducts(size=3, bound=0.4)
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2, 4000, 3)) * 10.0 ** rng.integers(-1, 3, (2, 4000, 1))
    x[:, 0] = [[1.0, 0, 0], [0, 1.0, 0]]
    rows = [domain.statistic(each, rng.choice([0.0, 0.2, 0.4, 9.0], 4000)).values for each in x]
    distances = np.linalg.norm(rows[0] - rows[1], axis=-1)
    assert np.max(distances) <= domain.sensitivity + 1e-12
    ends = [domain.statistic(each[:1], np.array([0.4])).values for each in x]
    assert float(np.linalg.norm(ends[0] - ends[1])) == pytest.approx(domain.sensitivity)
    assert np.all(rows[0] >= domain.lower - 1e-12)
    assert np.all(rows[0] <= domain.upper + 1e-12)
    inside = domain.project(rng.normal(size=(500, 6)))
    pairs = np.linalg.norm(inside[:250] - inside[250:], axis=-1)
    assert np.max(pairs) <= domain.sensitivity + 1e-9
    np.testing.assert_allclose(domain.project(rows[0][:50]), rows[0][:50], atol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    central = NoisyGradient.of_std(1.0, link=Logistic(), dim=3, parameter_bound=1.0, steps=1)
    local = shuffled(Logistic(), 2000, 2, 20.0)
    x, r, _ = data(Logistic(), 1, 2000)
    source = FastNoise(np.random.default_rng(0))
    wrong_x, wrong_r, weights = x.copy(), r.copy(), np.ones(r.shape)
    wrong_x[0, 5, 1], wrong_r[0, 5], weights[0, 5] = bad, bad, bad
    for features, rewards in ((wrong_x, r), (x, wrong_r)):
        with pytest.raises(InvalidStatistic, match=r"features|rewards"):
            central.minimise(features, rewards, source, count=2000, ridge=1.0)
        with pytest.raises(InvalidStatistic, match=r"features|rewards"):
            local.minimise(features, rewards, source, ridge=1.0)
    outer = OuterProducts(size=3, bound=1.0)
    with pytest.raises(InvalidStatistic, match="features"):
        outer.statistic(wrong_x, np.ones(r.shape))
    with pytest.raises(InvalidStatistic, match="weights"):
        outer.statistic(x, weights)


def test_a_secure_sum_has_no_rounding_errors() -> None:
    optimiser = NoisyGradient.of_std(1.0, link=Linear(), dim=1, parameter_bound=1.0, steps=1)
    rng = np.random.default_rng(3)
    x, r = rng.uniform(-1, 1, (20_000, 1)), rng.random(20_000)
    terms = np.clip(-r, -2.0, 2.0)[:, None] * x
    statistic = optimiser.gradients(np.zeros(1), x, r)
    np.testing.assert_array_equal(statistic.values, terms)
    asked: list[str] = []
    original = CentralGaussian.release
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            CentralGaussian, "release", lambda self, *a, **kw: asked.append(kw["path"]) or original(self, *a, **kw)
        )
        for source in (FastNoise(rng), SecureNoise()):
            optimiser.minimise(x[:20], r[:20], source, count=20, ridge=1.0)
    assert asked == ["law", "messages"]
    exact, rest = exact_sum(statistic.values, 2.0)  # what messages are added up by
    assert abs(math.fsum([*(-terms[:, 0]), float(exact[0]), float(rest[0])])) <= 20_000 * 2 * 2.0**-62
    order = rng.permutation(20_000)
    assert exact_sum(statistic.values[order], 2.0) == (exact, rest)


@pytest.mark.parametrize(
    "link", [Logistic(), Binomial(trials=4), TruncatedPoisson(most=3), Linear()], ids=lambda k: k.name
)
def test_shuffled_gradients_stay_in_their_ball(link: Link) -> None:
    optimiser = shuffled(link, 2000, 2, 20.0)
    bound, rng = link.residual_bound(1.5), np.random.default_rng(4)
    x = rng.choice([-1.0, 1.0], (2, 500, 3)) * 10.0 ** rng.integers(-1, 6, (2, 500, 1))
    r = rng.choice([-1e6, 0.0, 1.0, 1e6], (2, 500))
    statistic = optimiser.gradients(np.array([1.0, -1.0, 0.5]), x, r)
    assert np.max(np.linalg.norm(statistic.values, axis=-1)) <= bound * (1 + 1e-12)
    assert np.max(np.linalg.norm(statistic.values, axis=-1)) > 0.999 * bound
    assert statistic.domain.sensitivity == 2 * bound == optimiser.protocol.event.shift / optimiser.protocol.noise.scale
