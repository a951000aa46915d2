"""Regret bounds of the papers."""

from __future__ import annotations

from bandanna.policies.theory import contextual, finite, linear
from bandanna.policies.theory.base import BOUNDS, Bound

__all__ = [
    "BOUNDS",
    "Bound",
    "contextual",
    "finite",
    "linear",
]
