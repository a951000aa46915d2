"""Prefix sums from block sums, beside a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bandanna.numeric import exact_sums

from ..drawn import examples


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**31))
def test_sums_of_parts_are_numpys(degree: int, count: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, count * degree + rng.integers(3), dim)) * 10.0 ** rng.integers(-9, 9, (2, 1, 1))
    for each in (parts, rng.integers(0, 2**40, parts.shape)):
        groups = each[:, : count * degree].reshape(2, count, degree, dim)
        assert np.array_equal(exact_sums.sum_parts(each, count, degree), np.sum(groups, axis=-2))


@given(st.integers(2, 12), st.integers(1, 40), st.integers(0, 11), st.integers(0, 2**31))
def test_what_is_after_a_block_is_the_same_for_few_and_many_parts(
    degree: int, count: int, rest: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    low, high = rng.normal(size=(2, count * degree + rest % degree, 1)), rng.normal(size=(2, count, 1))
    found = exact_sums.compute_prefixes([low, high], [degree])
    inside, above = (np.concatenate([np.zeros((2, 1, 1)), np.cumsum(each, axis=1)], axis=1) for each in (low, high))
    parent = np.arange(inside.shape[1]) // degree
    assert np.allclose(found, (above[:, parent] + inside - inside[:, parent * degree])[:, 1:], rtol=0, atol=1e-12)


@examples(30, full=100)
@given(st.integers(1, 60), st.lists(st.integers(2, 5), max_size=3), st.integers(0, 2**31))
def test_prefixes_are_sums_of_maximal_blocks(lowest: int, degrees: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = [lowest]
    for degree in degrees:
        if counts[-1] // degree < 1:
            break
        counts.append(counts[-1] // degree)
    degrees = degrees[: len(counts) - 1]
    own = [rng.normal(size=(2, count, 1)) for count in counts]
    weights = [1.0, *rng.uniform(0.2, 1.0, len(counts) - 1)]
    blocks = exact_sums.average_blocks(own, degrees, weights)
    found = exact_sums.compute_prefixes(blocks, degrees)
    for q in range(1, lowest + 1):
        left, total, sizes = 0, np.zeros((2, 1)), np.cumprod([1, *degrees])
        for level in reversed(range(len(counts))):
            while left + sizes[level] <= q:
                total = total + estimate(own, degrees, weights, level, left // sizes[level])
                left += sizes[level]
        assert np.allclose(found[:, q - 1], total)


def estimate(own: list, degrees: list[int], weights: list[float], level: int, block: int) -> np.ndarray:
    if level == 0:
        return own[0][:, block]
    degree = degrees[level - 1]
    parts = [estimate(own, degrees, weights, level - 1, block * degree + i) for i in range(degree)]
    return weights[level] * own[level][:, block] + (1 - weights[level]) * sum(parts)
