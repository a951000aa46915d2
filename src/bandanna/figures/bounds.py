"""Bounds as lines of a figure: those with known constants as they are, rates through the measured end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.figures.curves import Drawable


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundLine:
    """A bound of the curve number `index`, where it is positive."""

    index: int
    label: str
    rounds: Floats
    values: Floats
    side: str
    explicit: bool

    @property
    def text(self) -> str:
        """The label; a bound's last value, which a rate does not have."""
        return (
            f"{self.label}  {self.values[-1]:,.{0 if self.values[-1] >= 100 else 1}f}" if self.explicit else self.label
        )

    @property
    def dashes(self) -> Any:
        """Long for upper bounds, short for lower ones, dotted for rates, sparsely for lower ones."""
        long, short = ((6, 2), (3, 2)) if self.explicit else ((1, 1.5), (1, 4))
        return (0, long if self.side == "upper" else short)


def bound_lines(curves: Sequence[tuple[str, Drawable]]) -> list[BoundLine]:
    """The bounds of all results; a figure for which none is known is refused."""
    lines: list[BoundLine] = []
    for index, (_, result) in enumerate(curves):
        for curve in result.bounds():
            shown = np.isfinite(curve.values) & (curve.values > 0)
            values, rounds = curve.values[shown], result.checkpoints[shown].astype(float)
            if not curve.bound.explicit:
                end = float(result.mean()[-1])
                if end <= 0 or not len(values):
                    continue
                values = values * (end / values[-1])
            if len(values) and not _known(lines, curve.label, values):
                line: dict[str, Any] = {"index": index, "label": curve.label, "rounds": rounds, "values": values}
                lines.append(BoundLine(**line, side=curve.bound.side, explicit=curve.bound.explicit))
    if not lines:
        policies = sorted({str(result.setting.get("policy", "unknown")) for _, result in curves})
        raise InvalidArgument("bounds", True, f"policies of which a bound is known; none is for {', '.join(policies)}")
    return lines


def note_of(lines: Sequence[BoundLine]) -> str:
    """What a reader must know about the lines."""
    parts = []
    if any(line.side == "lower" for line in lines):
        parts.append("lower bounds: for the worst instance")
    if any(not line.explicit for line in lines):
        parts.append("rates: scaled to the end")
    return "".join(f"; {part}" for part in parts)


def _known(lines: Sequence[BoundLine], label: str, values: Floats) -> bool:
    """The same line is drawn once, for the first result that has it."""
    return any(each.label == label and np.array_equal(each.values, values) for each in lines)
