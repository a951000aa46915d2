"""Paper 002, Figure 2 for any n and k: which users share a batch, when it is released, and which shuffler holds it.

A batch of level j takes the users first, ..., last and is released with the last of them; its level's shuffler is then
free for the next one. The estimate after t users adds the maximal released batches up to t, V*_t (Definition 3.1).
What the horizon does not complete is never released.

Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Figure 2 and Algorithms 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandanna import validation
from bandanna.device.domain import Bits
from bandanna.errors import InvalidArgument
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.batch_tree import BatchTree, plan_tree

HORIZON, SHUFFLERS, EPSILON, DELTA = 32, 3, 1.0, 1e-5
MOST_IN_TEXT = 36  # users whom a terminal has room for


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch: level from 1 (lowest), users from 1; a batch that never fills is not released."""

    level: int
    first: int
    last: int
    released: bool


def batch_tree(
    *,
    horizon: int = HORIZON,
    shufflers: int | str = SHUFFLERS,
    degrees: str | tuple[int, ...] = "best",
    epsilon: float = EPSILON,
    delta: float = DELTA,
) -> BatchTree:
    """The tree for counting bits; degrees "best" suit the budget, "paper" are n^{1/(2k+1)} and n^{2/(2k+1)}."""
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    return plan_tree(Bits(), budget, horizon, shufflers=shufflers, degrees=degrees)


def batches(tree: BatchTree) -> list[Batch]:
    """In the order of their release, then those that the horizon leaves unfinished, lowest level first."""
    full = [Batch(level=level, first=first, last=last, released=True) for level, first, last in tree.spans()]
    left = [
        Batch(level=level, first=count * size + 1, last=tree.horizon, released=False)
        for level, (count, size) in enumerate(zip(tree.batches, tree.sizes, strict=True), start=1)
        if count * size < tree.horizon
    ]
    return full + left


def covering(tree: BatchTree, users: int) -> list[Batch]:
    """V*_t: the maximal released batches that the estimate after t users adds up, in the order of their users."""
    if not 0 <= validation.integer("users", users, least=0) <= tree.horizon:
        raise InvalidArgument("users", users, f"at most the horizon {tree.horizon}")
    found, begin = [], 0
    for level in range(tree.levels, 0, -1):
        size = tree.sizes[level - 1]
        while begin + size <= users:
            found.append(Batch(level=level, first=begin + 1, last=begin + size, released=True))
            begin += size
    return found


def busiest(tree: BatchTree) -> int:
    """The t whose estimate adds most batches of all levels together: a good one to look at."""
    counts = tree.covering(range(1, tree.horizon + 1))  # (n, k)
    levels = (counts > 0).sum(axis=1)
    return 1 + int((levels * (counts.sum() + 1) + counts.sum(axis=1)).argmax())


def text(tree: BatchTree) -> str:
    """For a terminal: a row for each level, some columns for each user; ] is where a batch is released."""
    width = 4 if tree.horizon <= 26 else len(str(tree.horizon)) + 1
    rows = []
    for level in range(tree.levels, 0, -1):
        size, cells = tree.sizes[level - 1], []
        for first in range(0, tree.horizon, size):
            users = min(size, tree.horizon - first)
            cells.append(_bar(users * width, released=users == size))
        rows.append(f"level {level:>2}  {''.join(cells)}")
    rows.append(f"user      {''.join(f'{user:>{width - 1}} ' for user in range(1, tree.horizon + 1))}")
    return "\n".join(row.rstrip() for row in rows)


def _bar(room: int, *, released: bool) -> str:
    """[=======] for a batch that is released, [. . . . for one that never is."""
    return f"[{'=' * (room - 3)}] " if released else f"[{'. ' * room}"[: room - 1] + " "
