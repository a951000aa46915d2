"""Factorisations of the prefix sums: how a stream is turned into released numbers, and these into running totals.

`factorise("blt", horizon=20_000)` is the one to use; the tree is the papers'.
"""

from __future__ import annotations

from bandanna.accounting.factorisation.base import Factorisation
from bandanna.accounting.factorisation.blt import BLT, begun
from bandanna.accounting.factorisation.tree import BinaryTree
from bandanna.core import require

__all__ = ["BLT", "BinaryTree", "Factorisation", "begun", "factorise"]


def factorise(name: str, *, horizon: int, buffers: int = 4) -> Factorisation:
    """The factorisation of that name ("blt", "tree"); `buffers` concerns "blt" only."""
    require.one_of("mechanism", name, ("blt", "tree"))
    return BinaryTree(horizon=horizon) if name == "tree" else BLT.optimal(horizon=horizon, buffers=buffers)
