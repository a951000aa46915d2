"""Both paths of a batch have one law, and it is the stated one.

Fixed seeds; over seeds each comparison would raise a false alarm with probability below 1e-6: Kolmogorov-Smirnov and
DKW bands at that level, 5 standard errors for means and correlations, 6 for variances. With the sizes used here a
standard deviation that is 20 % off is seen: the tests show that too, on the same numbers of draws. It is 0.054 away by
Kolmogorov's distance, 4.2 in units of two samples of 12,000 where the band is 2.7 and a standard error 0.4.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Box, Statistic
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

Floats = NDArray[np.float64]

DOMAIN, USERS, DRAWS = Box(dim=2), 5, 12_000
HALVES = np.tile([0.125, 0.375], (USERS, 1))  # with 4 steps per unit every entry is half-way between lattice points
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)  # of sqrt(n) times a Kolmogorov distance, at false alarm 1e-6

NOISY: list[BatchProtocol] = [
    CentralGaussian(domain=DOMAIN, noise_std=1.5),
    LocalGaussian(domain=DOMAIN, noise_std=1.5),
    ShuffleGaussian(domain=DOMAIN, noise_std=1.5, batch=USERS),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=12, users=USERS)),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=12, users=USERS, probability=0.25)),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=12, users=USERS), coins="mixer"),
]
each = pytest.mark.parametrize("protocol", NOISY, ids=lambda p: p.name)
paths = pytest.mark.parametrize("path", ["messages", "law"])


def fast(seed: int) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def errors(protocol: BatchProtocol, path: str, seed: int, values: Floats = HALVES, draws: int = DRAWS) -> Floats:
    batches = np.broadcast_to(values, (draws, *values.shape))
    return protocol.release(batches, fast(seed), path=path).total - values.sum(axis=0)


def weaker(protocol: BatchProtocol) -> BatchProtocol:
    """The same protocol with 20 % less noise."""
    if isinstance(protocol, ShuffleBinomial):
        noise = protocol.noise
        return dataclasses.replace(protocol, noise=dataclasses.replace(noise, trials=round(0.64 * noise.trials)))
    return dataclasses.replace(protocol, noise_std=0.8 * protocol.noise_std)


def gap(first: Floats, second: Floats) -> float:
    """Two-sample Kolmogorov distance in units of its standard scale (conservative for lattice laws)."""
    scale = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return scale * float(stats.ks_2samp(first, second, method="asymp").statistic)


@each
def test_both_paths_have_one_law(protocol: BatchProtocol) -> None:
    messages, law = errors(protocol, "messages", 1), errors(protocol, "law", 2)
    less = errors(weaker(protocol), "law", 3)
    for k in range(DOMAIN.dim):
        assert gap(messages[:, k], law[:, k]) < BAND
        assert gap(messages[:, k], less[:, k]) > BAND
    tilt = np.array([1.0, -1.0])  # a direction across both
    assert gap(messages @ tilt, law @ tilt) < BAND


@each
@paths
def test_estimates_are_unbiased(protocol: BatchProtocol, path: str) -> None:
    for seed, values in enumerate([HALVES, np.tile([0.0, 1.0], (USERS, 1)), np.tile([0.31, 0.97], (USERS, 1))]):
        found = errors(protocol, path, 10 + seed, values)
        limit = 5 * protocol.std(USERS) / math.sqrt(DRAWS)
        assert np.all(np.abs(found.mean(axis=0)) < limit)
        assert np.all(np.abs((found + 0.1 * protocol.std(USERS)).mean(axis=0)) > limit)  # a tenth of a std is seen


@each
@paths
def test_variance_is_as_stated(protocol: BatchProtocol, path: str) -> None:
    """The stated variance is that of the error, rounding included where it is worst (half-way); 36 % less is seen."""
    found = errors(protocol, path, 20)
    stated = protocol.release(HALVES, fast(0), path=path).variance
    assert stated == pytest.approx(protocol.std(USERS) ** 2)
    spread = 6 * np.std(found**2, axis=0) / math.sqrt(DRAWS)  # 6 standard errors
    assert np.all(np.abs(np.mean(found**2, axis=0) - stated) < spread)
    assert np.all(stated - 0.64 * stated > 2 * spread)


def test_rounding_adds_nothing_on_the_lattice() -> None:
    protocol = NOISY[3]
    assert isinstance(protocol, ShuffleBinomial)
    found = errors(protocol, "messages", 21, np.tile([0.25, 0.5], (USERS, 1)))
    coins = USERS * 12 / 4 / 16  # B b p (1 - p) / s^2
    assert coins == pytest.approx(protocol.noise.std() ** 2 - USERS / 4 / 16)
    spread = 6 * np.std(found**2, axis=0) / math.sqrt(DRAWS)
    assert np.all(np.abs(np.mean(found**2, axis=0) - coins) < spread)
    assert np.all(np.mean(found**2, axis=0) < protocol.noise.std() ** 2 - spread)


@each
@paths
def test_coordinates_and_replicates_are_independent(protocol: BatchProtocol, path: str) -> None:
    found = errors(protocol, path, 30)
    pairs = [(found[:, 0], found[:, 1]), (found[1:, 0], found[:-1, 0]), (found[1:, 0], found[:-1, 1])]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) * math.sqrt(DRAWS) < 5


@each
@paths
def test_replicates_of_any_shape_have_the_same_law(protocol: BatchProtocol, path: str) -> None:
    values, draws = np.random.default_rng(4).random((2, 3, USERS, 2)), 8000
    repeated = np.broadcast_to(values, (draws, *values.shape))
    found = protocol.release(repeated, fast(40), path=path).total - values.sum(axis=-2)  # (draws, 2, 3, 2)
    assert found.shape == (draws, 2, 3, 2)
    assert np.all(np.abs(found.mean(axis=0)) < 5 * protocol.std(USERS) / math.sqrt(draws))
    for i, j in ((0, 0), (1, 2)):
        alone = errors(protocol, path, 41 + i, values[i, j])
        assert gap(found[:, i, j, 0], alone[:, 0]) < BAND
        assert gap(0.8 * found[:, i, j, 0], alone[:, 0]) > BAND


@each
def test_groups_have_the_law_of_their_users(protocol: BatchProtocol) -> None:
    rows, counts = np.array([[0.1, 0.4], [0.9, 0.375]]), np.array([3, 2])
    single = np.repeat(rows, counts, axis=0)
    grouped = Statistic(
        domain=protocol.domain,
        values=np.broadcast_to(rows, (DRAWS, 2, 2)),
        clipped=np.zeros(DRAWS, dtype=np.int64),
        counts=np.broadcast_to(counts, (DRAWS, 2)),
    )
    assert grouped.users == USERS
    estimate = protocol.release(grouped, fast(45), path="law")
    assert (estimate.count, estimate.variance) == (USERS, pytest.approx(protocol.std(USERS) ** 2))
    found, alone = estimate.total - single.sum(axis=0), errors(protocol, "messages", 46, single)
    for k in range(DOMAIN.dim):
        assert gap(found[:, k], alone[:, k]) < BAND
        assert gap(0.8 * found[:, k], alone[:, k]) > BAND
    with pytest.raises(InvalidArgument, match="law"):
        protocol.release(grouped, fast(47), path="messages")


def test_clear_sums_are_exact() -> None:
    values = np.random.default_rng(6).random((3, 4, USERS, 2))
    for path in ("messages", "law"):
        estimate = Clear(domain=DOMAIN).release(values, fast(0), path=path)
        assert np.array_equal(estimate.total, values.sum(axis=-2))
        assert estimate.variance == 0.0


@paths
@pytest.mark.parametrize("probability", [0.5, 0.25])
def test_binomial_totals_have_the_enumerated_law(path: str, probability: float) -> None:
    noise = BinomialNoise(scale=3.0, trials=6, users=4, probability=probability)
    protocol = ShuffleBinomial(domain=Box(dim=1), noise=noise)
    values = np.array([[0.1], [0.5], [0.8], [1.0]])  # scaled: 0.3, 1.5, 2.4, 3
    law = stats.binom.pmf(np.arange(25 + 7), 24, probability)
    for scaled in (0.3, 1.5, 2.4, 3.0):
        below = math.floor(scaled)
        law = (1 - scaled + below) * np.roll(law, below) + (scaled - below) * np.roll(law, below + 1)

    def distance(used: ShuffleBinomial) -> float:
        found = errors(used, path, 50, values)[:, 0] + values.sum()
        totals = np.rint(found * 3 + 24 * probability)  # centred where the full noise is
        seen = np.searchsorted(np.sort(totals), np.arange(len(law)), side="right") / DRAWS
        return math.sqrt(DRAWS) * float(np.abs(seen - np.cumsum(law)).max())

    assert distance(protocol) < BAND
    assert distance(dataclasses.replace(protocol, noise=dataclasses.replace(noise, trials=4))) > BAND


@pytest.mark.parametrize("kind", [float, np.int64])
def test_the_shuffler_forgets_the_order_and_nothing_else(kind: type) -> None:
    mixer = ShuffleGaussian(domain=Box(dim=2), noise_std=1.0, batch=4).mixer
    sent = np.array([[2, -1], [1, -3], [2, -7], [1, -3]], dtype=kind)  # equal first numbers, and a report sent twice
    orders = np.stack([sent[list(order)] for order in itertools.permutations(range(4))])  # (24, 4, 2)
    views = mixer.close(mixer.add(mixer.empty((24,)), orders)).numbers
    assert np.array_equal(views, np.broadcast_to([[1, -3], [1, -3], [2, -7], [2, -1]], (24, 4, 2)))
    assert views.dtype == sent.dtype


@each
def test_noise_does_not_depend_on_the_data(protocol: BatchProtocol) -> None:
    low, high = (protocol.release(values, fast(90)).total for values in (HALVES, HALVES + 0.25))
    assert np.allclose(high - low, 0.25 * USERS, rtol=0, atol=1e-12)
