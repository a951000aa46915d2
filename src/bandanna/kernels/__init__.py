"""Compiled loops for rounds that depend on the last one: Numba's, where it is installed (extra `fast`).

A kernel is a plain function of arrays, beside the NumPy code that it accelerates and that stays the reference: draws go
in, actions come out. Streams, tallies and whatever is rare - a matrix to be repaired, features to be clipped - stay in
Python. Without Numba, or with BANDANNA_KERNELS=off, nothing is lost but time. There is one here, of LinUCB that learns
in every round (`optimist`); another one is the published simulation's of paper 000, in `reproductions`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

SWITCH = "BANDANNA_KERNELS"  # an environment variable
SMALL = 24  # dimensions; larger matrices are BLAS's
BREAK_EVEN = 3000  # rounds of a run, whatever the number of seeds: so that a seed is the same run in any company


def compiled(name: str, *, rounds: int = BREAK_EVEN, module: str = "") -> Callable[..., Any] | None:
    """The kernel of this name for a run of so many rounds; None where the NumPy code is to be used.

    `module` is where it is defined, by default a module of this folder with its name.
    """
    if rounds < BREAK_EVEN or os.environ.get(SWITCH, "on").lower() in ("off", "0", "no"):
        return None
    return _loaded(name, module or f"{__name__}.{name}")


@cache
def _loaded(name: str, module: str) -> Callable[..., Any] | None:
    """Numba is imported here, at the first use of a kernel."""
    try:
        import_module("numba")
    except ImportError:
        return None
    kernel: Callable[..., Any] = getattr(import_module(module), name)
    return kernel
