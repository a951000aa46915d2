"""Gaussian noise: the central, local and shuffled reports, and the papers' printed noise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import bandanna as bd
from bandanna.device.domain import Ball
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument, InvalidBudget, OutsideTheorem
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.privacy.events import (
    BinomialEvent,
    CompositionEvent,
    GaussianEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
)
from bandanna.protocols import gaussian
from bandanna.protocols.gaussian import LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

REPORT = LinearReport(features=5)

# proofs.md B: (epsilon, delta, B) -> std of the batch sum by exact numerics of the clones bound, without
# amplification, and the lower bound for any analysis (known to about 1 %).
TABLE = {
    (0.2, 0.1, 20): (21.81, 21.81, 7.18),
    (0.2, 0.1, 200): (47.58, 68.97, 14.42),
    (0.2, 0.1, 2000): (99.20, 218.10, 34.87),
    (0.2, 1e-5, 20): (154.67, 154.67, 35.28),
    (0.2, 1e-5, 200): (240.49, 489.12, 40.98),
    (0.2, 1e-5, 2000): (361.66, 1546.75, 73.08),
    (1.0, 0.1, 20): (10.30, 10.30, 4.92),
    (1.0, 0.1, 200): (32.58, 32.58, 11.59),
    (1.0, 0.1, 2000): (79.55, 103.02, 30.10),
    (1.0, 1e-5, 20): (35.39, 35.39, 11.54),
    (1.0, 1e-5, 200): (92.33, 111.92, 23.41),
    (1.0, 1e-5, 2000): (163.79, 353.92, 55.52),
    (10.0, 0.1, 20): (2.67, 2.67, 2.29),
    (10.0, 0.1, 200): (8.45, 8.45, 6.60),
    (10.0, 0.1, 2000): (26.74, 26.74, 19.24),
    (10.0, 1e-5, 20): (4.74, 4.74, 3.84),
    (10.0, 1e-5, 200): (15.00, 15.00, 10.69),
    (10.0, 1e-5, 2000): (47.42, 47.42, 30.33),
}
OFTEN = {
    (0.2, 0.1, 20),
    (0.2, 1e-5, 2000),
    (1.0, 1e-5, 200),
    (10.0, 1e-5, 2000),
}  # every epsilon, delta and batch, where shuffling helps and where it does not
rows = pytest.mark.parametrize(("epsilon", "delta", "batch"), TABLE)
some = pytest.mark.often(when=lambda epsilon, delta, batch: (epsilon, delta, batch) in OFTEN)


@rows
@some
def test_noise_lies_between_the_lower_bound_and_plain_local_noise(epsilon: float, delta: float, batch: int) -> None:
    clones, local, least = TABLE[epsilon, delta, batch]
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    std = ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=batch).std(batch)
    assert std >= least
    assert std <= LocalGaussian.calibrate(domain=REPORT, budget=budget).std(batch) * (1 + 2**-12)  # room for the grid
    assert std <= 1.003 * clones  # ours is never more (B.1), and the table has three to four digits
    assert std <= 0.72 * clones or epsilon == 10.0 or (epsilon, batch) == (1.0, 20)
    assert std <= local * 1.003  # as printed, to three digits
    assert std >= ShuffleBinomial.calibrate(domain=REPORT, budget=budget, batch=batch).std(batch)


@rows
@some
def test_claims_hold_and_20_percent_less_noise_is_refused(epsilon: float, delta: float, batch: int) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=batch)
    weaker = ShuffleGaussian(domain=REPORT, batch=batch, noise_std=0.8 * protocol.noise_std)
    assert accountant.satisfies(protocol.event, budget)
    assert not accountant.satisfies(weaker.event, budget)


def lower_bound(std: float, epsilon: float, batch: int) -> float:
    """A delta that is really needed: the test "some report lies beyond t" on reports of x' among reports of x.

    delta >= Phi(mu - t) - e^epsilon B Phi(-t), mu = Delta_2 / std (proofs.md B), at its best t.
    """
    t = np.linspace(0, 40, 4001)
    bound = special.ndtr(REPORT.sensitivity / std - t) - math.exp(epsilon) * batch * special.ndtr(-t)
    return float(bound.max())


@rows
@some
def test_claims_are_never_below_an_attack(epsilon: float, delta: float, batch: int) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    std = ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=batch).noise_std
    assert lower_bound(std, epsilon, batch) <= delta
    for factor in (0.3, 3.0):
        event = ShuffledGaussianEvent(std=factor * std, sensitivity=REPORT.sensitivity, users=batch)
        claim = accountant.delta(event, epsilon)
        assert lower_bound(factor * std, epsilon, batch) <= claim
        assert gdp.delta(epsilon, REPORT.sensitivity / (factor * std * math.sqrt(batch))) <= claim  # the sum alone


def test_one_user_is_the_local_mechanism() -> None:
    for std in (0.5, 2.0, 8.0):
        alone = ShuffledGaussianEvent(std=std, sensitivity=1.5, users=1)
        report = GaussianEvent(std=std, sensitivity=1.5)
        for epsilon in (0.1, 1.0, 5.0):
            assert accountant.delta(alone, epsilon) == pytest.approx(accountant.delta(report, epsilon), rel=1e-9)
        for delta in (1e-2, 1e-6):
            assert accountant.epsilon(alone, delta) == pytest.approx(accountant.epsilon(report, delta), rel=1e-4)


def test_more_users_hide_better() -> None:
    stated = [
        accountant.delta(ShuffledGaussianEvent(std=6.0, sensitivity=2.0, users=users), 0.5)
        for users in (2, 20, 200, 2000, 20_000)
    ]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(stated))
    assert stated[-1] < 1e-3 * stated[0]


@pytest.mark.parametrize("batch", [2, 3, 5])
@pytest.mark.often(when=lambda batch: batch != 3)
def test_small_batches_gain_nothing_at_a_large_epsilon(batch: int) -> None:
    budget = ApproxDP(epsilon=10.0, delta=1e-5)
    shuffled = ShuffleGaussian.calibrate(domain=Ball(dim=3), budget=budget, batch=batch)
    local = LocalGaussian.calibrate(domain=Ball(dim=3), budget=budget)
    assert shuffled.noise_std == pytest.approx(local.noise_std, rel=3e-4)
    assert shuffled.std(batch) == pytest.approx(math.sqrt(batch) * shuffled.noise_std)


@pytest.mark.parametrize("batch", [2, 3, 5])
def test_small_batches_gain_next_to_all_at_a_small_epsilon(batch: int) -> None:
    budget = ApproxDP(epsilon=0.01, delta=1e-5)
    shuffled = ShuffleGaussian.calibrate(domain=Ball(dim=3), budget=budget, batch=batch)
    local = LocalGaussian.calibrate(domain=Ball(dim=3), budget=budget)
    assert 1.0 <= shuffled.noise_std * math.sqrt(batch) / local.noise_std <= 1.04


def test_the_guarantee_against_the_shuffler_is_the_local_one() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    for times in (1, 2):
        protocol = ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=200, participations=times)
        local = LocalGaussian(domain=REPORT, noise_std=protocol.noise_std, delta=1e-5, participations=times)
        stated = protocol.guarantee
        assert stated.shuffler is not None
        assert stated.shuffler == ApproxDP(epsilon=local.guarantee.epsilon, delta=1e-5)
        assert stated.shuffler.epsilon > stated.epsilon
        rounded = math.ceil(1000 * stated.shuffler.epsilon) / 1000
        assert f"the guarantee is epsilon = {rounded:g}, delta = 1e-05 if single" in str(stated)


def test_returning_users_need_more_noise() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    one, two = (
        ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=200, participations=times) for times in (1, 2)
    )
    local = LocalGaussian.calibrate(domain=REPORT, budget=budget, participations=2)
    assert one.noise_std < two.noise_std <= local.noise_std * (1 + 2**-12)
    assert accountant.satisfies(RepetitionEvent(event=two.event, times=2), budget)
    assert not accountant.satisfies(RepetitionEvent(event=one.event, times=2), budget)


def test_the_grid_of_the_reports_is_charged() -> None:
    protocol = ShuffleGaussian(domain=REPORT, noise_std=4.0, batch=20)
    excess = protocol.event.sensitivity / REPORT.sensitivity - 1
    assert 0 < excess < 1e-4
    assert protocol.event.users == 20
    assert 0 < protocol.event.tail < 1e-200  # discrete noise is Gaussian up to its tails


@pytest.mark.parametrize(
    ("epsilon", "delta", "batch", "printed"),
    [(0.2, 0.1, 20, 122.04), (0.2, 1e-5, 20, 388.10), (0.2, 1e-5, 200, 416.06)],
)
@pytest.mark.often(when=lambda delta, batch: (delta, batch) != (1e-5, 20))
def test_the_printed_noise_is_reproduced(epsilon: float, delta: float, batch: int, printed: float) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=batch, calibration="paper")
    assert protocol.std(batch) == pytest.approx(printed, rel=1e-4)
    assert protocol.guarantee.epsilon == accountant.epsilon(protocol.event, delta) < epsilon


@pytest.mark.parametrize(
    "row", [row for row in TABLE if row not in {(0.2, 0.1, 20), (0.2, 1e-5, 20), (0.2, 1e-5, 200)}]
)
def test_the_printed_noise_ends_with_its_theorem(row: tuple[float, float, int]) -> None:
    budget = ApproxDP(epsilon=row[0], delta=row[1])
    with pytest.raises(OutsideTheorem, match=r"Thm 3\.2") as caught:
        ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=row[2], calibration="paper")
    assert (caught.value.argument, caught.value.value) == ("epsilon", row[0])


def test_the_printed_formula_would_fail_outside_its_theorem() -> None:
    """At epsilon = 10, B = 200 the printed sigma is provably not private: the accountant does not accept it either."""
    for delta, sigma, needed in ((0.1, 0.202, 0.99), (1e-5, 0.588, 1.3e-3)):
        assert lower_bound(sigma * REPORT.sensitivity / 2, 10.0, 200) > needed * 0.99 > delta  # as if Delta_2 were 2
        event = ShuffledGaussianEvent(std=sigma, sensitivity=2.0, users=200)
        assert accountant.delta(event, 10.0) > delta


def test_shuffled_reports_refuse_other_budgets_and_batches() -> None:
    budget = ApproxDP(epsilon=0.01, delta=1e-5)
    with pytest.raises(InvalidBudget, match="ApproxDP"):
        ShuffleGaussian.calibrate(domain=REPORT, budget=ZCDP(rho=0.1), batch=20)
    for batch in (1, 0, 2.5):
        with pytest.raises(InvalidArgument, match="whole number >= 2"):
            ShuffleGaussian.calibrate(domain=REPORT, budget=budget, batch=batch)
        with pytest.raises(InvalidArgument, match="whole number >= 2"):
            ShuffleGaussian(domain=REPORT, noise_std=1.0, batch=batch)
    for domain in (Ball(dim=3), LinearReport(features=3, reward_bound=2.0)):
        with pytest.raises(InvalidArgument, match="LinearReport"):
            ShuffleGaussian.calibrate(domain=domain, budget=budget, batch=20, calibration="paper")


def test_a_single_user_is_the_local_model() -> None:
    local = LocalGaussian.calibrate(domain=REPORT, budget=ApproxDP(epsilon=1.0, delta=1e-5))
    alone = gaussian.shuffle_gaussian_event(local.event, 1)
    assert accountant.epsilon(alone, 1e-5) == pytest.approx(accountant.epsilon(local.event, 1e-5), rel=1e-4)
    with pytest.raises(InvalidArgument, match="batch"):
        ShuffleGaussian.calibrate(domain=REPORT, budget=ApproxDP(epsilon=1.0, delta=1e-5), batch=1)


D, B, EPSILON, DELTA = 4, 50, 0.2, 1e-5
PRINTED_REPORT = bd.device.LinearReport(features=D)
BUDGET = bd.privacy.ApproxDP(epsilon=EPSILON, delta=DELTA)


def amp_std() -> float:
    """[000, Theorem 3.2], of one report; sqrt(B) times that of a batch's sum."""
    return 4 * math.sqrt(2 * math.log(2.5 * B / DELTA) * math.log(2 / DELTA)) / (EPSILON * math.sqrt(B))


def vec_std(*, dim: int, users: int, epsilon: float, delta: float) -> float:
    """[000, Theorem C.1], of a batch's sum: sqrt(B b p (1 - p)) / g for Delta_1 = Delta_2 = 1, and rounding."""
    g = max(2 * math.sqrt(users), dim, 4)
    b = math.ceil(24e4 * g**2 * math.log(4 * (dim**2 + 1) / delta) ** 2 / (epsilon**2 * users))
    return math.sqrt(users * b * 3 / 16 + users / 4) / g


def ldp_std() -> float:
    """[000, Proposition F.1], of one report."""
    return 4 * math.sqrt(2 * math.log(2.5 / DELTA)) / EPSILON


PRINTED: dict[Any, tuple[dict[str, Any], float]] = {
    bd.protocols.ShuffleGaussian: ({"batch": B}, math.sqrt(B) * amp_std()),
    bd.protocols.ShuffleBinomial: (
        {"batch": B, "bits_limit": 1e15},
        vec_std(dim=D, users=B, epsilon=EPSILON, delta=DELTA),
    ),
    bd.protocols.LocalGaussian: ({}, math.sqrt(B) * ldp_std()),
}


@pytest.mark.parametrize("kind", PRINTED, ids=lambda kind: kind.name)
def test_every_entry_has_the_printed_noise(kind: Any) -> None:
    size, printed = PRINTED[kind]
    protocol = kind.calibrate(domain=PRINTED_REPORT, budget=BUDGET, calibration="paper", **size)
    nobody = protocol.domain.statistic(np.zeros((4_000, B, D)), np.zeros((4_000, B)))
    released = protocol.release(nobody, FastNoise(np.random.default_rng(1)), path="law")
    vector, matrix = protocol.domain.unpack(released.total)
    above = matrix[:, *np.triu_indices(D, 1)]
    for entries in (vector, np.diagonal(matrix, axis1=1, axis2=2), above):
        assert float(np.std(entries)) == pytest.approx(printed, rel=0.03)
    assert protocol.std(B) == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "epsilon", "printed"),
    [(bd.protocols.ShuffleGaussian, 0.05, 1_664), (bd.protocols.ShuffleBinomial, 1.0, 3_225)],
)
def test_noise_above_the_diagonal_is_printed_for_every_entry(kind: Any, epsilon: float, printed: int) -> None:
    """For B = 200, d = 3 and delta = 1e-5 the entries above the diagonal have the numbers that the theorems give."""
    budget = bd.privacy.ApproxDP(epsilon=epsilon, delta=1e-5)
    protocol = kind.calibrate(domain=bd.device.LinearReport(features=3), budget=budget, batch=200, calibration="paper")
    beside = protocol.std(200) * math.sqrt(protocol.domain.variances[1][0, 1])
    assert round(beside) == printed


@pytest.mark.parametrize(
    ("kind", "size", "reports"),
    [
        (bd.protocols.ShuffleGaussian, {"batch": B}, B),
        (bd.protocols.ShuffleBinomial, {"batch": B, "bits_limit": 1e15}, B),
        (bd.protocols.LocalGaussian, {}, 1),
        (bd.protocols.ConcurrentShuffle, {"horizon": 1_000, "shufflers": 3}, None),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_guarantee_in_paper_mode_is_that_of_what_runs(kind: Any, size: dict[str, Any], reports: int | None) -> None:
    """The stated epsilon covers the Gaussian limit of what is released, and does not with 20 % less noise.

    Two reports are at most sqrt 4.5 apart. mu is that distance over the standard deviation of what is seen of them: one
    report in the local model, a batch's sum in the shuffle model, a sum on each of the k levels in the concurrent one.
    """
    protocol = kind.calibrate(domain=PRINTED_REPORT, budget=BUDGET, calibration="paper", **size)
    stds = protocol.level_stds() if reports is None else (protocol.std(reports),)
    mu = math.sqrt(4.5 * sum(1 / std**2 for std in stds))
    stated = protocol.guarantee.epsilon
    assert gdp.delta(stated, mu) <= DELTA < gdp.delta(stated, mu / 0.8)
    assert stated == pytest.approx(accountant.epsilon(protocol.event, DELTA))


@pytest.mark.parametrize("shufflers", [1, 3])
def test_every_level_of_concurrent_shufflers_has_the_printed_noise(shufflers: int) -> None:
    budget = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
    protocol = bd.protocols.ConcurrentShuffle.calibrate(
        domain=bd.device.LinearReport(features=3),
        budget=budget,
        horizon=1_000,
        shufflers=shufflers,
        calibration="paper",
    )
    k = protocol.shufflers
    printed = [vec_std(dim=3, users=size, epsilon=1 / k, delta=1e-5 / k) for size in protocol.tree.sizes]
    assert protocol.level_stds() == pytest.approx(printed, rel=1e-9)
    assert not protocol.averaging
    np.testing.assert_array_equal(protocol.domain.variances[1], 1.0)  # of every entry, in units of a coordinate's
    assert shufflers == 1 or round(printed[0]) == 10_374
    event = protocol.event
    assert isinstance(event, CompositionEvent)
    assert len(event.events) == k
    for level, noise in zip(event.events, protocol.noises, strict=True):
        assert isinstance(level, BinomialEvent)
        assert level.shift >= math.sqrt(4.5) * noise.scale
    assert protocol.guarantee.epsilon == pytest.approx(accountant.epsilon(event, 1e-5))


@pytest.mark.parametrize(
    "privacy",
    [
        bd.local(epsilon=EPSILON, delta=DELTA, calibration="paper"),
        bd.shuffle(epsilon=EPSILON, delta=DELTA, calibration="paper"),
        bd.shuffle(epsilon=0.01, delta=DELTA, protocol="gaussian", calibration="paper"),
        bd.concurrent(epsilon=EPSILON, delta=DELTA, calibration="paper", shufflers=2),
    ],
    ids=["local", "Vec", "Amp", "concurrent"],
)
@pytest.mark.parametrize("kind", [bd.LinUCB, bd.LinTS])
def test_policies_report_what_the_printed_mechanism_sums(kind: Any, privacy: Any) -> None:
    """Policies send x_i x_j without the sqrt 2 in paper mode, read it back, and play."""
    policy = kind(dim=2, horizon=300, privacy=privacy, batch=50)
    assert not policy._domain.isometric
    assert all(protocol.domain == policy._domain for protocol in policy._channel.protocols.values())
    one = policy._form_statistic(np.array([[0.6, 0.8]]), np.array([1.0]))
    np.testing.assert_allclose(one.values[0], [0.6, 0.8, 0.36, 0.64, 0.48])
    _, gram = policy._domain.sums(one.total(), 1)
    np.testing.assert_allclose(gram, [[0.36, 0.48], [0.48, 0.64]])
    if kind is bd.LinUCB and privacy.model == "local":  # kernels for single rounds unpack isometric reports
        assert kind(dim=2, horizon=300, privacy=privacy, batch=1)._optimism_tables(0, 1) is None
    world = bd.environments.LinearContextual(dim=2, n_arms=3)
    assert math.isfinite(bd.simulate(policy, world, n_seeds=2).regret[:, -1].mean())
