"""What can be drawn: anything that has regret over time, such as the result of a simulation."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bandanna.core.arrays import Floats, Ints
from bandanna.theory.catalogue import Curve


@runtime_checkable
class Drawable(Protocol):
    """Mean regret at `checkpoints` with its standard error, and what the papers prove about it."""

    @property
    def checkpoints(self) -> Ints:
        """Rounds, (C,)."""

    @property
    def horizon(self) -> int:
        """The last checkpoint."""

    @property
    def n_seeds(self) -> int:
        """Independent runs."""

    @property
    def label(self) -> str:
        """What it is called where nothing else is said."""

    @property
    def setting(self) -> dict[str, Any]:
        """Of policy and world."""

    def mean(self) -> Floats:
        """(C,)."""

    def stderr(self) -> Floats:
        """(C,); NaN for a single run."""

    def bounds(self) -> list[Curve]:
        """At every checkpoint."""
