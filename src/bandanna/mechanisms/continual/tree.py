"""A binary tree as a stream: only the complete blocks that make up the present prefix are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.sums import Pair, add
from bandanna.storage.declared import stored_as

Array = NDArray[np.float64]


@stored_as("TreeNode")
@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """A complete block of 2^level elements. `exact` and `rest` are raw data and must stay with the analyzer."""

    exact: Array  # (*R, dim): sum of the block, kept to build the block above
    rest: Array  # (*R, dim): what that sum has beyond its float
    estimate: Array  # (*R, dim): of that sum: this block's release


@stored_as("TreeState")
@dataclass(frozen=True, kw_only=True, eq=False)
class TreeState:
    """After `step` elements: one node for each bit of `step`, largest block first."""

    step: int
    nodes: tuple[Node, ...]
    total: Array  # (*R, dim): the estimate of the prefix sum


def begin(shape: tuple[int, ...]) -> TreeState:
    """Nothing has arrived; `shape` = (*R, dim)."""
    return TreeState(step=0, nodes=(), total=np.zeros(shape))


def advance(state: TreeState, value: Pair, release: Callable[[Pair], Array]) -> TreeState:
    """One element in; every block that it completes is released, once, and takes the place of its two halves."""
    step = state.step + 1
    merges = (step & -step).bit_length() - 1  # trailing zeros: how many levels are completed above the leaf
    kept, closing = state.nodes[: len(state.nodes) - merges], state.nodes[len(state.nodes) - merges :][::-1]
    exact = [value]
    for left in closing:
        exact.append(add((left.exact, left.rest), exact[-1]))
    rows = np.stack([pair[0] for pair in exact], axis=-2), np.stack([pair[1] for pair in exact], axis=-2)
    released = release(rows)  # (*R, merges + 1, dim): one row for each completed block
    nodes = (*kept, Node(exact=exact[-1][0], rest=exact[-1][1], estimate=released[..., -1, :]))
    return TreeState(step=step, nodes=nodes, total=np.sum([node.estimate for node in nodes], axis=0))
