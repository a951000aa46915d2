"""What it takes to be known by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A name, where it comes from, whom its users trust, what it protects, what it guarantees, and how it is made.

    kind     the policy's class, whose arguments a file may set
    options  the numbers of its budget, its calibration and the like, that `make` takes beside those arguments
    """

    name: str
    paper: str
    trust: str
    protects: str
    guarantee: str
    make: Callable[..., Any]
    kind: type[Any]
    options: tuple[str, ...] = ()
