"""The tree of batches: which batches cover a prefix, which degrees are best, and how the price is split."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument
from bandanna.privacy import gdp
from bandanna.protocols.batch_tree import (
    BatchTree,
    best_tree,
    most_shufflers,
    optimal_shares,
    paper_tree,
    unit_std,
    worst_variance,
)

from ..drawn import examples

NOISE = 1 / gdp.mu(1.0, 1e-5)

trees_ = st.builds(
    lambda degrees, extra: BatchTree(horizon=math.prod(degrees) + extra, degrees=tuple(degrees)),
    st.lists(st.integers(2, 5), min_size=1, max_size=4),
    st.integers(0, 400),
)


@examples(30, full=100)
@given(trees_)
def test_covering_batches_are_the_maximal_full_ones(tree: BatchTree) -> None:
    full: dict[int, list[tuple[int, int]]] = {level: [] for level in range(1, tree.levels + 1)}
    spans = list(tree.spans())
    assert [t for *_, t in spans] == sorted(t for *_, t in spans)
    for level, first, last in spans:
        full[level].append((first, last))
    assert tuple(len(batches) for batches in full.values()) == tree.batches
    for t in range(tree.horizon + 1):
        expected, reached = [0] * tree.levels, 0
        for level in range(tree.levels, 0, -1):
            for first, last in full[level]:
                if first == reached + 1 and last <= t:
                    expected[level - 1] += 1
                    reached = last
        assert tree.covering(t).tolist() == expected
        assert t - reached <= tree.delay


@given(trees_, st.lists(st.floats(0.01, 10.0), min_size=4, max_size=4))
def test_the_worst_prefix_is_among_the_candidates(tree: BatchTree, variances: list[float]) -> None:
    v = np.asarray(variances[: tree.levels])
    every = tree.covering(np.arange(1, tree.horizon + 1)) @ v
    assert np.max(tree.covering(tree.worst_steps) @ v) == pytest.approx(np.max(every), rel=1e-12)
    assert np.all(tree.worst_steps <= tree.horizon)


@pytest.mark.parametrize("horizon", [*range(2, 70), 1000, 65_535, 65_536, 1_000_000])
@pytest.mark.often(of=lambda horizon: horizon < 10 or horizon in (15, 16, 17, 26, 27, 28, 63, 64, 65, 1000, 65_536))
def test_there_is_a_tree_for_every_horizon(horizon: int) -> None:
    for k in range(1, most_shufflers(horizon) + 1):
        for tree in (best_tree(horizon, k, noise=NOISE, bound=1.0), paper_tree(horizon, k)):
            assert tree.levels == k
            assert tree.sizes[-1] <= horizon
            assert len(optimal_shares(tree, True)) == k
            assert min(optimal_shares(tree, True)) > 0
    with pytest.raises(InvalidArgument, match="shufflers"):
        best_tree(horizon, most_shufflers(horizon) + 1, noise=NOISE, bound=1.0)
    with pytest.raises(InvalidArgument, match="shufflers"):
        paper_tree(horizon, most_shufflers(horizon) + 1)


def all_degrees(horizon: int, k: int) -> Iterator[tuple[int, ...]]:
    """Of k levels, the lowest batches of which fit into the horizon."""
    if k == 0:
        yield ()
    for degree in range(2, horizon + 1) if k else ():
        yield from ((degree, *rest) for rest in all_degrees(horizon // degree, k - 1))


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize(("horizon", "k"), [(30, 1), (30, 2), (64, 2), (64, 3), (100, 3), (60, 4)])
def test_best_degrees_are_the_best(horizon: int, k: int, averaging: bool) -> None:

    def error(tree: BatchTree) -> float:
        return NOISE * unit_std(tree, averaging) + tree.delay

    chosen = error(best_tree(horizon, k, noise=NOISE, bound=1.0, averaging=averaging))
    every = (BatchTree(horizon=horizon, degrees=degrees) for degrees in all_degrees(horizon, k))
    assert chosen <= 1.02 * min(error(tree) for tree in every)


def test_best_number_of_shufflers() -> None:
    """Another number of shufflers has a smaller error than the one that is called best."""
    for horizon in (10, 1000, 20_000):

        def error(tree: BatchTree) -> float:
            return NOISE * unit_std(tree, True) + tree.delay

        chosen = best_tree(horizon, "best", noise=NOISE, bound=1.0)
        single = [best_tree(horizon, k, noise=NOISE, bound=1.0) for k in range(1, most_shufflers(horizon) + 1)]
        assert error(chosen) == min(map(error, single))


def test_a_fixed_lowest_batch_is_kept() -> None:
    for shufflers in (1, 2, 4, "best"):
        assert best_tree(10_000, shufflers, noise=NOISE, bound=1.0, lowest=37).sizes[0] == 37
    assert paper_tree(10_000, 3, 37).sizes[0] == 37
    with pytest.raises(InvalidArgument):
        best_tree(100, 3, noise=NOISE, bound=1.0, lowest=40)


@pytest.mark.parametrize("power", range(2, 16))
def test_many_shufflers_are_algorithm_2(power: int) -> None:
    tree = paper_tree(2**power, power - 1)
    assert tree.degrees == (2,) * (power - 1)
    assert tree.batches[-1] == 2


def test_papers_degrees() -> None:
    """The paper's degrees are not n^{1/(2k+1)} and n^{2/(2k+1)}, rounded."""
    assert paper_tree(2**15, 1).degrees == (32,)
    assert paper_tree(10**5, 2).degrees == (10, 100)
    assert paper_tree(3**7, 3).degrees == (3, 9, 9)
    assert paper_tree(3**7, 3).batches[-1] == 9


@given(trees_.filter(lambda tree: tree.levels > 1), st.integers(0, 2**31), st.booleans())
def test_the_split_is_the_least(tree: BatchTree, seed: int, averaging: bool) -> None:
    nodes = np.array([*(d - 1 for d in tree.degrees[1:]), tree.batches[-1]], dtype=float)

    def variance(split: np.ndarray) -> float:
        precision = [split[0]]
        for own, degree in zip(split[1:], tree.degrees[1:], strict=True):
            precision.append(own + averaging * precision[-1] / degree)
        return float(np.sum(nodes / np.asarray(precision)))

    from bandanna.protocols.batch_tree import _optimal_shares_for

    best = np.asarray(_optimal_shares_for(tree, tree.batches[-1], averaging))
    assert np.sum(best) == pytest.approx(1.0)
    rng = np.random.default_rng(seed)
    for spread in (0.01, 0.1, 1.0):
        other = best * np.exp(spread * rng.normal(size=len(best)))
        assert variance(best) <= variance(other / np.sum(other)) * (1 + 1e-12)
    split = optimal_shares(tree, averaging)
    assert worst_variance(tree, [1 / s for s in split], averaging) <= variance(best) * (1 + 1e-9)


def test_the_split_of_the_specification() -> None:
    """Without averaging, mu_j^2 is not proportional to sqrt(m_j): m = (255, 15, 1) gives 20.84 instead of 28.51."""
    tree = BatchTree(horizon=2 * 256 * 16, degrees=(2, 256, 16))  # one batch on top
    assert tree.batches[-1] == 1
    split = optimal_shares(tree, averaging=False)
    roots = np.sqrt([255.0, 15.0, 1.0])
    assert np.allclose(split, roots / roots.sum())
    assert float(np.sum(roots)) == pytest.approx(20.8417, abs=1e-4)


@pytest.mark.parametrize("degrees", [(), (1,), (2, 1), (2, 2.5), (4, 4)])
def test_bad_degrees(degrees: tuple[float, ...]) -> None:
    """Degrees that are no tree over the horizon are taken."""
    with pytest.raises(InvalidArgument, match="degrees"):
        BatchTree(horizon=15, degrees=degrees)  # type: ignore[arg-type]


def test_bad_numbers_of_shufflers() -> None:
    """Half a shuffler, none, or a word that is not "best" passes."""
    for wrong in (0, 1.5, "most"):
        with pytest.raises(InvalidArgument, match="shufflers"):
            best_tree(100, wrong, noise=NOISE, bound=1.0)  # type: ignore[arg-type]
