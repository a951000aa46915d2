"""Compiled kernels: loops for rounds that depend on the last one, compiled by Numba if it is installed (`fast`).

The NumPy code stays the reference and handles rare cases. BANDANNA_KERNELS=off does without Numba.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from bandanna.types import Floats

DONE, INDEFINITE, OUTSIDE = 0, 1, 2  # why a kernel returns: a matrix must be repaired, an arm is longer than 1


@dataclass(frozen=True, kw_only=True)
class OptimismTables:
    """The policy's parameters for N rounds of the optimistic kernel.

    Before each round, with G and v the released matrix and vector:

        P = G + weight I,  theta = P^{-1} v                                                       if scale is 0, else
        R = scale G + floor I,  P = G R^{-1} G + weight I,  theta = P^{-1} G R^{-1} v.

    An arm has the index <x, theta> + radius |x|_{P^{-1}}.
    """

    scale: float
    floors: Floats  # (N,)
    weights: Floats  # (N,)
    radii: Floats  # (N,)
    by_coins: bool = True  # between tied arms; else the first of them


SWITCH = "BANDANNA_KERNELS"  # an environment variable
SMALL = 24  # dimensions; larger matrices are BLAS's
BREAK_EVEN = 3000  # rounds of a run, whatever the number of seeds: a seed's run does not depend on the others


def find_kernel(name: str, *, rounds: int = BREAK_EVEN, module: str = "") -> Callable[..., Any] | None:
    """Return the kernel of this name for a run of `rounds` rounds; None if the NumPy code is to be used.

    `module` defines it, by default a module of this folder with its name.
    """
    if rounds < BREAK_EVEN or os.environ.get(SWITCH, "on").lower() in ("off", "0", "no"):
        return None
    return _load_kernel(name, module or "bandanna.numeric.kernels")


@cache
def _load_kernel(name: str, module: str) -> Callable[..., Any] | None:
    try:
        import_module("numba")
    except ImportError:
        return None
    kernel: Callable[..., Any] = getattr(import_module(module), name)
    return kernel
