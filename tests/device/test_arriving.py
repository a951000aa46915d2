"""Batches that arrive in parts."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.device.domain import Ball, Box, Statistic, StreamedStatistic
from bandanna.device.noise import ReplicatedNoise
from bandanna.errors import InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

DOMAIN = Ball(dim=3)
VALUES = np.random.default_rng(0).normal(size=(2, 10, 3))  # two replicates, ten users, some of them clipped


def whole() -> Statistic:
    """All users at once."""
    return DOMAIN.admit(VALUES)


def arriving(users: int = 10) -> StreamedStatistic:
    """Three, three, three and one."""
    parts = (DOMAIN.admit(VALUES[:, begin : begin + 3]) for begin in range(0, 10, 3))
    return StreamedStatistic(DOMAIN, users=users, source=parts, replicates=(2,))


def test_the_parts_are_the_whole() -> None:
    assert arriving().users == whole().users
    np.testing.assert_allclose(arriving().total(), whole().total(), rtol=1e-12)
    np.testing.assert_array_equal(arriving().rows(), whole().rows())
    read = arriving()
    read.total()
    np.testing.assert_array_equal(read.clipped, whole().clipped)
    assert np.all(read.clipped > 0)


def test_it_is_read_once_and_to_the_end() -> None:
    batch = arriving()
    batch.total()
    with pytest.raises(InvalidStatistic, match="got 0"):
        batch.total()
    with pytest.raises(InvalidStatistic, match="got 10"):
        arriving(users=11).total()


def test_every_part_is_checked() -> None:
    """A part that no domain has checked gets in as it is, or so does one of another domain."""
    wild = Statistic(domain=DOMAIN, values=np.full((2, 1, 3), 9.0), clipped=np.zeros(2, dtype=np.int64))
    batch = StreamedStatistic(DOMAIN, users=1, source=[wild], replicates=(2,))
    with pytest.raises(InvalidStatistic, match="a point of"):
        batch.total()
    other = Box(dim=3).admit(np.zeros((2, 1, 3)))
    with pytest.raises(InvalidStatistic, match="statistics of"):
        StreamedStatistic(DOMAIN, users=1, source=[other], replicates=(2,)).total()


def test_the_law_of_the_vector_sum_does_not_depend_on_the_parts() -> None:
    noise = ShuffleBinomial.calibrate(domain=DOMAIN, budget=ApproxDP(epsilon=1.0, delta=1e-5), batch=10)
    one = noise.release(whole(), ReplicatedNoise(Streams([5, 6])), path="law")
    other = noise.release(arriving(), ReplicatedNoise(Streams([5, 6])), path="law")
    np.testing.assert_array_equal(one.total, other.total)
