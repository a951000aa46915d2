"""Factors of prices and searches, by hand: `make mutants` found that no quick test noticed their loss."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from bandanna.errors import BudgetExceeded, InvalidBudget
from bandanna.numeric import search
from bandanna.privacy import accountant, amplification, calibration, gdp, prices, shuffled_gaussian
from bandanna.privacy.amplification import (
    LossDistribution,
    composed_blanket,
    stop_loss,
)
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.calibration import (
    BinomialNoise,
    binomial_noise,
    binomial_noise_for_std,
    bit_noise,
    bit_noise_for_std,
    bit_std,
    continual_std,
    gaussian_std,
    laplace_scale,
    likely_coins,
    refusal_tail,
    subtract_refusals,
)
from bandanna.privacy.events import (
    BinomialEvent,
    CapEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RecordEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.prices import (
    binomial_unit,
    composable_shift,
    compute_unrounded_share,
    concentrated_price,
    expected_delta,
    fine_grid,
    gaussian_price,
    pure_price,
)
from bandanna.privacy.shuffled_gaussian import (
    ShuffledBatches,
    _minimize_unimodal,
    shuffled_gaussian_delta,
    shuffled_gaussian_epsilon,
    shuffled_gaussian_std,
)

TAIL = 1e-9


def test_a_grid_costs_a_step_and_a_tail_in_every_coordinate() -> None:
    on_grid = GaussianEvent(std=8.0, sensitivity=2.0, dim=9, grid=0.5)
    integers = DiscreteGaussianEvent(std=16.0, shift=2.0 / 0.5 + math.sqrt(9), dim=9)
    assert gaussian_price(on_grid, TAIL) == gaussian_price(integers, TAIL)


@pytest.mark.parametrize("participations", [1, 2])
def test_a_stream_has_a_tail_in_every_number_that_a_user_touches(participations: int) -> None:
    tree = factorise("tree", horizon=8)
    stream = ContinualEvent(
        factorisation=tree, std=8.0, sensitivity=2.0, participations=participations, dim=3, grid=0.5
    )
    price = gaussian_price(stream, TAIL)
    touched = 3 * tree.releases(participations)
    unit = gaussian_price(DiscreteGaussianEvent(std=16.0, shift=1.0, dim=touched), TAIL)
    assert price.tail == unit.tail > 0
    assert price.mu > unit.mu * 2.0 / 0.5


def test_rounding_of_every_coordinate_is_in_the_price() -> None:
    plain, rounded = (
        BinomialEvent(trials=10**6, probability=0.5, shift=4.0, reach=5.0, dim=64, rounded=each)
        for each in (False, True)
    )
    ratio = gaussian_price(rounded, TAIL).mu / gaussian_price(plain, TAIL).mu
    assert ratio == pytest.approx(composable_shift(4.0, 64, TAIL / 2) / 4.0, rel=0.01)
    assert composable_shift(4.0, 64, TAIL / 2) > 1.2 * composable_shift(4.0, 1, TAIL / 2)


def mixtures_by_hand(users: int, mu: float, epsilon: float, tail: float) -> float:
    """delta of a shuffled Gaussian: a report among mixtures, at the local epsilon where others move by `tail`."""

    def moved(local: float) -> float:
        return (users - 1) * math.exp(-local) * float(gdp.delta(local, mu))

    local = optimize.brentq(lambda e: math.log(moved(e) / tail), 1e-3, 5.0)
    hidden = amplification.stop_loss(users=users, chance=math.exp(-local), mu=mu, epsilon=epsilon)
    return (1 + math.exp(epsilon)) * (hidden + tail)


def test_shuffled_reports_beside_others_are_a_report_among_mixtures() -> None:
    event = ShuffledGaussianEvent(std=4.0, sensitivity=1.0, users=1000)
    for epsilon, tail in ((0.05, 1e-8), (3.0, 1e-3)):
        by_hand = mixtures_by_hand(1000, 0.25, epsilon, tail)
        assert accountant.composed_delta(Counter({event: 1}), epsilon, tail) == pytest.approx(by_hand, rel=0.01)


def test_shuffled_reports_among_others_are_counted_as_often_as_they_are_made() -> None:
    one, other = (ShuffledGaussianEvent(std=std, sensitivity=1.0, users=1000) for std in (4.0, 4.0 + 1e-9))
    for epsilon, tail in ((0.05, 1e-8), (3.0, 1e-3)):
        twice = accountant.composed_delta(Counter({one: 2}), epsilon, tail)
        assert twice == pytest.approx(accountant.composed_delta(Counter({one: 1, other: 1}), epsilon, tail), rel=1e-5)
        assert twice > 0.999 * tail * (1 + math.exp(epsilon))


def test_pure_releases_are_free_only_below_their_sum() -> None:
    one, other = (LaplaceEvent(scale=scale, sensitivity=1.0) for scale in (1 / 0.6, 1 / 0.6 + 1e-9))
    for both in (RepetitionEvent(event=one, times=2), CompositionEvent(events=(one, other))):
        assert accountant.delta_near(both, 1.0, 1e-5) >= -math.expm1(1.0 - 1.2 + 1e-8) / 4
        assert accountant.delta_near(both, 1.2 + 1e-12, 1e-5) == 0.0


@pytest.mark.parametrize("times", [1, 3])
def test_shuffled_reports_alone_are_the_amplified_ones_and_their_tails(times: int) -> None:
    shape, epsilon = {"std": 8.0, "sensitivity": 2.0, "users": 200}, 0.5
    tail = 1e-13
    plain, tailed = (
        RepetitionEvent(event=ShuffledGaussianEvent(**shape, tail=each), times=times) for each in (0.0, tail)
    )
    amplified = shuffled_gaussian.shuffled_gaussian_delta(**shape, times=times, epsilon=epsilon)
    assert accountant.delta_near(plain, epsilon, 1e-5) == amplified
    beyond = times * 5 * 200 * tail * (1 + math.exp(epsilon))
    assert accountant.delta_near(tailed, epsilon, 1e-5) == pytest.approx(amplified + beyond, rel=1e-9)
    assert beyond > 0.01 * amplified


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("dim", [1, 50])
def test_one_binomial_release_pays_for_every_coordinate_and_tail(dim: int, rounded: bool) -> None:
    epsilon, tail, cost = 0.4, 1e-3, 1 + math.exp(0.4)
    shape = {"trials": 40_000, "shift": 20.0, "reach": 20, "dim": dim, "rounded": rounded}
    plain, refusing = (BinomialEvent(**shape, tail=beyond) for beyond in (0.0, 1e-4))
    unit = binomial_unit(plain, tail)
    assert unit is not None
    assert unit.tail > 1e-7
    if rounded:
        by_hand = expected_delta(epsilon, unit.mu, 20.0, dim) + dim * unit.tail * cost
    else:
        by_hand = float(gdp.delta(epsilon, unit.mu * 20.0)) + dim * unit.tail * cost
    if dim == 1 and not rounded:
        by_hand = prices.binomial_delta(40_000, 0.5, 20, epsilon)
    assert accountant.single_binomial_delta(plain, epsilon, tail) == pytest.approx(by_hand, rel=1e-9)
    assert accountant.single_binomial_delta(refusing, epsilon, tail) == pytest.approx(by_hand + 1e-4 * cost, rel=1e-9)


def test_the_spread_of_the_rounding_is_in_one_release() -> None:
    epsilon, unit, shift, dim = 1.0, gdp.mu(1.0, 1e-5), 1.0, 16
    mean, width, most = shift**2 + dim / 4, 2 * shift + math.sqrt(dim), (shift + math.sqrt(dim)) ** 2
    squares = np.linspace(most / 20_000, most, 20_000)
    log_delta = gdp.log_delta(epsilon, unit * np.sqrt(squares))
    lambdas = np.geomspace(1e-3, 300.0, 120) / mean
    least = min(float(np.max(log_delta - x * squares)) + x * mean + x * x * width**2 / 8 for x in lambdas)
    assert math.exp(least) * 0.999 <= expected_delta(epsilon, unit, shift, dim) <= math.exp(least) * 1.01


def test_gaussians_beside_pure_releases_are_counted_as_often_as_they_are_made() -> None:
    laplace = LaplaceEvent(scale=10.0, sensitivity=3.0, dim=2)
    often, once = (GaussianEvent(std=std, sensitivity=1.0) for std in (4.0, 2.0))
    four = accountant.composed_delta(Counter({laplace: 1, often: 4}), 1.0, 1e-10)
    assert four == pytest.approx(accountant.composed_delta(Counter({laplace: 1, once: 1}), 1.0, 1e-10), rel=1e-6)


def test_the_dearest_pure_batches_of_every_task_add_up() -> None:
    batches = Counter({LaplaceEvent(scale=scale, sensitivity=1.0): 1 for scale in (1.0, 2.0, 4.0)})
    assert accountant.compute_spent({"a": batches, "b": batches}, 2, 0.0) == pytest.approx(2 * 1.5)
    assert accountant.compute_spent({"a": batches}, 2, 1e-9) <= 1.5 * (1 + 1e-9)
    assert accountant.compute_spent({"a": batches}, 2, 1e-9) > 1.4


def test_the_search_for_mu_reaches_a_very_large_epsilon() -> None:
    assert float(gdp.log_delta(1e6, gdp.mu(1e6, 1e-5))) == pytest.approx(math.log(1e-5), rel=1e-6)


def test_far_terms_of_the_exact_profile_are_there_or_paid_for() -> None:
    trials, epsilon = 10_000, 0.26  # only counts more than 640 from the mean tell as much
    points = np.arange(-1.0, trials + 2.0)
    with np.errstate(invalid="ignore"):
        log_mass = special.gammaln(trials + 1) - special.gammaln(points + 1) - special.gammaln(trials - points + 1)
    mass = np.where((points >= 0) & (points <= trials), np.exp(log_mass - trials * math.log(2)), 0.0)
    whole = float(np.sum(np.maximum(mass[:-1] - math.exp(epsilon) * mass[1:], 0.0)))
    assert 1e-41 < whole <= prices.binomial_delta(trials, 0.5, 1, epsilon)
    assert prices.binomial_delta(10**6, 0.5, 1, 100.0) == pytest.approx(2 * math.exp(-98), abs=0.0)


@pytest.mark.parametrize("probability", [0.25, 0.75])
@pytest.mark.parametrize(("trials", "shift"), [(10, 1), (20, 10)])
def test_the_exact_profile_of_a_few_unfair_coins_is_the_enumerated_one(
    trials: int, shift: int, probability: float
) -> None:
    mass = {k: math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)}
    for epsilon in (0.5, 3.0):
        up, down = (
            sum(max(0.0, share - math.exp(epsilon) * mass.get(k + step, 0.0)) for k, share in mass.items())
            for step in (shift, -shift)
        )
        assert prices.binomial_delta(trials, probability, shift, epsilon) == pytest.approx(max(up, down), rel=1e-8)


def test_a_ledger_shows_the_expense_of_returning_users() -> None:
    batch, budget = GaussianEvent(std=4.0, sensitivity=1.0), ApproxDP(epsilon=1.4, delta=1e-5)
    ledger = Ledger(budget=budget, participations=2)
    for number in range(2):
        ledger.release(batch, task="t", batch=number, data=b"x", draw=lambda: 0.0)
    paid = accountant.epsilon(RepetitionEvent(event=batch, times=2), 1e-5)
    assert ledger.spent() == ledger.view().spent() == pytest.approx(paid, rel=1e-6)
    other = GaussianEvent(std=3.0, sensitivity=1.0)
    would = accountant.epsilon(RepetitionEvent(event=other, times=2), 1e-5)
    small = Ledger(budget=ApproxDP(epsilon=would * 0.999, delta=1e-5), participations=2)
    small.release(other, task="t", batch=0, data=b"x", draw=lambda: 0.0)
    with pytest.raises(BudgetExceeded, match=f"would bring epsilon to {would:.6g} "):
        small.release(other, task="t", batch=1, data=b"x", draw=lambda: 0.0)


def test_mirrored_coins_cost_the_same() -> None:
    one, other = (prices.binomial_price(1000, probability, 4.0) for probability in (0.1, 0.9))
    assert one.mu == pytest.approx(other.mu, rel=1e-9)
    assert one.tail == pytest.approx(other.tail, rel=1e-6)


@pytest.mark.parametrize("cosine", [0.0, 0.3, 0.8])
def test_caps_in_three_dimensions_have_the_moments_of_a_uniform_cosine(cosine: float) -> None:
    found = prices.cap_moments(3, cosine)
    assert found.mass == pytest.approx((1 - cosine) / 2)
    assert found.first == pytest.approx((1 - cosine**2) / 4)
    assert found.second == pytest.approx((1 - cosine**3) / 6)
    event = CapEvent(cosine=cosine, chance=0.7, candidates=3, dim=3)
    q = (1 - cosine) / 2
    inside = 0.7 * (1 - (1 - q) ** 3) + 0.3 * q**3
    mean_in, mean_out = (1 + cosine) / 2, (cosine - 1) / 2  # of a uniform law on [cosine, 1] and on [-1, cosine]
    assert prices.probability_inside(event) == pytest.approx(inside)
    assert prices.mean_cosine(event) == pytest.approx(inside * mean_in + (1 - inside) * mean_out)
    squares = ((1 + cosine + cosine**2) / 3, (1 - cosine + cosine**2) / 3)
    assert prices.mean_squared_cosine(event) == pytest.approx(inside * squares[0] + (1 - inside) * squares[1])


def test_candidates_on_a_grid_may_be_inside_a_little_more_often_and_less() -> None:
    event = CapEvent(cosine=0.3, chance=0.7, candidates=3, dim=3, steps=64)
    slack = 1.3 * math.sqrt(3) / 64
    length = special.gammainc  # of a Gaussian vector: its square is a Gamma(3/2)
    lengths = np.concatenate([[0.0], 2.0 ** np.arange(-40.0, 8.0, 0.125), [np.inf]])
    share = np.diff(length(1.5, lengths**2 / 2))
    with np.errstate(divide="ignore"):
        moved = slack / lengths[:-1]
    by_hand = [float(np.sum(share * (1 - np.clip(0.3 + sign * moved, -1, 1)) / 2)) for sign in (1, -1)]
    rare = 3 * 2.0**-64
    low, high = prices.bound_cap_mass(event)
    assert (low, high) == pytest.approx((by_hand[0] - rare, by_hand[1] + rare), rel=1e-10)
    assert low < 0.35 < high


def test_coordinates_that_steps_cut_off_are_in_the_mass_of_a_cap() -> None:
    low, high = prices.bound_cap_mass(CapEvent(cosine=0.3, chance=0.7, candidates=3, dim=1000, steps=2**22))
    assert low == 0.0
    assert high == pytest.approx(1000 * 2.0**-64, rel=1e-3, abs=0.0)


def test_a_batch_of_another_size_has_its_own_users() -> None:
    noise = BinomialNoise(scale=4.0, trials=9, users=10).for_users(40)
    assert (noise.users, noise.trials, noise.scale) == (40, 9, 4.0)
    assert noise.std() == pytest.approx(math.sqrt(40 * 9 / 4 + 40 / 4) / 4)


def calibrated(kind: str, budget: ApproxDP, participations: int) -> Event:
    """The least noise of a kind for a budget, on the grid that its mechanism uses."""
    shape, times = {"sensitivity": 2.0, "dim": 4}, {"participations": participations}
    if kind == "gaussian":
        std = gaussian_std(**shape, budget=budget, **times)
        one: Event = GaussianEvent(**shape, std=std, grid=fine_grid(std, 2.0, 4))
    elif kind == "laplace":
        std = laplace_scale(**shape, budget=PureDP(epsilon=budget.epsilon), **times)
        one = LaplaceEvent(**shape, scale=std, grid=fine_grid(std, 2.0, 16))
    else:
        tree = factorise("tree", horizon=8)
        std = continual_std(**shape, factorisation=tree, budget=budget, **times)
        grid = fine_grid(std, participations * 2.0 * tree.sensitivity(), 4 * tree.releases(participations))
        return ContinualEvent(**shape, **times, factorisation=tree, std=std, grid=grid)
    return RepetitionEvent(event=one, times=participations)


@pytest.mark.parametrize("participations", [1, 3])
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "continual"])
def test_noise_is_calibrated_for_the_grid_that_it_is_drawn_on(kind: str, participations: int) -> None:
    for step in range(9):
        budget = ApproxDP(epsilon=0.05 * 2 ** (-step / 9), delta=1e-5)
        event = calibrated(kind, budget, participations)
        assert accountant.satisfies(event, PureDP(epsilon=budget.epsilon) if kind == "laplace" else budget)


@pytest.mark.parametrize("rounded", [False, True])
def test_composed_counts_pay_for_shift_and_tail(rounded: bool) -> None:
    event = BinomialEvent(trials=40_000, shift=6.0, reach=20, dim=5, rounded=rounded, tail=1e-4)
    tail = 1e-2 / 2 if rounded else 1e-2
    unit = binomial_unit(event, tail)
    assert unit is not None
    shift = composable_shift(6.0, 5, tail) if rounded else 6.0
    found = gaussian_price(event, 1e-2)
    assert found.mu == pytest.approx(unit.mu * shift, rel=1e-12)
    assert found.tail == pytest.approx((tail if rounded else 0.0) + 5 * unit.tail + 1e-4, rel=1e-12)


def test_reports_without_a_shuffler_have_the_price_of_their_noise() -> None:
    price = gaussian_price(ShuffledGaussianEvent(std=4.0, sensitivity=2.0, users=10, tail=1e-9), TAIL)
    assert (price.mu, price.tail) == (0.5, 1e-9)


@pytest.mark.parametrize("probability", [0.25, 0.5])
def test_refused_counts_are_the_improbable_ones(probability: float) -> None:
    p, trials = Fraction(probability), 200
    mass = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    low, high = likely_coins(BinomialNoise(scale=1.0, trials=trials, users=2, probability=probability))
    assert sum(mass[:low]) <= Fraction(1, 2**61) < sum(mass[: low + 1])
    assert sum(mass[high + 1 :]) <= Fraction(1, 2**61) < sum(mass[high:])


def test_refusals_must_leave_half_of_the_delta() -> None:
    cost = (1 + math.e) * refusal_tail(16, 5)
    left = subtract_refusals(ApproxDP(epsilon=1.0, delta=2.1 * cost), 16, 5)
    assert isinstance(left, ApproxDP)
    assert left.delta == pytest.approx(1.1 * cost, rel=1e-6, abs=0.0)
    with pytest.raises(InvalidBudget, match="Refusing improbable counts"):
        subtract_refusals(ApproxDP(epsilon=1.0, delta=1.9 * cost), 16, 5)


def test_of_many_coins_no_more_than_the_improbable_counts_are_let_pass() -> None:
    low, high = likely_coins(BinomialNoise(scale=1.0, trials=10_000, users=2))
    assert special.bdtr(low - 1, 10_000, 0.5) <= 2.0**-61 < special.bdtr(low, 10_000, 0.5)
    assert high == 10_000 - low


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
    noise = binomial_noise_for_std(10.0, sensitivity=2.0, dim=dim, users=users, composed=composed)
    assert noise.scale == scale


def test_least_noise_lies_on_the_first_lattice() -> None:
    assert binomial_noise(sensitivity=2.0, reach=2.0, dim=400, users=64, budget=BUDGET).scale == 50


def test_copies_are_few_or_enough_for_one_coin_of_every_user() -> None:
    assert calibration._copies(10_000, 2.0) == [*range(1, 9), *range(25, 25 * 24, 25)]


def test_bits_of_returning_users_have_the_fewest_copies_that_are_near_enough() -> None:
    central, noise = 2.0 / BUDGET.mu(), bit_noise(users=500, budget=BUDGET, participations=4)
    assert bit_std(noise) <= 1.002 * central
    fewer = [copies for copies in calibration._copies(500, central) if copies < noise.scale]
    coins = (math.ceil((2 * copies * central) ** 2 / 500) for copies in fewer)
    assert all(math.sqrt(500 * b) / (2 * c) > 1.002 * central for b, c in zip(coins, fewer, strict=True))


def test_bits_of_a_given_std_have_2500_coins() -> None:
    assert bit_noise_for_std(0.7, users=2).scale == math.ceil(25 / 0.7)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is priced, by an accountant that finds everything enough; and nothing of it is remembered."""
    found: list[Any] = []
    monkeypatch.setattr(accountant, "satisfies", lambda event, _: bool(found.append(event)) or True)
    monkeypatch.setattr(calibration, "_gaussian_std", calibration._gaussian_std.__wrapped__)
    return found


@pytest.mark.parametrize("times", [1, 3])
def test_the_first_gaussian_noise_that_is_priced_is_that_of_the_formula(times: int, asked: list[Any]) -> None:
    budget = ApproxDP(epsilon=0.05, delta=1e-5)
    start = 2.0 * math.sqrt(times) / budget.mu()
    found = calibration.gaussian_std(sensitivity=2.0, dim=4, budget=budget, participations=times)
    event = GaussianEvent(std=start, sensitivity=2.0, dim=4, grid=fine_grid(start, 2.0, 4))
    assert asked[0] == RepetitionEvent(event=event, times=times)
    assert found == pytest.approx(start / 2)  # from where on it would look
    asked.clear()
    tree = factorise("tree", horizon=8)
    shape: dict[str, Any] = {"sensitivity": 2.0, "dim": 4, "participations": times, "factorisation": tree}
    calibration.continual_std(**shape, budget=budget)
    start = 2.0 * tree.sensitivity(times) / budget.mu()
    grid = fine_grid(start, times * 2.0 * tree.sensitivity(), 4 * tree.releases(times))
    assert asked[0] == ContinualEvent(**shape, std=start, grid=grid)


@pytest.mark.parametrize("times", [1, 3])
def test_the_first_laplace_noise_that_is_priced_is_that_of_the_formula(times: int, asked: list[Any]) -> None:
    shape: dict[str, Any] = {"sensitivity": 2.0, "dim": 4, "participations": times}
    calibration.laplace_scale(**shape, budget=PureDP(epsilon=0.5))
    assert asked[0].event.scale == pytest.approx(times * 2.0 / 0.5)
    asked.clear()
    calibration.laplace_scale(**shape, budget=ZCDP(rho=0.5))
    epsilon = 2.0 / asked[0].event.scale
    assert epsilon * math.tanh(epsilon / 2) == pytest.approx(0.5 / times)


@pytest.mark.parametrize("times", [1, 3])
def test_the_search_for_coins_begins_at_their_estimate(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accountant, "satisfies", lambda *_: True)
    monkeypatch.setattr(search, "find_least_integer", lambda meets, guess, *, most: guess)
    mu = BUDGET.mu()
    counts = calibration._least_trials(20.0, 2.0 * math.sqrt(times) / mu, 2.0, 2.0, 900, 5, BUDGET, times)
    assert counts is not None
    assert counts.trials == pytest.approx(4 * (40.0**2 + 900 / 4) * times / (5 * mu**2), rel=0.001)
    assert (counts.scale, counts.users) == (20.0, 5)
    copies = calibration._search_bits(6, 5, BUDGET, times, math.sqrt(times) / mu)
    assert copies is not None
    assert copies.trials == math.ceil((12 / mu) ** 2 * times / 5)


def test_gaussian_noise_costs_sensitivity_over_std() -> None:
    assert gaussian_price(GaussianEvent(std=2.0, sensitivity=3.0), TAIL).mu == 1.5


def test_laplace_noise_costs_sensitivity_and_steps_over_scale() -> None:
    assert pure_price(LaplaceEvent(scale=4.0, sensitivity=2.0, dim=3, grid=0.5)) == (2.0 + 3 * 0.5) / 4.0
    assert pure_price(DiscreteLaplaceEvent(scale=4.0, shift=6.0, dim=3)) == 1.5


def test_the_share_of_the_data_in_a_price_is_that_without_rounding() -> None:
    tree = factorise("tree", horizon=8)
    stream = ContinualEvent(factorisation=tree, std=8.0, sensitivity=2.0, participations=2, dim=3, grid=0.5)
    change, touched = 2.0 * tree.sensitivity(2), 3 * tree.releases(2)
    assert compute_unrounded_share(stream, TAIL) == pytest.approx(change / (change + 0.5 * math.sqrt(touched)))
    report = GaussianEvent(std=8.0, sensitivity=2.0, dim=9, grid=0.5)
    assert compute_unrounded_share(report, TAIL) == pytest.approx(2.0 / (2.0 + 0.5 * 3))
    for event, moved in ((stream, change + 0.5 * math.sqrt(touched)), (report, 2.0 + 0.5 * 3)):
        assert concentrated_price(event) == pytest.approx(moved**2 / (2 * 8.0**2))
    coins = BinomialEvent(trials=10_000, shift=6.0, reach=6, dim=50, rounded=True)
    assert compute_unrounded_share(coins, TAIL) == pytest.approx(6.0 / composable_shift(6.0, 50, TAIL / 2))


def test_returning_users_pay_for_every_batch_of_every_task() -> None:
    noisy = {std: GaussianEvent(std=std, sensitivity=1.0) for std in (2.0, 3.0, 5.0)}
    tasks = {"mixed": Counter({noisy[2.0]: 1, noisy[3.0]: 4}), "alike": Counter({noisy[5.0]: 7})}
    mu = math.sqrt(1 / 2.0**2 + 1 / 3.0**2 + 2 / 5.0**2)
    assert accountant.compute_spent(tasks, 2, 1e-5) == pytest.approx(gdp.epsilon(1e-5, mu), rel=1e-6)


def test_tails_are_shared_out_among_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = {std: GaussianEvent(std=std, sensitivity=1.0) for std in (2.0, 3.0, 5.0)}
    tasks = {"mixed": Counter({noisy[2.0]: 1, noisy[3.0]: 4}), "alike": Counter({noisy[5.0]: 7})}
    spent, price = list[float](), accountant.price
    monkeypatch.setattr(accountant, "price", lambda event, tail: spent.append(tail) or price(event, tail))
    accountant._delta(tasks, 2, 1.0, 1e-5)
    assert spent[0] == pytest.approx(accountant.tail_for(1e-5, 1.0) / 2, abs=0.0)


def test_records_of_returning_users_are_priced_one_by_one() -> None:
    matrix = RecordEvent(event=GaussianEvent(std=math.sqrt(2), sensitivity=math.sqrt(2)), part="matrix")
    vector = RecordEvent(event=GaussianEvent(std=2.0, sensitivity=2.0), part="vector")
    tasks = {"matrix": Counter({matrix: 3}), "vector": Counter({vector: 3})}
    epsilon = gdp.epsilon(1e-5, 2.0)  # two of each, of mu = 1
    assert accountant.compute_spent(tasks, 2, 1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert not accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=0.999 * epsilon, delta=1e-5))
    assert accountant.is_within_budget(tasks, 2, ApproxDP(epsilon=1.001 * epsilon, delta=1e-5))


def test_tails_of_all_shuffled_batches_are_charged() -> None:
    tail, delta = 1e-13, []
    for each in (tail, 0.0):
        batch = ShuffledGaussianEvent(std=5.0, sensitivity=1.0, users=80, tail=each)
        delta.append(accountant.delta_near(RepetitionEvent(event=batch, times=2), 0.5, 1e-5))
    beyond = 2 * 80 * 5 * tail * (1 + math.exp(0.5))  # proofs.md B.1, step 5
    assert delta[0] - delta[1] == pytest.approx(beyond, rel=1e-3, abs=0.0)


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
    assert shuffled_gaussian_delta(std=2 * SCALE, epsilon=EPSILON, **given) == delta
    assert shuffled_gaussian_epsilon(std=2 * SCALE, delta=delta, **given) == epsilon
    std = shuffled_gaussian_std(epsilon=EPSILON, delta=delta, **given)
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
    assert shuffled_gaussian_delta(std=2 * SCALE, epsilon=EPSILON, **given) == delta
    assert shuffled_gaussian_std(epsilon=EPSILON, delta=delta, **given) == pytest.approx(2 * SCALE)


class Known(ShuffledBatches):
    """Batches that hide somebody as little as Gaussian reports at 0.97 of the distance would."""

    def _bound(self, local: float, scale: float, epsilon: float) -> float:
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
