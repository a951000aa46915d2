"""Confidence of private linear estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.policies.linear import confidence
from bandanna.policies.linear.confidence import Ellipsoid, PaperConfidence, compute_confidence, noise_bounds
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle


def paths(batches: int, dim: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Norms |N_m| and |h_m| of sums of independent unit noise: (draws, batches) each."""
    rng = np.random.default_rng(1)
    raw = rng.standard_normal((draws, batches, dim, dim))
    sums = np.cumsum((raw + np.swapaxes(raw, 2, 3)) / 2, axis=1)
    vectors = np.cumsum(rng.standard_normal((draws, batches, dim)), axis=1)
    return np.max(np.abs(np.linalg.eigvalsh(sums)), axis=-1), np.linalg.norm(vectors, axis=-1)


@pytest.mark.parametrize("growing", [False, True], ids=["flat", "growing"])
@pytest.mark.parametrize("dim", [1, 4])
def test_noise_stays_within_its_bounds(dim: int, growing: bool) -> None:
    failure, batches, draws = 0.3, 16, 2000
    std = np.sqrt(np.arange(1.0, batches + 1))
    matrix, vector = noise_bounds(std, dim, failure, independent=True, growing=growing)
    norms, lengths = paths(batches, dim, draws)
    slack = 6 * np.sqrt(0.1 * 0.9 / draws)
    assert np.mean(np.any(norms > matrix, axis=1)) < failure / 3 + slack
    assert np.mean(np.any(lengths > vector, axis=1)) < failure / 3 + slack


def test_bounds_for_a_fifth_less_noise_fail() -> None:
    std = np.sqrt(np.arange(1.0, 17))
    _, vector = noise_bounds(0.8 * std, 4, 0.3, independent=True, growing=False)
    _, lengths = paths(16, 4, 2000)
    assert np.mean(np.any(lengths > vector, axis=1)) > 0.1


def test_growing_bounds_help_early_and_cost_late() -> None:
    std = np.sqrt(np.arange(1.0, 65))
    flat, growing = (noise_bounds(std, 5, 0.05, independent=True, growing=g)[0] for g in (False, True))
    assert growing[0] < 0.3 * flat[0]
    assert flat[-1] < growing[-1] < 1.3 * flat[-1]
    assert np.all(np.diff(growing) >= 0)


def test_no_noise_leaves_ridge_regression() -> None:
    got = compute_confidence(
        np.zeros(3),
        RunLengthSizes(((10, 3),)),
        dim=2,
        failure=0.1,
        ridge=1.5,
        parameter_bound=2.0,
        reward_std=0.5,
        independent=True,
        growing=False,
    )
    np.testing.assert_array_equal(got.ridge, np.full(4, 1.5))
    expected = 0.5 * np.sqrt(2 * np.log(10) + 2 * np.log1p(np.array([0.0, 10, 20, 30]) / 3)) + 2 * np.sqrt(1.5)
    np.testing.assert_allclose(got.radius, expected)


def test_mean_norm_is_above_the_mean() -> None:
    assert np.sqrt(2 / np.pi) < confidence.mean_norm(1) < np.sqrt(2 / np.pi) + 0.1


def test_the_printed_radius_is_that_of_lemma_a4() -> None:
    std, sizes = np.array([1.0, 2.0]), RunLengthSizes(((50, 2),))
    got = PaperConfidence(matrix=3.0, vector=0.5).radii(std, sizes, dim=4, failure=0.1, ridge=1.0, parameter_bound=1.0)
    spread = 2.0 * (2.0 + math.sqrt(math.log(2 / 0.1)))
    assert got.ridge[0] == pytest.approx(6 * spread)
    assert got.smallest == pytest.approx(3 * spread)
    growth = 2 * math.log(2 / 0.1) + 4 * math.log1p(100 / (4 * 3 * spread))
    expected = math.sqrt(growth) + math.sqrt(9 * spread) + 0.5 * math.sqrt(spread)
    assert got.radius[-1] == pytest.approx(expected)
    clear = PaperConfidence().radii(np.zeros(2), sizes, dim=4, failure=0.1, ridge=1.0, parameter_bound=1.0)
    assert clear.ridge[0] == 1.0
    assert clear.smallest == 1.0


def test_the_printed_form_of_concurrent_shufflers_is_theorem_c3_of_paper_002() -> None:
    """lambda = 2 sigma' d and beta_t are those of [002, Theorem C.3] with alpha = 1/n, whatever `failure` is.

    beta_t = sigma sqrt(2 log(2/alpha) + d log(3 + 2 t/(d lambda))) + sqrt(3 lambda/2) + sqrt(lambda/2); sigma' is the
    error of an entry but with probability 1/(n^2 (d^2 + d)), for noise of the worst prefix and d_low - 1 missing users.
    """
    n, d, k = 2_000, 3, 2
    for calibration in ("tight", "paper"):
        privacy = concurrent(epsilon=0.9, delta=1e-5, shufflers=k, calibration=calibration)
        for failure in (0.05, 0.2):
            policy = LinUCB(dim=d, horizon=n, privacy=privacy, batch="paper", confidence="paper", failure=failure)
            stream = policy._channel.stream
            assert isinstance(stream, ConcurrentShuffle)
            low = policy._channel.sizes[0]
            error = low - 1 + stream.std() * math.sqrt(2 * math.log(2 * n**2 * (d**2 + d)))
            ridge = 2 * error * d
            for batches in (0, 1, len(policy._channel.sizes)):
                t = batches * low
                root = math.sqrt(2 * math.log(2 * n) + d * math.log(3 + 2 * t / (d * ridge)))
                radius = 0.5 * root + math.sqrt(3 * ridge / 2) + math.sqrt(ridge / 2)
                assert policy.radii.at(batches) == pytest.approx((ridge, radius), rel=1e-12)


def test_theorem_c3_bounds_the_error_of_every_entry() -> None:
    """No entry of a running sum of a concurrent stream, missing users included, is farther from the truth than sigma'.

    Gaussian noise of the stated size, 20 runs: by the theorem one fails with probability 1/n, so a false alarm has
    probability 20/8,000 = 0.25 % before the seed was fixed.
    """
    n, d = 8_000, 2
    policy = LinUCB(
        dim=d, horizon=n, privacy=concurrent(epsilon=0.9, delta=1e-5, shufflers=2), batch="paper", confidence="paper"
    )
    stream = policy._channel.stream
    assert isinstance(stream, ConcurrentShuffle)
    low, rng = policy._channel.sizes[0], np.random.default_rng(8)
    allowed = policy.radii.at(0)[0] / (2 * d)
    noise = rng.normal(size=(20, 2 * d + 1, len(policy._channel.sizes))) * stream.prefix_std()
    assert np.abs(noise).max() + low - 1 <= allowed


def test_noise_of_every_entry_stays_within_its_bounds() -> None:
    for dim in (1, 2, 6):
        raw = np.triu(np.random.default_rng(4).standard_normal((4_000, dim, dim)))
        norms = np.abs(np.linalg.eigvalsh(raw + np.swapaxes(np.triu(raw, 1), 1, 2))).max(axis=1)
        scale = LinearReport(features=dim, isometric=False).matrix_std
        bound, _ = noise_bounds(np.ones(1), dim, 0.3, independent=False, growing=False, matrix_std=scale)
        assert np.mean(norms > bound[0]) <= 0.1
        assert bound[0] == pytest.approx(
            scale * noise_bounds(np.ones(1), dim, 0.3, independent=False, growing=False)[0][0]
        )


@pytest.mark.parametrize("length", [0.0, 0.577, 1.0])
@pytest.mark.parametrize("dim", [2, 5])
def test_radii_of_random_directions_hold_for_every_report(dim: int, length: float) -> None:
    """The noise of a batch of directions has no larger deviation in any direction than the radii are made for.

    All users send the same report, of 1 at |x| = `length`. The largest eigenvalue of the covariance of 2,000 sums in at
    most 20 dimensions is above the true one by less than (1 + sqrt(20/2000))^2 = 1.21 in nearly every run (1.25 is
    allowed). The mean variance is exceeded by factors of 2.7 to 8.1 for |x| = 0 and 0.577.
    """
    privacy = local(epsilon=10.0, delta=1e-5, protocol="unit")
    policy = LinUCB(dim=dim, horizon=1000, batch=100, privacy=privacy)
    x = np.zeros((2_000, 100, dim))
    x[..., 0] = length
    statistic = policy._domain.statistic(x, np.ones(x.shape[:-1]))
    protocol = policy._channel.protocols[100]
    released = protocol.law(statistic, FastNoise(np.random.default_rng(dim))).total
    largest = float(np.max(np.linalg.eigvalsh(np.cov(released, rowvar=False))))
    assert isinstance(policy.radii, Ellipsoid)
    assert largest <= 1.25 * policy.radii.stds[0] ** 2


def test_the_best_batch_has_the_least_bound() -> None:
    for privacy in (none(), shuffle(epsilon=1.0, delta=1e-5), central(epsilon=1.0, delta=1e-5)):
        policy = LinUCB(dim=3, horizon=600, privacy=privacy, batch="best", confidence="lemma")
        size = policy._channel.sizes[0]
        bounds = {
            other: LinUCB(dim=3, horizon=600, privacy=privacy, batch=other, confidence="lemma").regret_bound
            for other in (max(2, size // 2), size, 2 * size, 4 * size)
        }
        assert min(bounds, key=bounds.__getitem__) == size or bounds[size] <= min(bounds.values()) * 1.0001
        assert policy.regret_bound == bounds[size]


def test_a_policy_takes_its_confidence_by_name() -> None:
    privacy = shuffle(epsilon=1.0, delta=1e-5)
    exact = LinUCB(dim=3, horizon=3000, privacy=privacy)
    lemma = LinUCB(dim=3, horizon=3000, privacy=privacy, confidence="lemma")
    printed = LinUCB(dim=3, horizon=3000, privacy=privacy, confidence="paper")
    constant = LinUCB(dim=3, horizon=3000, privacy=privacy, confidence=PaperConfidence(matrix=2.0))
    assert lemma.radii.radius[-1] != printed.radii.radius[-1] < constant.radii.radius[-1]
    assert exact.radii.radius[-1] != lemma.radii.radius[-1]
    assert exact.guarantee == lemma.guarantee == printed.guarantee
    best = (
        LinUCB(dim=3, horizon=300, batch="best", confidence=name, privacy=none())._channel.sizes[0]
        for name in ("exact", "lemma")
    )
    assert len({*best}) == 1
    with pytest.raises(InvalidArgument, match="confidence"):
        LinUCB(dim=3, horizon=10, confidence="bold", privacy=none())
    with pytest.raises(InvalidArgument, match="growing"):
        LinUCB(dim=3, horizon=10, confidence="paper", growing=True, privacy=none())
