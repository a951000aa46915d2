"""The picture of batches over time: what is released when, and what an estimate adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument
from bandanna.protocols.batch_tree import BatchTree
from reproductions.concurrent_shuffle.tree import batch_tree, batches, busiest, covering, text

from ...drawn import examples

FIGURE_2 = BatchTree(horizon=8, degrees=(2, 2))  # of the paper


def test_the_tree_is_that_of_figure_2() -> None:
    spans = [(batch.level, batch.first, batch.last) for batch in batches(FIGURE_2)]
    assert spans == [(1, 1, 2), (1, 3, 4), (2, 1, 4), (1, 5, 6), (1, 7, 8), (2, 5, 8)]
    for t in (6, 7):
        assert [(batch.first, batch.last) for batch in covering(FIGURE_2, t)] == [(1, 4), (5, 6)]
    assert [(batch.first, batch.last) for batch in covering(FIGURE_2, 8)] == [(1, 4), (5, 8)]
    assert covering(FIGURE_2, 0) == covering(FIGURE_2, 1) == []
    with pytest.raises(InvalidArgument, match="users"):
        covering(FIGURE_2, 9)


@examples(25, full=100)
@given(horizon=st.integers(2, 300), k=st.integers(1, 4))
def test_each_level_covers_every_user_once(horizon: int, k: int) -> None:
    if 2**k > horizon:
        with pytest.raises(InvalidArgument, match="shufflers"):
            batch_tree(horizon=horizon, shufflers=k)
        return
    tree = batch_tree(horizon=horizon, shufflers=k)
    for level in range(1, k + 1):
        row = sorted((b for b in batches(tree) if b.level == level), key=lambda b: b.first)
        assert [b.first for b in row] == [1, *(b.last + 1 for b in row[:-1])]
        assert row[-1].last == horizon
        assert [b.released for b in row] == [b.last - b.first + 1 == tree.sizes[level - 1] for b in row]
    t = busiest(tree)
    counts = [sum(b.level == level for b in covering(tree, t)) for level in range(1, k + 1)]
    assert counts == list(tree.covering(t))


def test_the_tree_is_drawn_as_text() -> None:
    assert text(BatchTree(horizon=5, degrees=(2, 2))).splitlines() == [
        "level  2  [=============] [.",
        "level  1  [=====] [=====] [.",
        "user        1   2   3   4   5",
    ]
    assert max(map(len, text(batch_tree(horizon=36)).splitlines())) <= 120
