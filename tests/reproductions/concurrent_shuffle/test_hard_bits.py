"""The hard streams of bits alternate as section 4 of paper 002 says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.rng import Streams
from reproductions.concurrent_shuffle.hard_bits import HardBits


@pytest.mark.parametrize("start", [0, 2])
def test_single_and_repeated_bits_alternate(start: int) -> None:
    """A stream is not: a start of equal bits, then one fair bit and r copies of another, to the horizon."""
    hard = HardBits(horizon=2003, shufflers=1, epsilon=0.1, start=start, first=1)
    streams = hard.draw(Streams(range(200)))
    assert np.array_equal(hard.bits(Streams(range(200))), streams == 1.0)
    assert np.array_equal(hard.counts(Streams(range(200))), np.cumsum(streams, axis=1))
    assert streams.shape == (200, 2003)
    assert set(np.unique(streams)) == {0.0, 1.0}
    assert np.all(streams[:, :start] == 1.0)
    period = hard.repeats + 1
    rest = streams[:, start : start + (2003 - start) // period * period].reshape(200, -1, period)
    assert np.all(rest[..., 1:] == rest[..., 1:2])
    flips = rest[..., :2].reshape(200, -1)  # all of them fair and independent: 5 standard errors
    assert abs(np.mean(flips) - 0.5) < 5 / math.sqrt(4 * flips.size)
    assert abs(np.mean(flips[:, 1:] == flips[:, :-1]) - 0.5) < 5 / math.sqrt(4 * flips.size)


def test_a_seed_has_its_stream_in_any_company() -> None:
    hard = HardBits(horizon=100, shufflers=1)
    assert np.array_equal(hard.draw(Streams([3, 7]))[1], hard.draw(Streams([7]))[0])


def test_lower_bound_is_the_printed_one() -> None:
    c = math.e / (math.e**2 + 1)
    assert HardBits(horizon=1000, shufflers=1).lower_bound == pytest.approx(0.5 * 10 * c ** (2 / 3))
    for k in (1, 2, 5):
        ratio = HardBits(horizon=2**20, shufflers=k).lower_bound / HardBits(horizon=2**10, shufflers=k).lower_bound
        assert math.log2(ratio) / 10 == pytest.approx(1 / (2 * k + 1))
    assert HardBits(horizon=10, shufflers=3).repeats == 1


def test_the_bound_is_claimed_under_the_conditions_of_the_theorem() -> None:
    assert not HardBits(horizon=2**16, shufflers=1).proven(1e-5)
    assert not HardBits(horizon=2**16, shufflers=1).proven(1e-9)  # too few users
    assert HardBits(horizon=10**9, shufflers=1).proven(1e-13)
    assert not HardBits(horizon=10**9, shufflers=1).proven(1e-5)


def test_bad_streams_of_bits_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="start"):
        HardBits(horizon=100, shufflers=1, start=50)
    with pytest.raises(InvalidArgument, match="first"):
        HardBits(horizon=100, shufflers=1, first=2)
    for wrong in (range(3), np.random.default_rng(0), 7):
        with pytest.raises(InvalidArgument, match="streams"):
            HardBits(horizon=100, shufflers=1).draw(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidBudget):
        HardBits(horizon=100, shufflers=1, epsilon=-1.0)


def test_ones_of_long_blocks_are_counted_too() -> None:
    hard = HardBits(horizon=40_001, shufflers=1, epsilon=0.1, start=3, first=1)
    assert hard.repeats > 8
    assert np.array_equal(hard.counts(Streams(range(3))), np.cumsum(hard.bits(Streams(range(3))), axis=1))
