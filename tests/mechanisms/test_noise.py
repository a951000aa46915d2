"""Mechanisms of one release: laws, prices and refusals of each kind of noise."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from bandanna.device.noise import (
    FastNoise,
    ReplicatedNoise,
    SecureNoise,
    gaussian_grid_distance,
    laplace_grid_distance,
    round_to_grid,
)
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
)
from bandanna.numeric.rng import Streams
from bandanna.privacy import accountant
from bandanna.privacy.events import (
    BinomialEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from bandanna.privacy.factorisation import BLT, factorise
from bandanna.privacy.prices import fine_grid


def mass(std: float, reach: int) -> NDArray[np.float64]:
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / std) ** 2)
    return np.asarray(weights / weights.sum())


def renyi(order: float, std: float, shift: int) -> float:
    """The Renyi divergence of the shifted law from the unshifted one, by summation in logarithms."""
    k = np.arange(-400, 401)
    log_p, log_q = -0.5 * ((k - shift) / std) ** 2, -0.5 * (k / std) ** 2
    log_total = np.logaddexp.reduce(log_q)  # the same for both: the shift is an integer
    return float(np.logaddexp.reduce(order * log_p + (1 - order) * log_q) - log_total) / (order - 1)


def gap(draws: NDArray[Any], std: float) -> float:
    """Kolmogorov distance of integer draws from the discrete Gaussian."""
    reach = math.ceil(14 * std) + 1
    expected = np.cumsum(mass(std, reach))
    seen = np.searchsorted(np.sort(draws), np.arange(-reach, reach + 1), side="right") / draws.size
    return float(np.abs(seen - expected).max())


def band(n: int, alarm: float) -> float:
    return math.sqrt(math.log(2 / alarm) / (2 * n))


@pytest.mark.parametrize(("std", "shift"), [(1.0, 1), (2.5, 3), (0.7, 1), (4.0, 2)])
def test_discrete_gaussian_is_concentrated_as_claimed(std: float, shift: int) -> None:
    event = DiscreteGaussianMechanism(std=std, shift=shift).event
    rho = event.shift**2 / (2 * event.std**2)
    for order in (1.1, 1.5, 2.0, 2.7, 4.0, 8.0, 16.5):
        assert renyi(order, std, shift) <= rho * order * (1 + 1e-12)
        assert renyi(order, 0.8 * std, shift) > rho * order  # the same claim with less noise is false
    for order in (2.0, 4.0, 8.0):  # whole orders: the tilted law is centred on the lattice, and the bound is attained
        assert renyi(order, std, shift) == pytest.approx(rho * order, rel=1e-9)


def test_rounding_to_the_grid_must_be_charged() -> None:
    mechanism = GaussianMechanism(std=1.0, sensitivity=1.1, grid=0.5)
    values = np.linspace(-1, 1, 401)
    steps = round_to_grid(values, mechanism.step) - round_to_grid(values - mechanism.sensitivity, mechanism.step)
    worst = int(steps.max())  # 3 steps of 0.5 for a change of 1.1
    charged = (
        mechanism.event.sensitivity + mechanism.event.grid * math.sqrt(mechanism.event.dim)
    ) / mechanism.event.std
    truth = renyi(2.0, mechanism.std / mechanism.step, worst) / 2
    assert truth <= charged**2 / 2
    assert truth > (mechanism.sensitivity / mechanism.std) ** 2 / 2
    assert renyi(2.0, 0.8 * mechanism.std / mechanism.step, worst) / 2 > charged**2 / 2


@pytest.mark.parametrize("std", [0.2, 0.5, 0.9, 1.4, 1.99, 2.0, 7.0])
def test_discrete_gaussian_variance_is_exact(std: float) -> None:
    with mpmath.workdps(40):
        weights = {j: mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * mpmath.mpf(std) ** 2)) for j in range(1, 200)}
        exact = 2 * sum(j**2 * w for j, w in weights.items()) / (1 + 2 * sum(weights.values()))
        assert DiscreteGaussianMechanism(std=std, shift=1).variance == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_discrete_release_has_the_law_of_its_event(kind: str) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (20_000, 1e-9)
    source = FastNoise(np.random.default_rng(7)) if kind == "fast" else SecureNoise()
    mechanism = DiscreteGaussianMechanism(std=1.7, shift=1, dim=4)
    value = np.tile([5, -3, 0, 10**12], (n // 4, 1))
    noise = mechanism.release(value, source) - value  # (n / 4, 4)
    assert gap(noise.ravel(), mechanism.event.std) <= band(n, alarm)
    weaker = dataclasses.replace(mechanism, std=0.8 * mechanism.std).release(value, source) - value
    assert gap(weaker.ravel(), mechanism.event.std) > band(n, alarm)


def test_fast_release_is_within_the_stated_distance_of_the_events_law() -> None:
    mechanism, n = GaussianMechanism(std=2.0, sensitivity=1.0, grid=0.1), 200_000
    steps, expected = 0.1 * np.arange(-200, 201), np.cumsum(mass(20.0, 200))
    bound = gaussian_grid_distance(std=2.0, grid=0.1) + band(n, 1e-6)

    def distance(used: GaussianMechanism) -> float:
        noise = np.sort(used.release(np.zeros((n, 1)), FastNoise(np.random.default_rng(5))).ravel())
        return float(np.abs(np.searchsorted(noise, steps, side="right") / n - expected).max())

    assert distance(mechanism) <= bound
    finer = dataclasses.replace(mechanism, grid=None)
    assert distance(finer) == distance(mechanism)  # the fast source ignores the grid
    assert distance(dataclasses.replace(mechanism, std=1.6)) > bound


def test_secure_release_on_the_default_grid_is_gaussian() -> None:
    mechanism, n = GaussianMechanism(std=3.0, sensitivity=1.0, dim=2), 20_000
    weaker = dataclasses.replace(mechanism, std=2.4)
    noise, less = (used.release(np.full((n // 2, 2), 0.1), SecureNoise()) - 0.1 for used in (mechanism, weaker))
    assert stats.kstest(noise.ravel() / 3.0, "norm").statistic <= band(n, 1e-9) + 4e-7
    assert stats.kstest(less.ravel() / 3.0, "norm").statistic > band(n, 1e-9)


def test_gaussian_events_repeat_the_parameters() -> None:
    assert GaussianMechanism(std=3.0, sensitivity=2.0, dim=4).event == GaussianEvent(
        std=3.0, sensitivity=2.0, dim=4, grid=3.0 * 2.0**-20
    )
    assert GaussianMechanism(std=3.0, sensitivity=2.0, grid=0.0).event == GaussianEvent(std=3.0, sensitivity=2.0)
    assert DiscreteGaussianMechanism(std=3.0, shift=2.0, dim=4).event == DiscreteGaussianEvent(
        std=3.0, shift=2.0, dim=4
    )
    assert GaussianMechanism(std=3.0, sensitivity=2.0).variance == 9.0
    assert dataclasses.replace(GaussianMechanism(std=3.0, sensitivity=2.0), std=6.0).step == 6.0 * 2.0**-20


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("std", lambda: GaussianMechanism(std=0.0, sensitivity=1.0)),
        ("std", lambda: GaussianMechanism(std=math.nan, sensitivity=1.0)),
        ("sensitivity", lambda: GaussianMechanism(std=1.0, sensitivity=-1.0)),
        ("dim", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, dim=0)),
        ("grid", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, grid=-1.0)),
        ("grid", lambda: GaussianMechanism(std=1.0, sensitivity=1.0, grid=1.5)),
        ("std", lambda: DiscreteGaussianMechanism(std=2.0**53, shift=1.0)),
        ("shift", lambda: DiscreteGaussianMechanism(std=1.0, shift=0.0)),
    ],
)
def test_a_mechanism_without_a_sound_event_cannot_be_built(argument: str, build: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument


def laplace_mass(scale: float, reach: int) -> NDArray[np.float64]:
    q = math.exp(-1 / scale)
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1)))


def hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def joint(scale: float, shifts: tuple[int, ...], reach: int = 60) -> NDArray[np.float64]:
    """The law of shifts + noise on the box [-reach/2, reach/2]^dim."""
    inside = slice(reach // 2, 3 * reach // 2 + 1)
    law = np.ones(())
    for shift in shifts:
        law = np.multiply.outer(law, np.roll(laplace_mass(scale, reach), shift)[inside])
    return law


@pytest.mark.parametrize(("scale", "shift", "dim"), [(1.0, 1, 1), (2.0, 3, 1), (0.6, 1, 1), (2.0, 2, 2), (1.5, 3, 2)])
def test_discrete_laplace_is_pure_as_claimed(scale: float, shift: int, dim: int) -> None:
    event = DiscreteLaplaceMechanism(scale=scale, shift=shift, dim=dim).event
    epsilon = event.shift / event.scale
    for change in itertools.product(range(-shift, shift + 1), repeat=dim):
        if sum(map(abs, change)) == shift:
            still, moved = joint(scale, (0,) * dim), joint(scale, change)
            assert hockey_stick(moved, still, epsilon) < 1e-12
            assert hockey_stick(still, moved, epsilon) < 1e-12
            weak_still, weak_moved = joint(0.8 * scale, (0,) * dim), joint(0.8 * scale, change)
            assert hockey_stick(weak_moved, weak_still, epsilon) > 1e-3


def test_rounding_of_laplace_releases_to_the_grid_must_be_charged() -> None:
    mechanism = LaplaceMechanism(scale=1.0, sensitivity=1.1, grid=0.5)
    values = np.linspace(-1, 1, 401)
    steps = round_to_grid(values, mechanism.step) - round_to_grid(values - mechanism.sensitivity, mechanism.step)
    worst, ratio = int(steps.max()), mechanism.scale / mechanism.step
    charged = (mechanism.event.sensitivity + mechanism.event.grid * mechanism.event.dim) / mechanism.event.scale
    assert hockey_stick(joint(ratio, (worst,)), joint(ratio, (0,)), charged) < 1e-12
    assert hockey_stick(joint(ratio, (worst,)), joint(ratio, (0,)), mechanism.sensitivity / mechanism.scale) > 1e-3
    assert hockey_stick(joint(0.8 * ratio, (worst,)), joint(0.8 * ratio, (0,)), charged) > 1e-3


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 5.0])
def test_discrete_laplace_variance_is_exact(scale: float) -> None:
    reach = math.ceil(80 * scale) + 5
    exact = (laplace_mass(scale, reach) * np.arange(-reach, reach + 1) ** 2).sum()
    assert DiscreteLaplaceMechanism(scale=scale, shift=1).variance == pytest.approx(exact, rel=1e-12)


def test_variance_of_real_noise_is_that_of_the_grid_within_the_stated_bound() -> None:
    for grid in (1.0, 0.5, 0.1):
        secure = grid**2 * DiscreteLaplaceMechanism(scale=1 / grid, shift=1).variance
        assert 0 < 1 - secure / LaplaceMechanism(scale=1.0, sensitivity=1.0, grid=grid).variance < grid**2 / 12


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_discrete_laplace_releases_have_the_law_of_their_event(kind: str) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (30_000, 1e-9)
    source = FastNoise(np.random.default_rng(11)) if kind == "fast" else SecureNoise()
    mechanism = DiscreteLaplaceMechanism(scale=1.7, shift=1, dim=3)
    value = np.tile([5, -3, 10**12], (n // 3, 1))

    def gap(used: DiscreteLaplaceMechanism) -> float:
        noise = np.sort((used.release(value, source) - value).ravel())
        seen = np.searchsorted(noise, np.arange(-100, 101), side="right") / noise.size
        return float(np.abs(seen - np.cumsum(laplace_mass(mechanism.event.scale, 100))).max())

    assert gap(mechanism) <= band(n - 2, alarm)
    assert gap(dataclasses.replace(mechanism, scale=0.8 * mechanism.scale)) > band(n - 2, alarm)


@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_real_release_is_laplace(kind: str) -> None:
    """Both sources are Laplace to 5e-7; a scale 20 % too small is seen."""
    n, alarm = (200_000, 1e-6) if kind == "fast" else (30_000, 1e-9)
    source = FastNoise(np.random.default_rng(12)) if kind == "fast" else SecureNoise()
    mechanism = LaplaceMechanism(scale=3.0, sensitivity=1.0)
    weaker = dataclasses.replace(mechanism, scale=2.4)
    noise, less = ((used.release(np.full((n, 1), 0.1), source) - 0.1).ravel() for used in (mechanism, weaker))
    slack = laplace_grid_distance(scale=3.0, grid=mechanism.step)
    assert stats.kstest(noise, "laplace", args=(0, 3.0)).statistic <= band(n, alarm) + slack
    assert stats.kstest(less, "laplace", args=(0, 3.0)).statistic > band(n, alarm) + slack


def test_laplace_events_repeat_the_parameters() -> None:
    assert LaplaceMechanism(scale=3.0, sensitivity=2.0, dim=4).event == LaplaceEvent(
        scale=3.0, sensitivity=2.0, dim=4, grid=3.0 * 2.0**-20
    )
    assert DiscreteLaplaceMechanism(scale=3.0, shift=2.0, dim=4).event == DiscreteLaplaceEvent(
        scale=3.0, shift=2.0, dim=4
    )


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("scale", lambda: LaplaceMechanism(scale=0.0, sensitivity=1.0)),
        ("sensitivity", lambda: LaplaceMechanism(scale=1.0, sensitivity=math.inf)),
        ("dim", lambda: LaplaceMechanism(scale=1.0, sensitivity=1.0, dim=1.5)),
        ("grid", lambda: LaplaceMechanism(scale=1.0, sensitivity=1.0, grid=1.5)),
        ("scale", lambda: DiscreteLaplaceMechanism(scale=2.0**53, shift=1.0)),
        ("shift", lambda: DiscreteLaplaceMechanism(scale=1.0, shift=-1.0)),
    ],
)
def test_a_laplace_mechanism_without_a_sound_event_cannot_be_built(argument: str, build: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert caught.value.argument == argument


def law(trials: int, probability: float, change: tuple[int, ...], reach: int) -> NDArray[np.float64]:
    """The joint law of change + Bin(trials, probability) per coordinate, on -reach..trials+reach."""
    support = np.arange(-reach, trials + reach + 1)
    joint = np.ones(())
    for shift in change:
        joint = np.multiply.outer(joint, stats.binom.pmf(support - shift, trials, probability))
    return joint


def claim(event: BinomialEvent, epsilon: float, zmax: float = 4.5) -> float:
    """Theorem A for integer shifts, on its own: delta_G(epsilon; mu_1 shift) + dim (1 + e^epsilon) tail."""
    z = special.ndtri(stats.binom.cdf(np.arange(event.trials), event.trials, event.probability))
    z = z[np.abs(z) <= zmax]  # a smaller zmax keeps fewer points: steps are smaller, the tail larger
    mu = np.diff(z).max() * event.shift
    tail = max(special.ndtr(z[0]), special.ndtr(-z[-1]))
    gaussian = special.ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * special.ndtr(-epsilon / mu - mu / 2)
    return float(gaussian + event.dim * (1 + math.exp(epsilon)) * tail)


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize(("trials", "change"), [(200, (6,)), (400, (3,)), (200, (4, -3)), (300, (0, 7))])
def test_binomial_noise_is_as_private_as_theorem_a_claims(
    trials: int, change: tuple[int, ...], probability: float
) -> None:
    shift = math.hypot(*change)
    mechanism = BinomialMechanism(
        trials=trials, shift=shift, reach=7, dim=len(change), probability=probability, rounded=False
    )
    weaker = dataclasses.replace(mechanism, trials=round(0.64 * trials))  # variance is linear in the trials
    still = (0,) * len(change)

    def truth(used: BinomialMechanism, epsilon: float) -> float:
        p, q = (law(used.trials, probability, moved, 7) for moved in (change, still))
        return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))

    for epsilon in (0.1, 0.5, 1.0):
        assert truth(mechanism, epsilon) <= claim(mechanism.event, epsilon)
    if probability == 0.5:  # where the claim is tight
        assert truth(weaker, 0.5) > claim(mechanism.event, 0.5)


@pytest.mark.parametrize(("trials", "probability"), [(1, 0.5), (12, 0.25), (300, 0.625)])
def test_the_moments_of_binomial_noise_are_exact(trials: int, probability: float) -> None:
    mechanism = BinomialMechanism(trials=trials, shift=1.0, reach=1, probability=probability)
    mean, variance = stats.binom.stats(trials, probability)
    assert mechanism.mean == pytest.approx(float(mean), rel=1e-14)
    assert mechanism.variance == pytest.approx(float(variance), rel=1e-14)


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_release_has_the_law_of_its_event(kind: str, probability: float) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (100_000, 1e-9)
    source = FastNoise(np.random.default_rng(3)) if kind == "fast" else SecureNoise()
    mechanism = BinomialMechanism(trials=200, shift=1.0, reach=1, dim=2, probability=probability)
    value = np.tile([5, -3], (n // 2, 1))

    def gap(used: BinomialMechanism) -> float:
        noise = used.release(value, source) - value + round(mechanism.mean - used.mean)
        seen = np.searchsorted(np.sort(noise.ravel()), np.arange(-1, 201), side="right") / n
        return float(np.abs(seen - stats.binom.cdf(np.arange(-1, 201), 200, probability)).max())

    band = math.sqrt(math.log(2 / alarm) / (2 * n))
    assert gap(mechanism) <= band
    assert gap(dataclasses.replace(mechanism, trials=128)) > band


def test_binomial_events_repeat_the_parameters() -> None:
    stated = {"trials": 40, "shift": 2.5, "reach": 3, "dim": 4, "probability": 0.25, "rounded": False}
    assert BinomialMechanism(**stated).event == BinomialEvent(**stated)
    assert BinomialMechanism(trials=40, shift=2.5, reach=3).event == BinomialEvent(trials=40, shift=2.5, reach=3)


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("trials", {"trials": 0}),
        ("trials", {"trials": 2**53 + 1}),
        ("shift", {"shift": 0.0}),
        ("reach", {"reach": 0.5}),
        ("dim", {"dim": 0}),
        ("probability", {"probability": 1.0}),
    ],
)
def test_a_binomial_mechanism_without_a_sound_event_cannot_be_built(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        BinomialMechanism(**{"trials": 10, "shift": 1.0, "reach": 1, **changed})
    assert caught.value.argument == argument


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0])
def test_the_price_is_that_of_the_chances(epsilon: float) -> None:
    response = RandomizedResponse(epsilon=epsilon)
    chance = response.chance(np.linspace(0.0, 1.0, 101))
    worst = max(math.log(np.max(each) / np.min(each)) for each in (chance, 1 - chance))
    stated = accountant.epsilon(response.event, 0.0)
    assert worst <= stated * (1 + 1e-9)
    assert stated <= epsilon
    assert stated >= 0.99 * epsilon
    quieter = math.sqrt(response.variance) * 0.8  # std sqrt(q (1 - q)) / (2q - 1): the lie that would have it
    square = 0.25 * (1 - 1 / (1 + 4 * quieter**2))
    lie = 0.5 - math.sqrt(0.25 - square)
    assert math.log((1 - lie) / lie) > epsilon


@pytest.mark.parametrize("dim", [2, 5])
def test_answers_about_several_numbers_cost_each_of_them(dim: int) -> None:
    response = RandomizedResponse(epsilon=0.5, dim=dim)
    chance = response.chance(np.array([0.0, 1.0]))
    exact = dim * math.log(chance[1] / chance[0])  # ones everywhere, from zeros or from ones
    assert accountant.epsilon(response.event, 0.0) >= exact * (1 - 1e-12)
    assert accountant.rho(response.event) >= dim * accountant.rho(RandomizedResponse(epsilon=0.5).event) * (1 - 1e-12)


def test_no_epsilon_is_exceeded_by_a_rounding_error() -> None:
    for epsilon in 10 ** np.random.default_rng(0).uniform(-11, 2.5, 1000):
        assert accountant.epsilon(RandomizedResponse(epsilon=float(epsilon)).event, 0.0) <= epsilon


def test_answers_are_unbiased_with_the_stated_variance() -> None:
    response = RandomizedResponse(epsilon=0.7)
    for x in (0.0, 0.3, 1.0):
        answers = response.release(np.full((400_000, 1), x), FastNoise(np.random.default_rng(2)))
        assert set(np.unique(answers)) == {0.0, 1.0}
        decoded = response.decode(answers)
        spread = 0.5 / response.truth
        assert abs(np.mean(decoded) - x) < 5 * spread / math.sqrt(len(decoded))
        if x in (0.0, 1.0):
            assert np.var(decoded) == pytest.approx(response.variance, rel=0.01)


def test_a_secure_source_draws_answers() -> None:
    answers = RandomizedResponse(epsilon=1.0).release(np.ones((2000, 1)), SecureNoise())
    assert 1300 < np.sum(answers) < 1620  # mean 1462, standard deviation 20: 8 of them


def test_epsilons_and_numbers_that_no_coin_can_answer_are_refused() -> None:
    for wrong in (0.0, -1.0, 1e-13, math.inf, math.nan, "1"):
        with pytest.raises(InvalidBudget, match="epsilon"):
            RandomizedResponse(epsilon=wrong)
    response = RandomizedResponse(epsilon=1.0)
    for value in ([1.5], [-0.1], [math.nan], [[0.0, 1.0]]):
        with pytest.raises(InvalidStatistic, match="value"):
            response.release(np.array(value), FastNoise(np.random.default_rng(0)))


SMALL = BLT(horizon=8, theta=(0.9,), theta_hat=(0.5,))
OCTAVES = [2000 * 2 ** (step / 9) for step in range(9)]  # grids are powers of two: one of them sees a tenth


@pytest.mark.parametrize("scale", OCTAVES)
def test_grids_are_as_fine_as_the_noise_was_calibrated_for(scale: float) -> None:
    assert GaussianMechanism(std=scale, sensitivity=2.0, dim=3).step == fine_grid(scale, 2.0, 3)
    assert LaplaceMechanism(scale=scale, sensitivity=2.0, dim=3).step == fine_grid(scale, 2.0, 9)
    for participations in (1, 3):
        for factors in (factorise("tree", horizon=8), SMALL):
            stream = ContinualGaussian(
                factorisation=factors, std=scale, sensitivity=2.0, dim=3, participations=participations
            )
            touched = 3 * factors.releases(participations)
            assert stream.spacing == fine_grid(scale, participations * 2.0 * factors.sensitivity(), touched)


def test_variances_of_a_stream_are_those_of_its_prefixes() -> None:
    tree = factorise("tree", horizon=8)
    stream = ContinualGaussian(factorisation=tree, std=3.0, sensitivity=1.0)
    np.testing.assert_allclose(stream.variances, [9.0 * t.bit_count() for t in range(1, 9)])


def test_noise_without_data_is_that_of_a_stream_of_zeros() -> None:
    stream = ContinualGaussian(factorisation=SMALL, std=3.0, sensitivity=1.0, dim=2, grid=0.0)
    source, again = (FastNoise(np.random.default_rng(5)) for _ in range(2))
    state = stream.begin()
    for prefix in stream.prefix_noise(source):
        state, stepped = stream.step(state, np.zeros(2), again)
        np.testing.assert_allclose(prefix, stepped, atol=1e-12)
    assert math.isclose(float(stream.variances[0]), 9.0)


def test_answers_in_several_coordinates_say_so() -> None:
    event = RandomizedResponse(dim=3, epsilon=1.0).event
    assert (event.dim, event.shift) == (3, 3.0)


def test_seeds_side_by_side_draw_noise_of_the_stated_variance() -> None:
    source, size = ReplicatedNoise(Streams(range(20))), (20, 500)
    geometric = 2 * math.exp(-1 / 5) / math.expm1(-1 / 5) ** 2
    for draws, variance in (
        (source.gaussian(np.zeros(size), std=5.0, grid=0.0), 25.0),
        (source.laplace(np.zeros(size), scale=5.0, grid=0.0), 50.0),
        (source.discrete_gaussian(std=5.0, size=size), 25.0),
        (source.discrete_laplace(scale=5.0, size=size), geometric),
        (source.binomial(trials=100, probability=0.5, size=size) - 50, 25.0),
    ):
        assert float(np.mean(draws)) == pytest.approx(0.0, abs=0.05 * math.sqrt(variance))
        assert float(np.std(draws)) == pytest.approx(math.sqrt(variance), rel=0.05)


SEEDS, DRAWS = 200, 50


def test_gaussian_and_laplace_noise_have_the_scale_that_is_asked_for() -> None:
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, DRAWS))
    for draw, law in (
        (source.gaussian(zeros, std=3.0, grid=0.0), stats.norm(0, 3)),
        (source.laplace(zeros, scale=3.0, grid=0.0), stats.laplace(0, 3)),
    ):
        assert stats.kstest(draw.ravel(), law.cdf).pvalue > 1e-6
        assert stats.kstest(0.8 * draw.ravel(), law.cdf).pvalue < 1e-9  # 20 % less would show


def test_draws_are_fresh_in_every_call_and_for_every_seed() -> None:
    source, zeros = ReplicatedNoise(Streams(range(SEEDS))), np.zeros((SEEDS, 1))
    for draw in (
        lambda: source.gaussian(zeros, std=1.0, grid=0.0),
        lambda: source.laplace(zeros, scale=1.0, grid=0.0),
        lambda: source.uniform((SEEDS, 1)),
    ):
        drawn = np.concatenate([draw() for _ in range(DRAWS)], axis=1)
        assert len(np.unique(drawn)) == drawn.size


def test_heads_have_the_law_of_every_users_coins() -> None:
    places, counts = 40_000, np.array([[3, 2], [1, 4]])
    chances = np.array([[0.3, 0.9], [0.71, 0.04]])
    given = np.broadcast_to(chances[..., None], (2, 2, places))
    drawn = ReplicatedNoise(Streams([5, 6])).heads(counts, given)
    for heads, many, p in zip(drawn, counts, chances, strict=True):
        law = np.convolve(*(stats.binom.pmf(np.arange(n + 1), n, q) for n, q in zip(many, p, strict=True)))
        found = np.bincount(heads, minlength=6) / places
        assert np.all(np.abs(found - law) < 6 * np.sqrt(law * (1 - law) / places) + 1e-12)
    plain = FastNoise(np.random.default_rng(7)).heads(counts, given)
    assert np.all(np.abs(np.mean(plain - drawn, axis=1)) < 6 * np.sqrt(2 * 5 / 4 / places))


def test_heads_that_the_first_bits_leave_open_are_decided_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    streams, places = Streams([1, 2]), 1000
    monkeypatch.setattr(streams, "sixteen_bits", lambda name, shape: np.full((2, *shape), 7, dtype=np.uint16))
    chances = np.full((2, 2, places), 7.25 / 2**16)
    heads = ReplicatedNoise(streams).heads(np.array([[1, 4], [5, 0]]), chances)
    assert np.all(np.abs(np.mean(heads, axis=1) / 5 - 0.25) < 6 * math.sqrt(0.25 * 0.75 / (5 * places)))


def test_a_seeds_heads_are_the_same_in_any_company() -> None:
    counts, chances = np.array([[9, 30], [20, 19]]), np.random.default_rng(3).random((2, 2, 3000))
    together, alone = ReplicatedNoise(Streams([4, 8])), ReplicatedNoise(Streams([8]))
    for _ in range(3):
        assert np.array_equal(together.heads(counts, chances)[1], alone.heads(counts[1:], chances[1:])[0])
