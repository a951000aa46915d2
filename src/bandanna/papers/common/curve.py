"""What was run, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.simulation.result import Result

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A row of plain values, and the result behind it: None where there was nothing to run, and a note says why.

    row   for JSON: what was run, what is guaranteed, how it ended
    more  what only tables and drawings show
    promise  of what ran, where no result states it
    """

    row: Row
    more: Row = field(default_factory=dict)
    result: Result | None = None
    promise: Guarantee | None = None

    @property
    def guarantee(self) -> Guarantee | None:
        """Of what ran."""
        return self.promise if self.result is None else self.result.guarantee

    @property
    def shown(self) -> Row:
        """Everything that a table or a label may show."""
        return self.row | self.more


def rows_of(found: Any) -> dict[str, Any]:
    """The rows of all, for JSON."""
    return {"rows": [each.row for each in found]}


def ending(result: Result | None) -> Row:
    """Mean and standard error at the horizon; None where there is none."""
    if result is None:
        return dict.fromkeys(("mean", "stderr", "n_seeds", "horizon"))
    return {
        "mean": float(result.mean()[-1]),
        "stderr": finite(float(result.stderr()[-1])),  # None for a single seed
        "n_seeds": result.n_seeds,
        "horizon": result.horizon,
    }


def counted(result: Result | None) -> dict[str, float]:
    """Means over the seeds of whatever the policy counts."""
    return {} if result is None else {name: float(np.mean(values)) for name, values in result.counts.items()}


def finite(value: float) -> float | None:
    """None instead of an infinity or NaN, which JSON does not have."""
    return float(value) if math.isfinite(value) else None


def noted(found: Sequence[Curve], words: str) -> list[str]:
    """Notes, after `words` that say of which row; once for all algorithms that share it."""
    notes: dict[str, list[str]] = {}
    for curve in found:
        if curve.row.get("note"):
            notes.setdefault(f"{words.format(**curve.shown)}: {curve.row['note']}", []).append(curve.row["algorithm"])
    return [f"{', '.join(algorithms)}, {note}" for note, algorithms in notes.items()]
