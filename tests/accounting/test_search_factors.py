"""Where searches for noise look, by hand: lattices, copies and coins that `make mutants` found untested."""

from __future__ import annotations

import math

import pytest

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.calibration.binomial import binomial_noise, noise_of_std
from bandanna.accounting.calibration.bits import _copies, bit_noise, bit_noise_of_std, bit_std

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("dim", "users", "composed", "scale"),
    [
        (400, 64, False, 5 * 20 / 2),  # the rounding's share of the sensitivity, and with several releases
        (400, 64, True, 240 / 2),
        (1, 6400, False, 5 * 80 / 10),  # the rounding's own variance
    ],
)
def test_noise_of_a_given_std_lies_on_the_first_lattice(dim: int, users: int, composed: bool, scale: float) -> None:
    """The lattice of counts is not the one of calibration.md A.4, for a sensitivity of 2 and a std of 10."""
    noise = noise_of_std(10.0, sensitivity=2.0, dim=dim, users=users, composed=composed)
    assert noise.scale == scale


def test_least_noise_lies_on_the_first_lattice() -> None:
    """The search for coins skips the lattice that calibration.md A.4 begins with, or prices another one."""
    assert binomial_noise(sensitivity=2.0, reach=2.0, dim=400, users=64, budget=BUDGET).scale == 50


def test_copies_are_few_or_enough_for_one_coin_of_every_user() -> None:
    """A large batch is never given as many copies as one fair bit of every user asks for: c = sqrt(B) / (2 std)."""
    assert _copies(10_000, 2.0) == [*range(1, 9), *range(25, 25 * 24, 25)]


def test_bits_of_returning_people_have_the_fewest_copies_that_are_near_enough() -> None:
    """Copies are tried beyond those within 0.2 % of the Gaussian, or the Gaussian is that of one participation."""
    central, noise = 2.0 / BUDGET.mu(), bit_noise(users=500, budget=BUDGET, participations=4)
    assert bit_std(noise) <= 1.002 * central
    fewer = [copies for copies in _copies(500, central) if copies < noise.scale]
    coins = (math.ceil((2 * copies * central) ** 2 / 500) for copies in fewer)
    assert all(math.sqrt(500 * b) / (2 * c) > 1.002 * central for b, c in zip(coins, fewer, strict=True))


def test_bits_of_a_given_std_have_2500_coins() -> None:
    """So few coins are taken that their price is not near the Gaussian's: 2 c std = 50."""
    assert bit_noise_of_std(0.7, users=2).scale == math.ceil(25 / 0.7)
