"""The accountant against privacy loss distributions of the laws that really ran, and against explicit matrices."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bandanna.errors import InvalidBudget, UnknownEvent
from bandanna.privacy import accountant, gdp, prices
from bandanna.privacy.accountant import Accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import (
    BinomialEvent,
    ClearEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NothingEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.privacy.factorisation import BinaryTree
from bandanna.privacy.prices import fine_grid, gaussian_price

Floats = NDArray[np.float64]
STEP = 1e-3


def binomial_total(trials: int, probability: float, value: float, size: int) -> Floats:
    """Law of floor(value + U) + Bin(trials, probability) on 0..size-1: what the analyzer sees of one coordinate."""
    low = math.floor(value)
    mass, law = stats.binom.pmf(np.arange(trials + 1), trials, probability), np.zeros(size)
    law[low : low + trials + 1] += (1 - (value - low)) * mass
    law[low + 1 : low + trials + 2] += (value - low) * mass
    return law


def discrete_gaussian(std: float, shift: int, reach: int) -> Floats:
    """Law of shift + discrete Gaussian on -reach..reach."""
    weights = np.exp(-0.5 * ((np.arange(-reach, reach + 1) - shift) / std) ** 2)
    return np.asarray(weights / weights.sum())


def losses(p: Floats, q: Floats) -> tuple[Any, Any]:
    """dp-accounting's loss distributions of a pair, from below and from above (both directions: `symmetric` off).

    Outcomes that one of the laws gives less than 1e-18 are left out: the true divergence is larger by next to nothing.
    """
    kept = np.flatnonzero((p > 1e-18) & (q > 1e-18))
    tables = [dict(zip(kept.tolist(), np.log(law[kept]).tolist(), strict=True)) for law in (q, p)]
    below, above = (
        pld.from_two_probability_mass_functions(
            *tables, pessimistic_estimate=pessimistic, value_discretization_interval=STEP, symmetric=False
        )
        for pessimistic in (False, True)
    )
    return below, above


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """The larger direction of sum (p - e^epsilon q)+."""
    e = math.exp(epsilon)
    return max(float(np.maximum(p - e * q, 0).sum()), float(np.maximum(q - e * p, 0).sum()))


def repeated(event: Event, times: int) -> Event:
    return RepetitionEvent(event=event, times=times)


# Binomial noise


OFTEN = [(200, 1, 0.25), (200, 20, 0.5), (1000, 5, 0.5), (1000, 20, 0.25)]


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize("shift", [1, 5, 20])
@pytest.mark.parametrize("trials", [200, 1000])
@pytest.mark.often(when=lambda trials, shift, probability: (trials, shift, probability) in OFTEN)
def test_integers_with_binomial_noise_cost_what_is_stated(trials: int, shift: int, probability: float) -> None:
    event = BinomialEvent(trials=trials, shift=shift, reach=shift, probability=probability, rounded=False)
    size = trials + shift + 2
    p, q = (binomial_total(trials, probability, value, size) for value in (shift, 0))
    below, above = losses(p, q)
    for times in (1, 3):
        least, most = below.self_compose(times), above.self_compose(times)
        for epsilon in (0.1, 0.5, 1.5, 4.0):
            stated = accountant.delta(repeated(event, times), epsilon)
            assert least.get_delta_for_epsilon(epsilon) <= stated * (1 + 1e-9) + 3e-15  # its truncation
            assert times > 1 or hockey_stick(p, q, epsilon) <= stated * (1 + 1e-12) + 1e-16
            upper = most.get_delta_for_epsilon(epsilon)
            if probability == 0.5 and trials == 1000 and upper > 1e-5:
                assert stated <= 1.25 * upper


VALUES = [(0.0, 3.5), (0.3, 6.8), (0.5, 20.5), (2.9, 3.2), (0.25, 11.0)]


@pytest.mark.parametrize(("first", "second"), VALUES)
@pytest.mark.often(when=lambda first, probability: first == 0.5 or first == (0.0 if probability == 0.5 else 2.9))
@pytest.mark.parametrize("probability", [0.5, 0.25])
def test_rounded_values_with_binomial_noise_cost_what_is_stated(
    first: float, second: float, probability: float
) -> None:
    trials = 400
    shift = second - first
    event = BinomialEvent(trials=trials, shift=shift, reach=math.ceil(shift), probability=probability)
    p, q = (binomial_total(trials, probability, value, trials + 30) for value in (second, first))
    below, _ = losses(p, q)
    for times in (1, 4):
        least = below.self_compose(times)
        for epsilon in (0.05, 0.3, 1.0, 3.0):
            stated = accountant.delta(repeated(event, times), epsilon)
            assert least.get_delta_for_epsilon(epsilon) <= stated + 5e-15  # its truncation
            assert times > 1 or hockey_stick(p, q, epsilon) <= stated + 1e-16


@pytest.mark.parametrize(
    ("trials", "values", "epsilon", "times"),
    [
        (1600, (0.0, 20.0), 1.0, 1),
        (1600, (0.0, 12.0), 0.5, 3),
        (1600, (0.5, 30.5), 2.0, 1),  # rounded: the bound for one release
        (40_000, (0.5, 200.5), 3.0, 3),  # rounded: the composable one, tight on a fine lattice
    ],
)
def test_too_little_binomial_noise_is_noticed(
    trials: int, values: tuple[float, float], epsilon: float, times: int
) -> None:
    first, second = values
    shift = int(second - first)
    event = BinomialEvent(trials=trials, shift=shift, reach=shift, rounded=first != int(first))
    stated = accountant.delta(repeated(event, times), epsilon)
    for coins, private in ((trials, True), (round(0.64 * trials), False)):
        below, _ = losses(*(binomial_total(coins, 0.5, value, trials + shift + 2) for value in (second, first)))
        truth = float(below.self_compose(times).get_delta_for_epsilon(epsilon))
        assert (truth <= stated) == private


def test_a_change_over_two_rounded_coordinates_costs_what_is_stated() -> None:
    trials, first, second = 250, (0.2, 0.7), (4.6, 3.9)
    shift = math.dist(first, second)
    event = BinomialEvent(trials=trials, shift=shift, reach=5, dim=2)
    p, q = (
        np.multiply.outer(*(binomial_total(trials, 0.5, x, trials + 8) for x in point)).ravel()
        for point in (second, first)
    )
    for epsilon in (0.05, 0.3, 1.0, 2.0):
        truth = hockey_stick(p, q, epsilon)
        assert truth <= accountant.delta(event, epsilon)
        if epsilon <= 0.3:
            assert truth >= 0.8 * accountant.delta(event, epsilon)


def test_single_release_bound_is_not_composed() -> None:
    event = BinomialEvent(trials=4000, shift=23.3, reach=22, dim=20)
    one, two = accountant.epsilon(event, 1e-5), accountant.epsilon(repeated(event, 2), 1e-5)
    composed = accountant.price(event, accountant.tail_for(1e-5, two))
    assert one < composed.epsilon(1e-5)
    assert two >= composed.repeated(2).epsilon(1e-5) * (1 - 1e-3)


def test_too_few_coins_give_nothing() -> None:
    event = BinomialEvent(trials=10, shift=30.0, reach=30)
    assert accountant.delta(event, 5.0) == 1.0
    assert accountant.epsilon(event, 1e-3) == math.inf
    assert accountant.delta(repeated(event, 2), 5.0) == 1.0
    assert accountant.delta(BinomialEvent(trials=1, shift=1.0, reach=1), 5.0) == 1.0
    wide = BinomialEvent(trials=900, shift=400.0, reach=400)  # Theorem A needs reach <= hi - lo, here about 135
    assert gaussian_price(wide, 1e-5).mu == math.inf
    assert gaussian_price(BinomialEvent(trials=900, shift=400.0, reach=100), 1e-5).mu < math.inf


# Gaussian noise and mixtures


def test_gaussian_and_binomial_releases_compose_as_convolved_losses() -> None:
    trials, shift = 900, 10
    binomial = BinomialEvent(trials=trials, shift=shift, reach=shift, rounded=False)
    gaussian = GaussianEvent(std=2.0, sensitivity=1.5)
    both = CompositionEvent(events=(gaussian, repeated(binomial, 2)))
    below, above = losses(*(binomial_total(trials, 0.5, value, trials + shift + 2) for value in (shift, 0)))
    exact = pld.from_gaussian_mechanism(
        2.0, sensitivity=1.5, pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=STEP
    )
    lower = exact.compose(below.self_compose(2))
    upper = pld.from_gaussian_mechanism(2.0, sensitivity=1.5, value_discretization_interval=STEP).compose(
        above.self_compose(2)
    )
    for epsilon in (0.3, 1.0, 2.5, 5.0):
        stated = accountant.delta(both, epsilon)
        assert lower.get_delta_for_epsilon(epsilon) <= stated <= 1.4 * upper.get_delta_for_epsilon(epsilon) + 1e-9


@settings(max_examples=40)
@given(st.lists(st.floats(0.3, 20.0), min_size=1, max_size=5), st.floats(1e-10, 0.3))
def test_gaussian_releases_compose_by_added_squares(stds: list[float], delta: float) -> None:
    event = CompositionEvent(events=tuple(GaussianEvent(std=std, sensitivity=1.0) for std in stds))
    mu = math.sqrt(math.fsum(std**-2 for std in stds))
    assert accountant.epsilon(event, delta) == pytest.approx(gdp.epsilon(delta, mu), rel=1e-8, abs=1e-12)
    assert accountant.delta(event, 1.0) == pytest.approx(float(gdp.delta(1.0, mu)), rel=1e-9)


@pytest.mark.parametrize(("std", "shift"), [(3.0, 2), (8.0, 5), (1.2, 1)])
def test_discrete_gaussian_noise_costs_what_is_stated_and_a_fifth_less_costs_more(std: float, shift: int) -> None:
    event = DiscreteGaussianEvent(std=std, shift=shift)
    reach = math.ceil(12 * std) + shift
    lower, upper = losses(discrete_gaussian(std, shift, reach), discrete_gaussian(std, 0, reach))
    smaller, _ = losses(discrete_gaussian(0.8 * std, shift, reach), discrete_gaussian(0.8 * std, 0, reach))
    theirs = pld.from_discrete_gaussian_mechanism(std, sensitivity=shift, value_discretization_interval=STEP)
    for times in (1, 4):
        least, most, less = lower.self_compose(times), upper.self_compose(times), smaller.self_compose(times)
        for epsilon in (0.3, 1.0, 2.0):
            stated = accountant.delta(repeated(event, times), epsilon)
            assert least.get_delta_for_epsilon(epsilon) <= stated
            assert theirs.get_delta_for_epsilon(epsilon) <= stated * (1 + 2e-2) or std < 2
            if std > 2 and stated > 1e-6:
                assert stated <= 1.35 * most.get_delta_for_epsilon(epsilon)
                assert less.get_delta_for_epsilon(epsilon) > stated


def test_discrete_gaussian_noise_in_two_coordinates_is_priced_by_the_l2_norm() -> None:
    laws = [[discrete_gaussian(3.0, s, 45) for s in point] for point in ((2, -3), (0, 0))]
    p, q = (np.multiply.outer(*pair).ravel() for pair in laws)
    event = DiscreteGaussianEvent(std=3.0, shift=math.sqrt(13), dim=2)
    for epsilon in (0.2, 1.0, 3.0):
        truth = hockey_stick(p, q, epsilon)
        assert truth <= accountant.delta(event, epsilon) <= 1.1 * truth


@pytest.mark.parametrize(
    ("std", "sensitivity", "dim"), [(1.0, 1.0, 1), (4.0, 2.1, 20), (0.3, 1.0, 135), (1e3, 1.0, 1325)]
)
def test_fine_grid_costs_next_to_nothing(std: float, sensitivity: float, dim: int) -> None:
    ideal = GaussianEvent(std=std, sensitivity=sensitivity, dim=dim)
    secure = GaussianEvent(std=std, sensitivity=sensitivity, dim=dim, grid=fine_grid(std, sensitivity, dim))
    for delta in (1e-5, 1e-12):
        free = accountant.epsilon(ideal, delta)
        assert free <= accountant.epsilon(secure, delta) <= free * (1 + 1e-4)
    assert accountant.rho(ideal) <= accountant.rho(secure) <= accountant.rho(ideal) * (1 + 2e-4)


def test_rounding_to_a_coarse_grid_is_charged() -> None:
    std, sensitivity, grid = 2.0, 1.2, 0.5
    event = GaussianEvent(std=std, sensitivity=sensitivity, grid=grid)
    steps = math.floor(sensitivity / grid) + 1  # 0.3 -> 1 (0.5), -0.9 -> -2 (-1.0): three steps
    assert round(0.3 / grid) - round((0.3 - sensitivity) / grid) == steps
    reach = 60
    p, q = discrete_gaussian(std / grid, steps, reach), discrete_gaussian(std / grid, 0, reach)
    for epsilon in (0.2, 1.0, 2.0):
        assert hockey_stick(p, q, epsilon) <= accountant.delta(event, epsilon)
        ideal = accountant.delta(GaussianEvent(std=std, sensitivity=sensitivity), epsilon)
        assert hockey_stick(p, q, epsilon) > ideal


# Laplace noise


def answers(epsilon: float) -> float:
    """The relative entropy of randomized response: the zCDP of anything with that epsilon (proofs.md F)."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return (2 * p - 1) * epsilon


def test_pure_releases_have_a_pure_price() -> None:
    laplace, discrete = LaplaceEvent(scale=4.0, sensitivity=1.0, dim=2), DiscreteLaplaceEvent(scale=8.0, shift=2.0)
    both = CompositionEvent(events=(repeated(laplace, 6), discrete))
    assert accountant.epsilon(both, 0.0) == pytest.approx(6 / 4 + 2 / 8)
    assert accountant.epsilon(laplace, 1e-9) <= 0.25
    assert accountant.epsilon(both, 1e-2) < 1.5


# Shuffled reports


def test_shuffled_reports_beside_another_release_are_no_dearer_than_without_a_shuffler() -> None:
    shuffled = ShuffledGaussianEvent(std=3.0, sensitivity=1.0, users=1000)
    other = GaussianEvent(std=5.0, sensitivity=1.0)
    both = CompositionEvent(events=(shuffled, other))
    stated = accountant.delta(both, 0.5)
    assert float(gdp.delta(0.5, 1 / 5)) <= stated <= float(gdp.delta(0.5, math.hypot(1 / 3, 1 / 5)))
    few = CompositionEvent(events=(ShuffledGaussianEvent(std=1.0, sensitivity=1.0, users=2), other))
    assert accountant.delta(few, 3.0) == pytest.approx(float(gdp.delta(3.0, math.hypot(1.0, 1 / 5))), rel=1e-6)


# Continual release


def dyadic_rows(horizon: int) -> NDArray[np.int64]:
    """C of the binary tree: one row for each complete dyadic block."""
    rows = []
    for level in range(horizon.bit_length()):
        for start in range(0, horizon - 2**level + 1, 2**level):
            row = np.zeros(horizon, dtype=np.int64)
            row[start : start + 2**level] = 1
            rows.append(row)
    return np.asarray(rows)


@pytest.mark.parametrize("horizon", [1, 5, 8, 11])
@pytest.mark.parametrize("participations", [1, 2, 3])
def test_a_continual_release_is_priced_as_its_explicit_matrix(horizon: int, participations: int) -> None:
    if participations > horizon:
        participations = horizon
    matrix, std, sensitivity = dyadic_rows(horizon), 3.0, 0.7
    event = ContinualEvent(
        factorisation=BinaryTree(horizon=horizon),
        std=std,
        sensitivity=sensitivity,
        participations=participations,
        dim=2,
    )
    moves = [matrix[:, list(chosen)].sum(axis=1) for chosen in itertools.combinations(range(horizon), participations)]
    worst = max(float(np.linalg.norm(move)) for move in moves) * sensitivity
    stated = accountant.epsilon(event, 1e-5)
    assert stated >= gdp.epsilon(1e-5, worst / std) * (1 - 1e-9)
    assert stated == pytest.approx(gdp.epsilon(1e-5, worst / std), rel=1e-8)
    assert gdp.epsilon(1e-5, worst / (0.8 * std)) > 1.1 * stated  # 20 % less noise
    assert accountant.rho(event) == pytest.approx((worst / std) ** 2 / 2)
    touched = max(int(np.count_nonzero(move)) for move in moves) * event.dim
    grid = 0.05
    on_grid = ContinualEvent(**{**vars(event), "grid": grid})
    assert accountant.rho(on_grid) >= (worst + grid * math.sqrt(touched)) ** 2 / (2 * std**2) * (1 - 1e-12)
    assert accountant.epsilon(on_grid, 1e-5) >= gdp.epsilon(1e-5, (worst + grid * math.sqrt(touched)) / std)


# Composition, budgets, refusals


@dataclass(frozen=True)
class Guess(Event):
    """An event that nobody taught the accountant."""


def test_unknown_events_are_refused() -> None:
    for event in (
        Guess(),
        CompositionEvent(events=(GaussianEvent(std=1.0, sensitivity=1.0), Guess())),
        repeated(repeated(Guess(), 2), 3),
    ):
        for price in (
            lambda e: accountant.delta(e, 1.0),
            lambda e: accountant.epsilon(e, 1e-5),
            lambda e: accountant.epsilon(e, 0.0),
            accountant.rho,
            lambda e: accountant.satisfies(e, ApproxDP(epsilon=1.0, delta=1e-5)),
            lambda e: accountant.satisfies(e, ZCDP(rho=1.0)),
        ):
            with pytest.raises(UnknownEvent, match="Guess"):
                price(event)


def test_budgets_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(UnknownEvent, match="Budget"):
        accountant.satisfies(NothingEvent(), Budget())


def test_clear_data_has_no_guarantee() -> None:
    for event in (ClearEvent(), CompositionEvent(events=(ClearEvent(), GaussianEvent(std=9.0, sensitivity=1.0)))):
        assert accountant.delta(event, 50.0) == 1.0
        assert accountant.epsilon(event, 1e-2) == math.inf
        assert accountant.epsilon(event, 0.0) == math.inf
        assert accountant.rho(event) == math.inf
        for budget in (ApproxDP(epsilon=99.0, delta=0.9), PureDP(epsilon=1e6), ZCDP(rho=1e6)):
            assert not accountant.satisfies(event, budget)
        assert accountant.satisfies(event, ApproxDP(epsilon=math.inf, delta=0.0))
    beside = CompositionEvent(events=(ClearEvent(), LaplaceEvent(scale=9.0, sensitivity=1.0)))
    assert accountant.delta(beside, 5.0) == 1.0


def test_an_empty_account_costs_nothing() -> None:
    for event in (NothingEvent(), CompositionEvent(events=()), repeated(NothingEvent(), 9)):
        assert accountant.delta(event, 1e-9) == 0.0
        assert accountant.epsilon(event, 1e-9) == 0.0
        assert accountant.epsilon(event, 0.0) == 0.0
        assert accountant.rho(event) == 0.0
        assert accountant.satisfies(event, PureDP(epsilon=1e-9))
    assert Accountant().epsilon(1e-5) == 0.0


def test_nested_compositions_keep_every_release() -> None:
    a, b = GaussianEvent(std=2.0, sensitivity=1.0), LaplaceEvent(scale=3.0, sensitivity=1.0)
    nested = CompositionEvent(events=(repeated(CompositionEvent(events=(a, repeated(b, 2))), 3), a, NothingEvent()))
    assert accountant.count_atoms(nested) == {a: 4, b: 6}
    account = Accountant().compose(a).compose(b, times=6).compose(a, 3)
    assert accountant.count_atoms(account.event) == {a: 4, b: 6}
    assert account.rho() == accountant.rho(nested) == pytest.approx(4 / 8 + 6 * answers(1 / 3))
    again = Accountant().compose(repeated(a, 4)).compose(NothingEvent(), 3)
    assert again.delta(2.0) == pytest.approx(float(gdp.delta(2.0, 1.0)), rel=1e-9)


EVENTS = {
    "Gaussian": GaussianEvent(std=1.7, sensitivity=1.0),
    "grid": GaussianEvent(std=1.7, sensitivity=1.0, dim=3, grid=1.7 / 2**16),
    "discrete Gaussian": DiscreteGaussianEvent(std=6.0, shift=4.0, dim=2),
    "binomial": BinomialEvent(trials=3000, shift=20.0, reach=20, dim=5),
    "binomial twice": repeated(BinomialEvent(trials=3000, shift=20.0, reach=20, dim=5), 2),
    "Laplace": LaplaceEvent(scale=2.0, sensitivity=1.0),
    "tree": ContinualEvent(factorisation=BinaryTree(horizon=100), std=5.0, sensitivity=1.0),
    "mixture": CompositionEvent(
        events=(GaussianEvent(std=2.0, sensitivity=1.0), BinomialEvent(trials=900, shift=8.0, reach=8))
    ),
}


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_epsilon_and_delta_are_inverse(name: str, delta: float) -> None:
    event = EVENTS[name]
    epsilon = accountant.epsilon(event, delta)
    assert 0 < epsilon < math.inf
    assert accountant.satisfies(event, ApproxDP(epsilon=epsilon * (1 + 1e-4), delta=delta))
    assert not accountant.satisfies(event, ApproxDP(epsilon=0.99 * epsilon, delta=delta))
    assert accountant.delta(event, epsilon) <= delta * 1.001
    assert accountant.delta(event, 0.9 * epsilon) > delta


@pytest.mark.parametrize("name", EVENTS)
def test_delta_rises_with_repetitions_and_falls_with_epsilon(name: str) -> None:
    event = EVENTS[name]
    ladder = [accountant.delta(event, epsilon) for epsilon in (0.2, 0.5, 1.0, 2.0)]
    assert ladder == sorted(ladder, reverse=True)
    assert accountant.delta(repeated(event, 2), 0.5) > ladder[1]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.5, 20.0), st.integers(1, 4)), min_size=1, max_size=4))
def test_rho_of_a_composition_is_the_sum_of_the_parts(parts: list[tuple[float, int]]) -> None:
    account, total = Accountant(), 0.0
    for std, times in parts:
        account = account.compose(GaussianEvent(std=std, sensitivity=1.0), times)
        account = account.compose(DiscreteGaussianEvent(std=std, shift=2.0), times)
        account = account.compose(LaplaceEvent(scale=std, sensitivity=1.0), times)
        total += times * ((1 + 4) / (2 * std**2) + answers(1 / std))
    assert account.rho() == pytest.approx(total, rel=1e-12)


def test_binomial_noise_is_not_concentrated() -> None:
    event = BinomialEvent(trials=500, shift=1.0, reach=1)
    assert accountant.rho(event) == math.inf
    assert accountant.epsilon(event, 0.0) == math.inf
    assert not accountant.satisfies(event, ZCDP(rho=1e9))
    shuffled = ShuffledGaussianEvent(std=2.0, sensitivity=1.0, users=50)
    assert accountant.rho(shuffled) == pytest.approx(1 / 8)


def test_all_budgets_are_decided_at_their_edge() -> None:
    gaussian = GaussianEvent(std=2.0, sensitivity=1.0)  # mu = 1/2, rho = 1/8
    laplace = LaplaceEvent(scale=2.0, sensitivity=1.0)  # pure 1/2
    epsilon = gdp.epsilon(1e-5, 0.5)
    kept = [
        (gaussian, ApproxDP(epsilon=epsilon, delta=1e-5)),
        (gaussian, ZCDP(rho=0.125)),
        (gaussian, RenyiDP(alpha=4.0, epsilon=0.5)),
        (laplace, PureDP(epsilon=0.5)),
        (laplace, ApproxDP(epsilon=0.5, delta=0.0)),
        (laplace, ZCDP(rho=0.125)),
    ]
    broken = [
        (gaussian, ApproxDP(epsilon=0.999 * epsilon, delta=1e-5)),
        (gaussian, ZCDP(rho=0.1249)),
        (gaussian, RenyiDP(alpha=4.0, epsilon=0.499)),
        (gaussian, PureDP(epsilon=1e3)),
        (gaussian, ApproxDP(epsilon=1e3, delta=0.0)),
        (laplace, PureDP(epsilon=0.499)),
        (laplace, ApproxDP(epsilon=0.499, delta=0.0)),
    ]
    for event, budget in kept:
        assert accountant.satisfies(event, budget), (event, budget)
        assert Accountant(event=event).satisfies(budget)
        less = (
            GaussianEvent(std=1.6, sensitivity=1.0) if event is gaussian else LaplaceEvent(scale=1.6, sensitivity=1.0)
        )
        assert not accountant.satisfies(less, budget)  # noise 20 % smaller
    for event, budget in broken:
        assert not accountant.satisfies(event, budget), (event, budget)


def test_a_meaningless_epsilon_or_delta_is_refused() -> None:
    event = GaussianEvent(std=1.0, sensitivity=1.0)
    for epsilon in (0.0, -1.0, math.nan, True, None):
        with pytest.raises(InvalidBudget, match="epsilon"):
            accountant.delta(event, epsilon)
    for delta in (1.0, -0.1, math.nan, True, None):
        with pytest.raises(InvalidBudget, match="delta"):
            accountant.epsilon(event, delta)
    assert accountant.delta(event, math.inf) == 0.0


def test_every_coordinate_brings_its_tail() -> None:
    tail, shape = 1e-3, {"trials": 40_000, "shift": 20.0, "reach": 20, "dim": 50}
    cut, half = 4.25, 4.5  # Phi(-4.25) is just below tail / 50, Phi(-4.5) below half of that
    whole = gaussian_price(BinomialEvent(**shape, rounded=False), tail)
    assert whole.tail == pytest.approx(50 * prices.binomial_price(40_000, 0.5, cut).tail)
    rounded = gaussian_price(BinomialEvent(**shape), tail)
    assert rounded.tail == pytest.approx(tail / 2 + 50 * prices.binomial_price(40_000, 0.5, half).tail)
    discrete = gaussian_price(DiscreteGaussianEvent(std=400.0, shift=20.0, dim=50), tail)
    assert discrete.tail == pytest.approx(50 * prices.discrete_gaussian_price(400.0, cut).tail)
