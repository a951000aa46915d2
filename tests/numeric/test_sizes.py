"""Sizes of batches as runs: the same as a tuple of them, without its length."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.numeric.exact_sums import RunLengthSizes

SIZES = st.lists(st.integers(1, 4), max_size=12)


@given(SIZES)
def test_runs_are_their_sizes(plain: list[int]) -> None:
    sizes = RunLengthSizes.of(plain)
    assert list(sizes) == [sizes[number] for number in range(len(sizes))] == plain
    before = [sizes.before(number) for number in range(len(plain) + 1)]
    assert before == [0, *itertools.accumulate(plain)]
    assert sizes.users == sum(plain)
    assert sizes.counts() == {size: plain.count(size) for size in plain}
    assert np.array_equal(sizes.each(size for size, _ in sizes.runs), plain)
    assert sizes == RunLengthSizes.of(iter(plain))
    assert len(sizes.runs) == len(list(itertools.groupby(plain)))


@given(SIZES, st.sampled_from([-1, 0, 1]))
def test_there_is_nothing_beyond_the_last(plain: list[int], beyond: int) -> None:
    sizes = RunLengthSizes.of(plain)
    with pytest.raises(IndexError):
        _ = sizes[-1 if beyond < 0 else len(plain) + beyond]


def test_a_long_run_takes_no_room() -> None:
    sizes = RunLengthSizes(((3, 10**15), (7, 10**15)))
    assert (sizes[10**15 - 1], sizes[10**15]) == (3, 7)
    assert sizes.before(10**15 + 2) == 3 * 10**15 + 14
    assert sizes.users == 10**16
