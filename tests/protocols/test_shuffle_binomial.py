"""Shuffled vector sums, and noise that is calibrated for fewer users (proofs.md A.6)."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.errors import CommunicationWarning, OutsideTheorem
from bandanna.numeric.rng import Streams
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise, bit_event
from bandanna.privacy.events import BinomialEvent, Event, RepetitionEvent, ShuffledGaussianEvent
from bandanna.protocols import shuffle_binomial
from bandanna.protocols.gaussian import CentralGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial, largest_counts
from bandanna.protocols.shuffle_bits import ShuffleBits

# proofs.md A.5: (epsilon, delta, B) -> total std for d = 5, 10, 15, and the central mechanism's.
TABLE = {
    (0.2, 0.1, 20): ((4.912, 4.903, 4.902), 4.877),
    (0.2, 0.1, 200): ((4.922, 4.924, 4.910), 4.877),
    (0.2, 0.1, 2000): ((4.909, 4.909, 4.933), 4.877),
    (0.2, 1e-05, 20): ((34.873, 34.781, 34.772), 34.586),
    (0.2, 1e-05, 200): ((34.879, 34.783, 34.773), 34.586),
    (0.2, 1e-05, 2000): ((34.973, 34.803, 34.782), 34.586),
    (1.0, 0.1, 20): ((2.335, 2.321, 2.317), 2.303),
    (1.0, 0.1, 200): ((2.326, 2.326, 2.326), 2.303),
    (1.0, 0.1, 2000): ((2.316, 2.316, 2.327), 2.303),
    (1.0, 1e-05, 20): ((7.993, 7.962, 7.958), 7.914),
    (1.0, 1e-05, 200): ((8.029, 7.977, 7.962), 7.914),
    (1.0, 1e-05, 2000): ((7.976, 7.976, 8.013), 7.914),
    (10.0, 0.1, 20): ((0.606, 0.606, 0.606), 0.598),
    (10.0, 0.1, 200): ((0.603, 0.603, 0.603), 0.598),
    (10.0, 0.1, 2000): ((0.602, 0.602, 0.602), 0.598),
    (10.0, 1e-05, 20): ((1.076, 1.080, 1.077), 1.060),
    (10.0, 1e-05, 200): ((1.071, 1.071, 1.071), 1.060),
    (10.0, 1e-05, 2000): ((1.070, 1.070, 1.070), 1.060),
}
# The same table's first column: the printed protocol's std, (epsilon, delta) -> d = 5, 10, 15.
PRINTED = {
    (0.2, 0.1): (7368, 8808, 9662),
    (0.2, 1e-05): (17137, 18577, 19431),
    (1.0, 0.1): (1474, 1762, 1932),
    (1.0, 1e-05): (3427, 3715, 3886),
    (10.0, 0.1): (147, 176, 193),
    (10.0, 1e-05): (343, 372, 389),
}


class Largest(FastNoise):
    """Every coin shows heads and every rounding goes up: the longest message."""

    def binomial(self, *, trials: int, probability: float, size: Any) -> NDArray[np.int64]:
        return np.full(size, trials)

    def uniform(self, size: Any) -> NDArray[np.float64]:
        return np.zeros(size)


def fast(seed: int = 0) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


@pytest.mark.parametrize(("epsilon", "delta", "batch"), TABLE)
@pytest.mark.often(when=lambda epsilon, delta, batch: (epsilon, delta, batch) in list(TABLE)[::4])
def test_noise_agrees_with_the_table(epsilon: float, delta: float, batch: int) -> None:
    totals, central = TABLE[epsilon, delta, batch]
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    for features, total in zip((5, 10, 15), totals, strict=True):
        domain = LinearReport(features=features)
        protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=batch)
        exact = CentralGaussian.calibrate(domain=domain, budget=budget).noise_std
        assert exact == pytest.approx(central, rel=1e-3)
        assert protocol.std(batch) == pytest.approx(total, rel=0.02)
        assert exact <= protocol.std(batch) <= 1.03 * exact
        assert accountant.satisfies(protocol.event, budget)


EXTREMES = list(itertools.product([1, 50], [2, 10**6], [0.01, 20.0], [1e-2, 1e-12]))


@pytest.mark.parametrize(("features", "batch", "epsilon", "delta"), EXTREMES)
@pytest.mark.often(when=lambda features, batch, epsilon, delta: (features, batch, epsilon, delta) in EXTREMES[::5])
def test_extreme_settings_stay_near_the_central_mechanism(
    features: int, batch: int, epsilon: float, delta: float
) -> None:
    domain, budget = LinearReport(features=features), ApproxDP(epsilon=epsilon, delta=delta)
    for participations in (1, 10):
        users = {"domain": domain, "budget": budget, "participations": participations}
        protocol = ShuffleBinomial.calibrate(batch=batch, **users)
        assert 1.0 <= protocol.std(batch) / CentralGaussian.calibrate(**users).noise_std <= 1.03
        assert accountant.satisfies(RepetitionEvent(event=protocol.event, times=participations), budget)


@pytest.mark.parametrize(("epsilon", "delta"), PRINTED)
def test_the_printed_protocol_is_reproduced(epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    for features, printed in zip((5, 10, 15), PRINTED[epsilon, delta], strict=True):
        domain = LinearReport(features=features)
        protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=20, calibration="paper")
        assert protocol.noise.probability == 0.25
        assert protocol.std(20) == pytest.approx(printed, abs=0.5)
        assert accountant.satisfies(protocol.event, ApproxDP(epsilon=epsilon / 50, delta=delta))
    assert protocol.guarantee.epsilon < epsilon / 50


def test_the_printed_protocol_for_returning_users_is_reproduced() -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-5)
    protocol = ShuffleBinomial.calibrate(
        domain=LinearReport(features=5), budget=budget, batch=20, participations=3, calibration="paper"
    )
    log = math.log(8 * 60 * 26 / (20 * 1e-5))
    coins = 1e7 * math.log(2e5) * 80 * 60 * log**2 / (0.5 * 20) ** 2  # g^2 = 4 B
    assert protocol.noise.trials == math.ceil(coins)
    assert protocol.guarantee.epsilon < 0.5 / 50


@pytest.mark.parametrize(
    ("argument", "epsilon", "delta"), [("epsilon", 16.0, 1e-5), ("delta", 1.0, 0.5), ("epsilon", 16.0, 0.6)]
)
def test_the_printed_protocol_ends_with_its_theorem(argument: str, epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    with pytest.raises(OutsideTheorem, match=r"Thm C\.1") as caught:
        ShuffleBinomial.calibrate(domain=Box(dim=2), budget=budget, batch=20, calibration="paper")
    assert caught.value.argument == argument


@pytest.mark.parametrize("times", [2, 9, 100])
@pytest.mark.often(when=lambda times: times != 9)
def test_returning_users_cost_a_square_root(times: int) -> None:
    domain, budget = LinearReport(features=5), ApproxDP(epsilon=1.0, delta=1e-5)
    one = CentralGaussian.calibrate(domain=domain, budget=budget).noise_std
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=200, participations=times)
    assert math.sqrt(times) * one <= protocol.std(200) <= 1.02 * math.sqrt(times) * one


@pytest.mark.parametrize("domain", [Ball(dim=3), Box(dim=2, low=-0.3, high=0.4), LinearReport(features=2)])
def test_messages_have_the_size_of_the_largest_count(domain: Any) -> None:
    noise = BinomialNoise(scale=3.7, trials=21, users=2)
    protocol = ShuffleBinomial(domain=domain, noise=noise)
    ends = np.stack([domain.upper, domain.lower])
    longest = protocol.device.encode(ends, Largest(np.random.default_rng(0)))  # every coordinate at its end, at once
    assert longest.max(axis=0).tolist() == largest_counts(noise, domain).tolist()
    assert protocol.bits_per_user == sum(int(most).bit_length() for most in longest.max(axis=0))
    assert protocol.unary_bits_per_user == longest.max(axis=0).sum()
    drawn = protocol.device.message(domain.admit(np.random.default_rng(1).normal(size=(500, 2, domain.dim))), fast(2))
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert np.all(drawn <= largest_counts(noise, domain))


def test_bits_are_counted_at_powers_of_two() -> None:
    for trials, bits in ((6, 3), (7, 4), (8, 4), (14, 4), (15, 5)):
        noise = BinomialNoise(scale=1.0, trials=trials, users=2)
        assert ShuffleBinomial(domain=Box(dim=1), noise=noise).bits_per_user == bits  # one step and the coins


def test_long_messages_give_a_warning() -> None:
    common: dict[str, Any] = {"domain": LinearReport(features=5), "budget": ApproxDP(epsilon=1.0, delta=1e-5)}
    bits = ShuffleBinomial.calibrate(batch=20, **common).bits_per_user
    with pytest.warns(CommunicationWarning, match=rf"{bits} bits, above the limit of {bits - 1}"):
        ShuffleBinomial.calibrate(batch=20, bits_limit=bits - 1, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ShuffleBinomial.calibrate(batch=20, bits_limit=bits, **common)


def test_the_noise_of_a_larger_batch_has_the_coins_of_its_users() -> None:
    protocol = ShuffleBinomial(domain=Box(dim=1), noise=BinomialNoise(scale=3.0, trials=50, users=4))
    for users in (4, 5, 9):
        assert protocol.std(users) == pytest.approx(math.sqrt(users * 50 / 4 + users / 4) / 3)


def test_the_event_is_that_of_the_totals() -> None:
    domain = LinearReport(features=2)
    noise = BinomialNoise(scale=3.7, trials=21, users=5, probability=0.25)
    assert ShuffleBinomial(domain=domain, noise=noise).event == BinomialEvent(
        trials=105, shift=3.7 * math.sqrt(4.5), reach=8, dim=5, probability=0.25, rounded=True
    )


def test_the_guarantee_states_what_the_shuffler_could_learn() -> None:
    domain = LinearReport(features=5)
    large = ShuffleBinomial.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=0.1), batch=200).guarantee
    assert large.shuffler is None
    assert large.exposed >= 0.975  # proofs.md A.3c: at least 0.976 for every epsilon
    assert "no privacy is left" in str(large)
    assert f"at least {math.floor(1000 * large.exposed) / 1000:g}." in str(large)
    small = ShuffleBinomial.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=1e-5), batch=2).guarantee
    assert small.shuffler is not None
    assert small.epsilon < small.shuffler.epsilon < math.inf
    assert f"epsilon = {math.ceil(1000 * small.shuffler.epsilon) / 1000:g}, delta = 1e-05 if single" in str(
        small
    )  # 1.467: rounded up


def test_off_diagonal_noise_has_half_the_variance() -> None:
    """Scaled entries are unscaled after the release: off-diagonal noise has half the diagonal's variance.

    False alarm below 1e-6 per entry: 6 standard errors of a variance from 6000 draws, 11 %.
    """
    domain, draws = LinearReport(features=3), 6000
    protocol = ShuffleBinomial(domain=domain, noise=BinomialNoise(scale=4.0, trials=100, users=3))
    rng = np.random.default_rng(9)
    x = rng.normal(size=(3, 3)) / 3
    y = rng.uniform(-1, 1, 3)
    stacked = domain.pack(x, y)
    vector, matrix = domain.unpack(stacked)
    assert np.allclose(vector, x * y[:, None], rtol=0, atol=1e-15)
    assert np.allclose(matrix, x[:, :, None] * x[:, None, :], rtol=0, atol=1e-15)
    estimate = protocol.release(np.broadcast_to(stacked, (draws, *stacked.shape)), fast(10), clip=False)
    noisy_vector, noisy = domain.unpack(estimate.total)
    assert np.array_equal(noisy, np.swapaxes(noisy, -1, -2))
    error = noisy - (x.T @ x)
    ratio = np.var(error, axis=0) / estimate.variance  # (3, 3)
    expected = np.where(np.eye(3, dtype=bool), 1.0, 0.5)
    assert np.all(np.abs(ratio / expected - 1) < 6 * math.sqrt(2 / draws))
    assert np.allclose(np.var(noisy_vector, axis=0) / estimate.variance, 1, rtol=0, atol=6 * math.sqrt(2 / draws))
    assert np.all(np.abs(error.mean(axis=0)) < 5 * math.sqrt(estimate.variance / draws))


@pytest.mark.parametrize("trials", [40, 10**10])
def test_the_shuffler_is_sure_of_counts_outside_the_overlap(trials: int) -> None:
    domain = Box(dim=1)
    for reach, p in ((7, 0.5), (20, 0.25), (40, 0.5)):
        found = shuffle_binomial.exposure_delta(
            domain, BinomialNoise(scale=float(reach), trials=trials, users=5, probability=p)
        )
        coins = stats.binom(trials, p)
        assert found == pytest.approx(max(coins.sf(trials - reach), coins.cdf(reach - 1)), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("at_once", [0, 1000, 1 << 17])
def test_sums_for_several_lattices_are_those_of_one_after_the_other(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffle_binomial, "_AT_ONCE", at_once)
    domain, values = LinearReport(features=2), np.random.default_rng(8).uniform(-0.4, 0.4, (3, 7, 5))
    noises = [BinomialNoise(users=7, scale=scale, trials=4, probability=0.5) for scale in (3.0, 17.5, 200.25)]
    found = shuffle_binomial.encode_sums(values, noises, domain, ReplicatedNoise(Streams(range(3))))
    source = ReplicatedNoise(Streams(range(3)))
    for noise, sums in zip(noises, found, strict=True):
        assert np.array_equal(sums, np.sum(np.floor(_steps(values, noise, domain) + source.uniform((3, 7, 5))), axis=1))
    top = shuffle_binomial.encode_sums(np.full((3, 7, 5), 9.0), noises, domain, source)
    most = [7 * np.ceil(noise.scale * (domain.upper - domain.lower)) for noise in noises]
    assert all(np.array_equal(each, np.broadcast_to(limit, (3, 5))) for each, limit in zip(top, most, strict=True))


@pytest.mark.parametrize("encode", [shuffle_binomial.encode_small_groups, shuffle_binomial.encode_groups])
def test_groups_have_the_law_of_their_roundings_on_every_lattice(encode: Any) -> None:
    seeds, domain = 3000, LinearReport(features=2)
    values, counts = np.random.default_rng(8).uniform(-0.4, 0.4, (2, 5)), np.array([4, 3])
    noises = [BinomialNoise(users=7, scale=scale, trials=4, probability=0.5) for scale in (3.0, 17.5, 200.25)]
    given = np.broadcast_to(values, (seeds, 2, 5)), np.broadcast_to(counts, (seeds, 2))
    for noise, sums in zip(noises, encode(*given, noises, domain, ReplicatedNoise(Streams(range(seeds)))), strict=True):
        steps = _steps(values, noise, domain)
        rest = steps - np.floor(steps)
        mean, variance = counts @ steps, counts @ (rest * (1 - rest))
        assert np.all(np.abs(sums.mean(axis=0) - mean) <= 1e-9 + 6 * np.sqrt(variance / seeds))
        assert np.all(np.abs(sums.var(axis=0) - variance) < 6 * np.sqrt(2 * variance**2 / seeds) + 0.02)


def _steps(values: Any, noise: BinomialNoise, domain: LinearReport) -> Any:
    return noise.scale * np.maximum(values - domain.lower, 0.0)


BATCH = 20
LARGER = (BATCH, BATCH + 1, BATCH + 7, 2 * BATCH, 10 * BATCH)
BUDGETS = (ApproxDP(epsilon=1.0, delta=1e-5), ApproxDP(epsilon=0.3, delta=1e-3), ApproxDP(epsilon=4.0, delta=1e-6))
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: f"{one.epsilon:g}")
DOMAINS = {"ball": Ball(dim=3), "box": Box(dim=2), "report": LinearReport(features=3)}
CASES = [(domain, budget) for domain in DOMAINS.values() for budget in BUDGETS]


def falls(numbers: list[float]) -> bool:
    """Whether no number is above the first, but for what searches leave open."""
    return all(number <= numbers[0] * (1 + 1e-9) for number in numbers)


def no_dearer(event: Event, epsilon: float, delta: float) -> bool:
    """Whether the accountant asks no more than epsilon, but for what searches leave open: one look, not a search."""
    return accountant.satisfies(event, ApproxDP(epsilon=epsilon * (1 + 1e-9), delta=delta))


@pytest.mark.parametrize(("domain", "budget"), CASES)
@pytest.mark.often(when=lambda domain, budget: (domain, budget) in CASES[::4])
def test_totals_of_more_users_cost_no_more(domain: Domain, budget: ApproxDP) -> None:
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=BATCH)
    sizes: dict[str, Any] = {"sensitivity": domain.sensitivity, "reach": domain.reach, "dim": domain.dim}
    stated = protocol.guarantee.epsilon
    assert stated == accountant.epsilon(protocol.noise.event(**sizes), budget.delta) <= budget.epsilon
    assert all(no_dearer(protocol.noise.for_users(n).event(**sizes), stated, budget.delta) for n in LARGER)
    weaker = dataclasses.replace(protocol.noise, trials=round(0.64 * protocol.noise.trials))
    assert not accountant.satisfies(weaker.event(**sizes), budget)
    fewer = protocol.noise.for_users(round(0.8 * BATCH)).event(**sizes)
    assert not accountant.satisfies(fewer, budget)  # why a smaller batch is refused


def exact_delta(copies: int, coins: int, epsilon: float) -> float:
    """Of Bin(coins, 1/2) against its shift by `copies`, in the worse direction, by enumeration."""
    window = np.arange(coins + copies + 1)
    still, moved = (stats.binom.pmf(window - shift, coins, 0.5) for shift in (0, copies))
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = [(still, moved), (moved, still)]
    return max(math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)) for p, q in pairs)


@each_budget
@pytest.mark.often(when=lambda budget: budget.epsilon != 1.0)
def test_bits_of_more_users_reveal_no_more(budget: ApproxDP) -> None:
    noise = ShuffleBits.calibrate(budget=budget, batch=BATCH).noise
    deltas = [exact_delta(int(noise.scale), n * noise.trials, budget.epsilon) for n in LARGER]
    assert deltas[0] <= budget.delta * (1 + 1e-9)
    assert falls(deltas)
    stated = [accountant.epsilon(bit_event(noise, users=n), budget.delta) for n in LARGER]
    assert falls(stated)
    assert exact_delta(int(noise.scale), round(0.64 * BATCH * noise.trials), budget.epsilon) > budget.delta
    assert exact_delta(int(noise.scale), round(0.8 * BATCH) * noise.trials, budget.epsilon) > budget.delta


@each_budget
@pytest.mark.parametrize("more", [(201, 2000), (400,)])
@pytest.mark.often(when=lambda budget, more: budget.epsilon == 0.3 and 201 in more)
def test_shuffled_reports_among_more_cost_no_more(budget: ApproxDP, more: tuple[int, ...]) -> None:
    protocol = ShuffleGaussian.calibrate(domain=Ball(dim=2), budget=budget, batch=200)
    event = protocol.event
    assert isinstance(event, ShuffledGaussianEvent)
    stated = protocol.guarantee.epsilon
    assert stated == accountant.epsilon(event, budget.delta) <= budget.epsilon
    assert all(no_dearer(dataclasses.replace(event, users=n), stated, budget.delta) for n in (200, *more))
    if budget.epsilon <= 1 and more[-1] == 2000:  # where shuffling hides, more users hide better
        assert no_dearer(dataclasses.replace(event, users=2000), 0.95 * stated, budget.delta)
    weaker = dataclasses.replace(protocol, noise_std=0.8 * protocol.noise_std)
    assert not accountant.satisfies(weaker.event, budget)


@pytest.mark.parametrize("users", [2, 3])
def test_the_larger_view_is_made_from_the_smaller(users: int) -> None:
    noise = ShuffleBits.calibrate(budget=ApproxDP(epsilon=2.0, delta=1e-2), batch=2).noise
    coins = [stats.binom.pmf(np.arange(n * noise.trials + 1), n * noise.trials, 0.5) for n in (users, 2, users + 2)]
    assert np.allclose(np.convolve(coins[0], coins[1]), coins[2], rtol=1e-9, atol=1e-15)
