"""What the tree's shufflers hold, and what they forward."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core.arrays import Ints
from bandanna.protocols.roles import Held
from bandanna.storage.declared import stored_as


@stored_as("HeldLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class HeldLevels:
    """After `users` users: what each level's shuffler holds of its present batch; never published.

    `owed`: of how many users the coins are not yet in it, since path="law", and a mixer that draws them itself, draws
    those of a batch when it is full.
    """

    users: int
    totals: tuple[Ints, ...]  # k times (*R, dim)
    owed: tuple[int, ...]


@stored_as("FullLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class Full:
    """What the analyzer sees after `users` users: totals of the batches that are full then, lowest level first."""

    users: int
    levels: tuple[Held, ...]
