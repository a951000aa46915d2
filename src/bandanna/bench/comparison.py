"""Two reports side by side: which rows became slower or faster, as ratios to their floors.

Another machine, or a busier one, changes the floors as much as what stands on them: so seconds are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandanna.bench.report import OURS, Report, Row
from bandanna.core import require
from bandanna.errors import InvalidArgument

THRESHOLD = 1.3  # times the ratio before: below it is noise of the machine


@dataclass(frozen=True, kw_only=True)
class Change:
    """A row of both reports: how many times its floor it took before, and takes now."""

    row: Row
    before: float
    now: float

    @property
    def times(self) -> float:
        """Above 1: slower."""
        return self.now / self.before

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        part, name, world = self.row.key
        told = {"part": part, "name": name, "world": world}
        return {**told, "ratio_before": self.before, "ratio": self.now, "times": self.times}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Every row that both reports have at the same sizes; `apart`: rows of ours that only one of them has.

    note  why nothing could be compared; "" where something was
    """

    changes: tuple[Change, ...]
    apart: tuple[tuple[str, str, str], ...]
    threshold: float
    note: str = ""

    @property
    def slower(self) -> tuple[Change, ...]:
        """By more than the threshold, the worst first."""
        found = (change for change in self.changes if change.times > self.threshold)
        return tuple(sorted(found, key=lambda change: -change.times))

    @property
    def faster(self) -> tuple[Change, ...]:
        """By more than the threshold, the best first."""
        found = (change for change in self.changes if change.times < 1 / self.threshold)
        return tuple(sorted(found, key=lambda change: change.times))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "threshold": self.threshold,
            "compared": len(self.changes),
            "note": self.note,
            "slower": [change.to_dict() for change in self.slower],
            "faster": [change.to_dict() for change in self.faster],
            "apart": [dict(zip(("part", "name", "world"), key, strict=True)) for key in self.apart],
        }


def require_threshold(threshold: float) -> float:
    """Above 1."""
    allowed = "a finite number > 1: how many times the ratio before is slower"
    number = require.finite("threshold", threshold, allowed)
    if not number > 1:
        raise InvalidArgument("threshold", threshold, allowed)
    return number


def compare(now: Report, before: Report, *, threshold: float = THRESHOLD) -> Comparison:
    """Rows of ours by part, name and world, where sizes and floor are the same; all others are `apart`."""
    threshold = require_threshold(threshold)
    rows, old = _ours(now), _ours(before)
    changes = tuple(
        Change(row=row, before=ratio, now=float(row.ratio or 0))
        for key, row in rows.items()
        if (ratio := _same(row, old.get(key))) is not None
    )
    met = {change.row.key for change in changes}
    apart = tuple(sorted((rows.keys() | old.keys()) - met))
    note = "" if changes else _nothing(now, before)
    return Comparison(changes=changes, apart=apart, threshold=threshold, note=note)


def _nothing(now: Report, before: Report) -> str:
    """Why no row is in both."""
    if now.quick != before.quick:
        which = "the later" if now.quick else "the earlier"
        return f"{which} report was measured with --quick, at other sizes than the other one: no row is in both"
    return "no row of ours is in both reports, of the same name, sizes and floor"


def _ours(report: Report) -> dict[tuple[str, str, str], Row]:
    return {row.key: row for row in report.rows if row.part in OURS and row.ratio is not None}


def _same(row: Row, old: Row | None) -> float | None:
    """The ratio before, if the row was there at the same sizes and on the same floor."""
    if old is None or row.sizes != old.sizes or row.floor is None or old.floor is None:
        return None
    return old.ratio if row.floor[0] == old.floor[0] else None
