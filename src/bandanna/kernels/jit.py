"""How kernels are compiled: once for a machine, where machine code can be kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FILES = sorted(Path(__file__).parent.glob("*.py"))
STAMP = tuple((file.name, found.st_mtime, found.st_size) for file in _FILES for found in (file.stat(),))


def jit(function: Function) -> Function:
    """Compiled at its first call; kept beside the source, or in the user's own cache where that cannot be written.

    Sums are not reordered and products not fused: an arm has the same index wherever it stands among the others. What
    is divided by zero is infinite, as in NumPy: to look at every divisor would take longer than to divide. No array is
    assigned to a slice of another one: Numba would compile messages about shapes with it, which take seconds (`copy`).
    """
    return cast(Function, _made(function))


def part(function: Function) -> Function:
    """The same, of what kernels call and Python must not: there is no way in from there, which would take time to
    compile.
    """
    return cast(Function, _made(function, **_INSIDE))


def _made(function: Callable[..., object], **flags: Any) -> Any:
    try:
        made = numba.njit(cache=True, error_model="numpy", **flags)(function)
    except RuntimeError:  # there is no folder that can be written
        return numba.njit(error_model="numpy", **flags)(function)
    kept = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if kept is not None:  # Numba looks at the function's own file: what it calls stands in others of this folder
        own = Path(function.__code__.co_filename).stat()  # a kernel may be defined elsewhere
        kept._source_stamp = (*STAMP, own.st_mtime, own.st_size)
    return made
