"""Factors of amplification by shuffling whose loss no quick test noticed: the bound, evaluated as it is written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.privacy import gdp
from bandanna.privacy.amplification import _outcomes, clone_buckets, clones_delta, clones_pld
from bandanna.privacy.blanket import LossDistribution, composed_blanket, stop_loss
from bandanna.privacy.shuffled_gaussian import (
    ShuffledBatches,
    _minimize_unimodal,
    composed_shuffled_gaussian_delta,
    composed_shuffled_gaussian_epsilon,
    composed_shuffled_gaussian_std,
    shuffled_gaussian_epsilon,
)

USERS, SCALE, EPSILON = 80, 3.0, 0.3


def written(times: int) -> float:
    """The bound on a coarse grid of eps0, at epsilon itself: what mixtures reveal, and M tails."""
    found, mu = [], 1 / SCALE
    for local in np.geomspace(0.8, 2.4, 60).tolist()[:: 1 if times == 1 else 4]:
        moved = times * (USERS - 1) * math.exp(-local) * float(gdp.delta(local, mu))
        if times == 1:
            hidden = (1 + math.exp(EPSILON)) * stop_loss(users=USERS, chance=math.exp(-local), mu=mu, epsilon=EPSILON)
            found.append(hidden + (math.expm1(EPSILON) + 2 * float(gdp.delta(EPSILON, mu))) * moved)
        else:
            hidden = float(composed_blanket(USERS, local, mu, times).get_delta_for_epsilon(EPSILON))
            found.append(hidden + (1 + math.exp(EPSILON)) * moved)
    return min(found)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.full)])
def test_the_least_bound_is_found(times: int) -> None:
    batches, as_written = ShuffledBatches(users=USERS, times=times), written(times)
    delta = batches.delta(SCALE, EPSILON)
    alone = float(gdp.delta(EPSILON, math.sqrt(times) / SCALE))
    assert (0.8 if times == 1 else 0.5) * as_written <= delta <= as_written * 1.002 < 0.2 * alone
    epsilon, scale = batches.epsilon(SCALE, delta), batches.scale(EPSILON, delta)
    assert epsilon == pytest.approx(EPSILON, rel=1e-3)
    assert scale == pytest.approx(SCALE, rel=5e-4)
    given = {"sensitivity": 2.0, "users": USERS, "times": times}
    assert composed_shuffled_gaussian_delta(std=2 * SCALE, epsilon=EPSILON, **given) == delta
    assert composed_shuffled_gaussian_epsilon(std=2 * SCALE, delta=delta, **given) == epsilon
    std = composed_shuffled_gaussian_std(epsilon=EPSILON, delta=delta, **given)
    assert std == 2 * scale
    if times == 1:
        one = shuffled_gaussian_epsilon(std=2 * SCALE, sensitivity=2.0, users=USERS, delta=delta)
        assert one == epsilon


def test_the_bound_of_one_batch_is_the_theorem() -> None:
    batches, local, mu = ShuffledBatches(users=USERS), 1.3, 1 / SCALE
    moved = (USERS - 1) * math.exp(-local) * float(gdp.delta(local, mu))
    tail = (math.expm1(EPSILON) + 2 * float(gdp.delta(EPSILON, mu))) * moved
    hidden = stop_loss(users=USERS, chance=math.exp(-local), mu=mu, epsilon=EPSILON)
    assert batches._tail(local, SCALE, EPSILON) == pytest.approx(tail, rel=1e-12)
    assert batches._bound(local, SCALE, EPSILON) == pytest.approx((1 + math.exp(EPSILON)) * hidden + tail, rel=1e-12)
    assert batches._before(2.2, SCALE, EPSILON) == batches._bound(2.2, SCALE, EPSILON)
    assert batches._before(0.2, SCALE, 4.0) < 0.5 * batches._bound(0.2, SCALE, 4.0)  # it rises there
    least = min(batches._bound(0.2, SCALE, float(e)) for e in np.geomspace(0.08, 4.0, 100))
    assert batches._before(0.2, SCALE, 4.0) == pytest.approx(least, rel=1e-2)


@pytest.mark.parametrize("times", [1, 4])
def test_without_others_every_batch_is_a_gaussian_report(times: int) -> None:
    batches = ShuffledBatches(users=1, times=times)
    mu = math.sqrt(times) / SCALE
    delta = float(gdp.delta(EPSILON, mu))
    assert batches.delta(SCALE, EPSILON) == delta
    assert batches.epsilon(SCALE, delta) == pytest.approx(EPSILON)
    assert batches.scale(EPSILON, delta) == pytest.approx(SCALE)
    given = {"sensitivity": 2.0, "users": 1, "times": times}
    assert composed_shuffled_gaussian_delta(std=2 * SCALE, epsilon=EPSILON, **given) == delta
    assert composed_shuffled_gaussian_std(epsilon=EPSILON, delta=delta, **given) == pytest.approx(2 * SCALE)


class Known(ShuffledBatches):
    """Batches that hide somebody as little as Gaussian reports at 0.97 of the distance would."""

    def _bound(self, local: float, scale: float, epsilon: float) -> float:
        """Of M such reports, whatever eps0 is."""
        return float(gdp.delta(epsilon, 0.97 * math.sqrt(self.times) / scale))


@pytest.mark.parametrize("times", [1, 4])
def test_epsilon_and_noise_are_inverse_to_a_delta_that_is_known(times: int) -> None:
    batches = Known(users=USERS, times=times)
    delta = batches.delta(SCALE, EPSILON)
    assert batches.epsilon(SCALE, delta) == pytest.approx(EPSILON, rel=1e-5)
    assert SCALE <= batches.scale(EPSILON, delta) <= SCALE * (1 + 2e-4)


def test_rounding_is_charged_for_every_batch() -> None:
    times, local = 3, math.exp(0.01 * round(math.log(1.7) / 0.01))
    composed = float(composed_blanket(USERS, local, 1 / SCALE, times).get_delta_for_epsilon(4.0))
    batches = ShuffledBatches(users=USERS, times=times)
    moved = times * (USERS - 1) * math.exp(-local) * float(gdp.delta(local, 1 / SCALE))
    assert batches._tail(local, SCALE, 4.0) == pytest.approx((1 + math.exp(4.0)) * moved, rel=1e-12)
    rest = batches._bound(local, SCALE, 4.0) - (1 + math.exp(4.0)) * moved
    assert rest - composed == pytest.approx(3e-16, abs=0.5e-16)
    revealed = composed_blanket(USERS, local, 1 / SCALE, times).get_delta_for_epsilon(0.3)
    assert revealed > 1e-3
    assert batches._bound(local, SCALE, 0.3) == pytest.approx(revealed + (1 + math.exp(0.3)) * moved, rel=1e-9)


def test_losses_are_composed_with_all_their_mass() -> None:
    one = LossDistribution(step=0.1, first=-1, masses=np.array([0.3, 0.4, 0.29]), infinite=0.01)
    three = one.composed(3)
    assert three.infinite == pytest.approx(1 - 0.99**3, rel=1e-12)
    assert (three.step, three.first) == (0.1, -3)
    np.testing.assert_allclose(three.masses, np.convolve(np.convolve(one.masses, one.masses), one.masses), rtol=1e-12)


def test_outcomes_of_the_pair_are_a_law_and_what_is_left_out_is_paid_for() -> None:
    users, local = 50, 1.0
    loss, mass, beyond = _outcomes(users, local)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mass * np.exp(-loss)).sum() == pytest.approx(1.0, abs=1e-9)
    assert beyond >= 4 * math.exp(-50.0)  # Hoeffding at ten standard deviations, twice, times 1 + r <= 2
    assert loss.max() == pytest.approx(local)
    delta = clones_pld(users=users, local_epsilon=local).get_delta_for_epsilon(0.2)
    exact = float(clones_delta(users=users, local_epsilon=local, epsilon=0.2))
    assert exact <= delta <= 1.01 * exact


def test_buckets_of_clones_have_the_mean_of_a_binomial() -> None:
    least, mass = clone_buckets(users=50, local_epsilon=1.0, fineness=1e5)
    assert least @ mass == pytest.approx(49 * math.exp(-1.0), rel=1e-9)


@pytest.mark.parametrize("least", [-0.7, 0.3, 2.9])
def test_a_parabola_is_seen_through(least: float) -> None:
    tried = list[float]()

    def value(place: float) -> float:
        tried.append(place)
        return (place - least) ** 2

    assert _minimize_unimodal(value, -2.0, 4.0, 1e-4)[1] == pytest.approx(least, abs=1e-4)
    assert len(tried) < 10  # golden sections would take 24


def test_the_least_is_found_at_an_end() -> None:
    assert _minimize_unimodal(lambda place: -place, 0.0, 1.0, 1e-4)[1] == pytest.approx(1.0, abs=1e-4)
