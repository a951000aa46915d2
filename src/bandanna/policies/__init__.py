"""Policies: what is published, how arms are chosen, what is learned."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("finite", "glm", "linear", "population", "theory")


def __getattr__(name: str) -> Any:
    """Load a module when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
