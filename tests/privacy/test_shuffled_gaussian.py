"""Shuffled Gaussian reports: delta, epsilon and the least noise, against exact laws and the bound as it is written."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import amplification, gdp, shuffled_gaussian

from ..drawn import examples
from .shuffle_enumeration import hockey_stick

SENSITIVITY = math.sqrt(4.5)

# calibration table of section B: epsilon, delta, n, FMT clones (sum), local (sum), lower bound of any analysis (sum)
TABLE = [
    (0.2, 1e-1, 20, 21.81, 21.81, 7.18),
    (0.2, 1e-1, 200, 47.58, 68.97, 14.42),
    (0.2, 1e-1, 2000, 99.20, 218.10, 34.87),
    (0.2, 1e-5, 20, 154.67, 154.67, 35.28),
    (0.2, 1e-5, 200, 240.49, 489.12, 40.98),
    (0.2, 1e-5, 2000, 361.66, 1546.75, 73.08),
    (1.0, 1e-1, 20, 10.30, 10.30, 4.92),
    (1.0, 1e-1, 200, 32.58, 32.58, 11.59),
    (1.0, 1e-1, 2000, 79.55, 103.02, 30.10),
    (1.0, 1e-5, 20, 35.39, 35.39, 11.54),
    (1.0, 1e-5, 200, 92.33, 111.92, 23.41),
    (1.0, 1e-5, 2000, 163.79, 353.92, 55.52),
    (10.0, 1e-1, 20, 2.67, 2.67, 2.29),
    (10.0, 1e-1, 200, 8.45, 8.45, 6.60),
    (10.0, 1e-1, 2000, 26.74, 26.74, 19.24),
    (10.0, 1e-5, 20, 4.74, 4.74, 3.84),
    (10.0, 1e-5, 200, 15.00, 15.00, 10.69),
    (10.0, 1e-5, 2000, 47.42, 47.42, 30.33),
]
ROWS = [TABLE[n][:3] for n in (0, 4, 8, 15)]  # every epsilon, delta and batch


def scanned_delta(users: int, epsilon: float, scale: float) -> float:
    """Least delta over a plain, coarse grid of eps0 and of smaller epsilons."""
    least, mu = float(gdp.delta(epsilon, 1 / scale)), 1 / scale
    for smaller, local in itertools.product((0.6 * epsilon, epsilon), np.geomspace(0.02, math.log(users) + 3, 80)):
        hidden = amplification.stop_loss(users=users, chance=math.exp(-local), mu=mu, epsilon=smaller)
        moved = (users - 1) * math.exp(-local) * float(gdp.delta(local, mu))
        tail = (math.expm1(smaller) + 2 * float(gdp.delta(smaller, mu))) * moved
        least = min(least, (1 + math.exp(smaller)) * hidden + tail)
    return least


@pytest.mark.parametrize(("epsilon", "delta", "users", "clones", "local", "lower"), TABLE)
@pytest.mark.often(when=lambda epsilon, delta, users: (epsilon, delta, users) in ROWS)
def test_std_agrees_with_the_calibration_table(
    epsilon: float, delta: float, users: int, clones: float, local: float, lower: float
) -> None:
    std = shuffled_gaussian.shuffled_gaussian_std(
        sensitivity=SENSITIVITY, users=users, epsilon=epsilon, delta=delta
    ) * math.sqrt(users)
    assert lower <= std <= clones * (1 + 3e-3)  # the table has theorem 3.8's tail, and three to four digits
    scanned = scanned_delta(users, epsilon, std / math.sqrt(users) / SENSITIVITY)
    assert delta * 0.995 <= scanned <= 2 * delta  # of a coarse grid
    assert std <= local * 1.002
    less = shuffled_gaussian.shuffled_gaussian_delta(
        std=0.8 * std / math.sqrt(users), sensitivity=SENSITIVITY, users=users, epsilon=epsilon
    )
    assert less > delta  # 20 % less noise is seen


def test_the_claim_holds_for_two_users_by_quadrature() -> None:
    shift, step = 1.25, 0.02
    y = np.arange(-8, 9.5, step)
    single = [np.exp(-((y - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0.0, shift)]
    q = np.outer(single[0], single[0]) * step**2  # both at 0; p: one of the two at `shift`, in either place
    p = (np.outer(single[1], single[0]) + np.outer(single[0], single[1])) / 2 * step**2
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        claim = shuffled_gaussian.shuffled_gaussian_delta(std=1.0, sensitivity=shift, users=2, epsilon=epsilon)
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= claim + 1e-6


def test_a_single_user_is_the_local_mechanism() -> None:
    for epsilon in (0.0, 0.3, 2.0):
        value = shuffled_gaussian.shuffled_gaussian_delta(std=1.7, sensitivity=2.0, users=1, epsilon=epsilon)
        assert value == float(gdp.delta(epsilon, 2.0 / 1.7))
    assert shuffled_gaussian.shuffled_gaussian_epsilon(std=1.7, sensitivity=2.0, users=1, delta=1e-5) == gdp.epsilon(
        1e-5, 2.0 / 1.7
    )
    std = shuffled_gaussian.shuffled_gaussian_std(sensitivity=2.0, users=1, epsilon=1.0, delta=1e-5)
    assert std == pytest.approx(2.0 / gdp.mu(1.0, 1e-5), rel=1e-12)


OFTEN = {(0.01, 1e-2, 2), (20.0, 1e-12, 200), (0.01, 1e-2, 10**6)}


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [
        pytest.param(*case, marks=() if case in OFTEN else pytest.mark.full)
        for case in itertools.product([0.01, 1.0, 5.0, 20.0], [1e-2, 1e-12], [2, 200, 10**6])
    ],
)
def test_std_lies_between_central_and_local_and_meets_the_budget(epsilon: float, delta: float, users: int) -> None:
    std = shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=delta)
    local = 1.0 / gdp.mu(epsilon, delta)
    assert local / math.sqrt(users) < std <= local * (1 + 1e-12)
    achieved = shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)
    assert delta * 0.998 < achieved <= delta
    back = shuffled_gaussian.shuffled_gaussian_epsilon(std=std, sensitivity=1.0, users=users, delta=delta)
    assert back <= epsilon * (1 + 1e-11)  # less where the bound is flat in epsilon
    assert (
        shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=back) <= delta * 1.0001
    )


def test_amplification_is_found_where_the_bound_rises_with_epsilon() -> None:
    case = {"std": 0.97, "sensitivity": 1.0, "users": 10**6}
    deltas = [shuffled_gaussian.shuffled_gaussian_delta(**case, epsilon=e) for e in (3.0, 4.5, 5.5, 7.0)]
    assert all(later <= earlier * (1 + 1e-4) for earlier, later in itertools.pairwise(deltas))
    assert shuffled_gaussian.shuffled_gaussian_epsilon(**case, delta=2e-12) < 3.0  # without a shuffle 7.4
    assert gdp.epsilon(2e-12, 1 / 0.97) > 7.0


scales = st.floats(math.log(0.05), math.log(300.0)).map(math.exp)
epsilons = st.floats(math.log(0.01), math.log(20.0)).map(math.exp)
sizes = st.integers(2, 20_000)


@examples(5, full=15)
@given(scales, sizes, epsilons, st.floats(1.01, 3.0))
def test_delta_falls_with_std_and_epsilon(std: float, users: int, epsilon: float, factor: float) -> None:

    def delta(std: float, epsilon: float) -> float:
        return shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)

    here = delta(std, epsilon)
    slack = 1 + 1e-4  # the searches over eps0 and epsilon'
    assert delta(std * factor, epsilon) <= here * slack
    assert delta(std, epsilon * factor) <= here * slack
    assert float(gdp.delta(epsilon, 1 / (std * math.sqrt(users)))) <= here * (1 + 1e-9)
    assert here <= float(gdp.delta(epsilon, 1 / std))


@examples(2, full=3)
@given(st.integers(2, 3000), epsilons, st.floats(-11.0, -1.0).map(lambda x: 10**x), st.integers(2, 20))
def test_std_falls_with_users_and_epsilon(users: int, epsilon: float, delta: float, factor: int) -> None:

    def std(users: int, epsilon: float) -> float:
        return shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=delta)

    here = std(users, epsilon)
    assert std(users * factor, epsilon) <= here * (1 + 2e-5)
    assert std(users, epsilon * factor) <= here * (1 + 2e-5)


@pytest.mark.parametrize("users", [2, 7, 10**6])
@pytest.mark.parametrize("std", [1e-6, 0.1, 1.0, 1e6])
@pytest.mark.often(when=lambda std, users: (std, users) in ((1e-6, 2), (1.0, 10**6), (1e6, 2)))
def test_extreme_arguments_give_numbers_without_warnings(users: int, std: float) -> None:
    for epsilon in (0.0, 1e-6, 0.01, 20.0, 99.0, 101.0, 600.0):
        value = shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)
        assert 0.0 <= value <= 1.0
    for delta in (1e-12, 0.5):
        answer = shuffled_gaussian.shuffled_gaussian_epsilon(std=std, sensitivity=1.0, users=users, delta=delta)
        assert answer >= 0.0
        assert shuffled_gaussian.shuffled_gaussian_std(sensitivity=std, users=users, epsilon=500.0, delta=delta) > 0.0


@pytest.mark.parametrize(
    ("users", "times"),
    [pytest.param(20, 3, marks=pytest.mark.full), (2000, 10), pytest.param(10**5, 100, marks=pytest.mark.full)],
)
def test_composed_std_meets_its_budget_between_central_and_local(users: int, times: int) -> None:
    case = {"sensitivity": 2.0, "users": users, "times": times}
    std = shuffled_gaussian.shuffled_gaussian_std(**case, epsilon=1.0, delta=1e-5)
    local = 2.0 * math.sqrt(times) / gdp.mu(1.0, 1e-5)
    assert local / math.sqrt(users) < std <= local * (1 + 1e-12)
    achieved = shuffled_gaussian.shuffled_gaussian_delta(**case, std=std, epsilon=1.0)
    assert 0.99e-5 < achieved <= 1e-5
    assert shuffled_gaussian.shuffled_gaussian_epsilon(**case, std=std, delta=1e-5) <= 1.0 + 1e-11
    assert shuffled_gaussian.shuffled_gaussian_delta(**case, std=0.8 * std, epsilon=1.0) > 1e-5
    assert std > shuffled_gaussian.shuffled_gaussian_std(sensitivity=2.0, users=users, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("users", "times", "delta", "std"),
    [(200, 2, 1.7981759882610726e-06, 0.7750285920949546), (200, 1, 1e-5, 1.0), (10**6, 1, 1e-12, 0.83728737279)],
)
def test_an_epsilon_is_one_that_delta_proves(users: int, times: int, delta: float, std: float) -> None:
    given = {"std": std, "sensitivity": 1.0, "users": users, "times": times}
    found = shuffled_gaussian.shuffled_gaussian_epsilon(**given, delta=delta)
    assert shuffled_gaussian.shuffled_gaussian_delta(**given, epsilon=found) <= delta
    assert shuffled_gaussian.shuffled_gaussian_delta(**given, epsilon=found * (1 - 2e-5)) > delta


def test_bad_input_is_refused_by_name() -> None:
    good = {"sensitivity": 1.0, "users": 10, "epsilon": 1.0, "delta": 1e-5}
    for name, value in [("sensitivity", 0.0), ("users", 0), ("users", 2.5), ("epsilon", 0.0), ("delta", 1.0)]:
        with pytest.raises(InvalidArgument, match=name):
            shuffled_gaussian.shuffled_gaussian_std(**good | {name: value})
    with pytest.raises(InvalidBudget, match="delta"):
        shuffled_gaussian.shuffled_gaussian_std(**good | {"delta": 0.0})
    with pytest.raises(InvalidArgument, match="std"):
        shuffled_gaussian.shuffled_gaussian_delta(std=math.nan, sensitivity=1.0, users=10, epsilon=1.0)
    with pytest.raises(InvalidArgument, match="times"):
        shuffled_gaussian.shuffled_gaussian_epsilon(std=1.0, sensitivity=1.0, users=10, times=0, delta=1e-5)
