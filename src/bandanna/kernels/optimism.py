"""What the kernel of optimists must know of a policy for some rounds."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core.arrays import Floats

DONE, INDEFINITE, OUTSIDE = 0, 1, 2  # why a kernel returns: a matrix must be repaired, an arm is longer than 1


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """Before each of N rounds, with G and v the released matrix and vector:

        P = G + weight I,  theta = P^{-1} v                                                       where scale is 0, else
        R = scale G + floor I,  P = G R^{-1} G + weight I,  theta = P^{-1} G R^{-1} v;

    the index of an arm is <x, theta> + radius |x|_{P^{-1}}.
    """

    scale: float
    floors: Floats  # (N,)
    weights: Floats  # (N,)
    radii: Floats  # (N,)
    by_coins: bool = True  # between tied arms; else the first of them
