"""How kernels are compiled: once for a machine, where machine code can be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compiled at its first call; kept beside the source, or in the user's own cache where that cannot be written.

    Sums are not reordered and products not fused: an arm has the same index wherever it stands among the others.
    Machine code is kept for a file as it is: so a kernel calls nothing but what stands in its own file.
    """
    try:
        return cast(Function, numba.njit(cache=True)(function))
    except RuntimeError:  # there is no folder that can be written
        return cast(Function, numba.njit(function))
