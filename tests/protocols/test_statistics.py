"""Statistics of every magnitude and those made by hand, and what protocols say of batches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.domain import Ball, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError, InvalidStatistic
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial, largest_counts
from bandanna.protocols.spherical_cap import LocalUnit

DOMAIN, USERS = Ball(dim=3), 6
NOISE = BinomialNoise(scale=4.0, trials=400, users=USERS)
BATCH: list[BatchProtocol] = [
    Clear(domain=DOMAIN),
    CentralGaussian(domain=DOMAIN, noise_std=3.0, participations=2),
    LocalGaussian(domain=DOMAIN, noise_std=3.0, participations=2),
    LocalUnit(domain=DOMAIN, cosine=0.2, chance=0.8, candidates=3, participations=2),
    ShuffleGaussian(domain=DOMAIN, noise_std=3.0, batch=USERS, participations=2),
    ShuffleBinomial(domain=DOMAIN, noise=NOISE, participations=2),
]
CONTINUAL = CentralContinual(domain=DOMAIN, factorisation=factorise("tree", horizon=5), noise_std=3.0, participations=2)


def title(protocol: Protocol) -> str:
    """The protocol's name."""
    return protocol.name


each_batch = pytest.mark.parametrize("protocol", BATCH, ids=title)


def fast(seed: int = 1) -> FastNoise:
    """A seeded source."""
    return FastNoise(np.random.default_rng(seed))


def extreme_rows(domain: LinearReport, rows: int) -> NDArray[np.float64]:
    """Numbers of every magnitude and either sign, a fifth of them zero."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(rows, domain.dim)) * 10.0 ** rng.uniform(-300, 300, size=(rows, domain.dim))
    return np.where(rng.uniform(size=values.shape) < 0.2, 0.0, values)


# Extreme statistics


@pytest.mark.parametrize("clip", [True, False])
def test_tiny_diagonals_are_no_reports_of_nothing(clip: bool) -> None:
    try:
        admitted = LinearReport(features=2).admit([[0, 0, 1e-300, 0, 1e200]], clip=clip)
    except BandannaError:
        assert not clip
        return
    assert np.all(np.isfinite(admitted.values))


def test_squares_do_not_overflow() -> None:
    """Vectors whose squared norm overflows are sent to zero, or raise a warning."""
    np.testing.assert_allclose(np.linalg.norm(Ball(dim=2).admit([[1e200, 1e200]]).values), 1.0)
    report = LinearReport(features=2)
    vector, matrix = report.unpack(report.statistic([[1e200, 1e200]], [1.0]).values[0])
    np.testing.assert_allclose(vector, np.sqrt([0.5, 0.5]))
    np.testing.assert_allclose(matrix, np.full((2, 2), 0.5))
    assert np.all(np.isfinite(report.admit([[1.0, 1.0, 0.0, 2.2e-311, 1.0]]).values))


@pytest.mark.parametrize("features", [1, 2, 4])
@pytest.mark.parametrize("reward_bound", [0.3, 1.0, 5.0])
@pytest.mark.often(of=lambda features, reward_bound: reward_bound == (0.3, 5.0, 1.0)[features // 2])
def test_rows_of_every_magnitude_become_reports(features: int, reward_bound: float) -> None:
    domain = LinearReport(features=features, reward_bound=reward_bound)
    values = domain.admit(extreme_rows(domain, 3000)).values
    assert np.all(np.isfinite(values))
    assert np.all(values >= domain.lower - 1e-12)
    assert np.all(values <= domain.upper + 1e-12)
    vector, matrix = domain.unpack(values)
    trace = np.trace(matrix, axis1=-2, axis2=-1)  # |x|^2
    assert np.all(trace <= 1 + 1e-9)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=(-2, -1)), trace, atol=1e-9)  # of rank one
    assert np.all(np.linalg.norm(vector, axis=-1) <= reward_bound * np.sqrt(trace) + 1e-9)
    farthest = np.linalg.norm(values[:200, None] - values[None, 200:], axis=-1)
    assert np.max(farthest) <= domain.sensitivity * (1 + 1e-9)


@pytest.mark.parametrize("features", [1, 2, 4])
def test_counts_of_every_magnitude_stay_in_range(features: int) -> None:
    domain, users = LinearReport(features=features), 3000
    protocol = ShuffleBinomial(domain=domain, noise=BinomialNoise(scale=7.3, trials=5, users=users))
    counts = protocol.device.message(protocol.admit(extreme_rows(domain, users)), fast())
    assert np.all(counts >= 0)
    assert np.all(counts <= largest_counts(protocol.noise, domain))


# Statistics that no domain has made


def outside() -> NDArray[np.float64]:
    """Values most of which are far outside of the domain."""
    return np.random.default_rng(2).normal(size=(USERS, DOMAIN.dim)) * 1e4


def by_hand(values: NDArray[np.float64], counts: NDArray[np.int64] | None = None) -> Statistic:
    """A statistic that claims to lie in the domain."""
    return Statistic(domain=DOMAIN, values=values, clipped=np.zeros((), dtype=np.int64), counts=counts)


@each_batch
@pytest.mark.parametrize("path", ["messages", "law"])
def test_statistics_made_by_hand_are_checked(protocol: BatchProtocol, path: str) -> None:
    for clip in (True, False):
        with pytest.raises(InvalidStatistic, match="a point of"):
            protocol.release(by_hand(outside()), fast(), path=path, clip=clip)
    with pytest.raises(InvalidStatistic, match="finite"):
        protocol.release(by_hand(np.full((USERS, DOMAIN.dim), np.nan)), fast(), path=path)
    inside = DOMAIN.project(outside())
    honest = protocol.release(by_hand(inside), fast(), path=path, clip=False).total
    assert np.array_equal(honest, protocol.release(inside, fast(), path=path).total)


@each_batch
def test_groups_made_by_hand_are_checked(protocol: BatchProtocol) -> None:
    rows, counts = outside()[:2], np.array([2, 4])
    protocol.release(by_hand(DOMAIN.project(rows), counts), fast(), path="law")
    with pytest.raises(InvalidStatistic, match="a point of"):
        protocol.release(by_hand(rows, counts), fast(), path="law")


def test_statistics_made_by_hand_are_checked_in_streams() -> None:
    with pytest.raises(InvalidStatistic, match="a point of"):
        CONTINUAL.release(CONTINUAL.begin(), by_hand(outside()), fast())


@each_batch
def test_groups_send_no_messages(protocol: BatchProtocol) -> None:
    """A group of users is randomized as if it were one user: too little noise, and the wrong sum."""
    counts = np.full(USERS, 1)
    grouped = protocol.admit(by_hand(DOMAIN.project(outside()), counts))
    with pytest.raises(InvalidStatistic, match="grouped"):
        protocol.device.message(grouped, fast())
    with pytest.raises(InvalidStatistic, match="grouped"):
        protocol.release(grouped, fast())
    protocol.release(grouped, fast(), path="law")


# Guarantees


@pytest.mark.parametrize("protocol", [*BATCH[1:], CONTINUAL], ids=title)
def test_guarantees_over_batches_say_so(protocol: Protocol) -> None:
    needed = protocol.name in ("central_gaussian", "shuffle_gaussian", "shuffle_binomial", "central_continual")
    assert ("(at most 2, each in another batch)" in str(protocol.guarantee)) == needed
    assert protocol.guarantee.to_dict()["batches"] == needed


@pytest.mark.parametrize("protocol", BATCH[1:], ids=title)
def test_one_participation_needs_no_condition(protocol: BatchProtocol) -> None:
    once = replace(protocol, participations=1)
    assert "another batch" not in str(once.guarantee)
    assert "in each participation" in str(once.guarantee)


@pytest.mark.parametrize("protocol", [*BATCH[1:], CONTINUAL], ids=title)
def test_printed_epsilons_hold(protocol: Protocol) -> None:
    """A protocol prints an epsilon below the one that the accountant computed (beyond rounding errors of floats)."""
    stated = protocol.guarantee
    found = re.search(r"with epsilon = (\S+),", str(stated))
    assert found is not None
    assert stated.epsilon * (1 - 2e-9) <= float(found[1]) <= stated.epsilon * (1 + 1.001e-3)
    if stated.shuffler is not None:
        left = re.search(r"the guarantee is epsilon = (\S+), ", str(stated))
        assert left is not None
        assert stated.shuffler.epsilon * (1 - 2e-9) <= float(left[1])
