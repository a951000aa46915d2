"""Factorisations of the prefix sums: how a stream is turned into released numbers, and these into running totals.

`factorise("blt", horizon=20_000)` is the one to use; the trees are the papers', the square root is the yardstick.
"""

from __future__ import annotations

from bandanna.accounting.factorisation.base import Factorisation
from bandanna.accounting.factorisation.blt import BLT, begun
from bandanna.accounting.factorisation.toeplitz import SquareRootToeplitz
from bandanna.accounting.factorisation.tree import BinaryTree, HonakerTree
from bandanna.core import require

__all__ = ["BLT", "BinaryTree", "Factorisation", "HonakerTree", "SquareRootToeplitz", "begun", "factorise"]


def factorise(name: str, *, horizon: int, buffers: int = 4) -> Factorisation:
    """The factorisation of that name ("blt", "tree", "honaker", "toeplitz"); `buffers` concerns "blt" only."""
    require.one_of("mechanism", name, ("blt", "tree", "honaker", "toeplitz"))
    if name == "blt":
        return BLT.optimal(horizon=horizon, buffers=buffers)
    kinds: tuple[type[Factorisation], ...] = (BinaryTree, HonakerTree, SquareRootToeplitz)
    return next(kind for kind in kinds if kind.name == name)(horizon=horizon)
