"""Randomized response: chances, the price of one answer, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidBudget, InvalidStatistic
from bandanna.mechanisms.noise import RandomizedResponse
from bandanna.privacy import accountant


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
