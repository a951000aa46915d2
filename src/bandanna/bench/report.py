"""What was measured: rows, the machine, and what could not be measured for want of an extra."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Self

from bandanna.core import require
from bandanna.errors import Unreadable

FORMAT = 1
SLOW = 3.0  # times its floor: a row beyond it is listed as such
OURS = ("simulation", "agent", "serving")  # parts whose rows we answer for
COLUMNS = (
    *("part", "name", "world", "unit", "sizes", "cpu_seconds", "per_cpu_second", "memory_bytes", "growth"),
    *("floor", "floor_cpu_seconds", "ratio", "slow", "ours", "times_ours"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that was measured.

    part     "floor", "simulation", "agent", "peer" or "serving"
    name     an algorithm, a peer, a floor
    world    what it was run in
    unit     what `cpu_seconds` are for: one round of one seed, one decision, one request, one number
    memory   most bytes held at one time beside what was there before
    growth   exponents of the whole CPU time: {"rounds": 1.0, ...}
    floor    what cannot be done without, and its CPU seconds for the same unit
    ours     of a peer: our nearest equivalent, and its CPU seconds for the same unit
    """

    part: str
    name: str
    world: str
    unit: str
    sizes: Mapping[str, int]
    cpu_seconds: float
    memory: int | None = None
    growth: Mapping[str, float] = field(default_factory=dict)
    floor: tuple[str, float] | None = None
    ours: tuple[str, float] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells rows of one report apart."""
        return self.part, self.name, self.world

    @property
    def ratio(self) -> float | None:
        """How many times longer than its floor it takes."""
        return None if self.floor is None else self.cpu_seconds / self.floor[1]

    @property
    def slow(self) -> bool:
        """Whether it is one of ours, also beside peers, and takes more than 3 times as long as its floor."""
        ours = self.part in OURS or (self.ours is not None and self.name == f"bandanna {self.ours[0]}")
        return ours and self.ratio is not None and self.ratio > SLOW

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        floor, seconds = self.floor or (None, None)
        ours = None if self.ours is None else self.ours[0]
        times = None if self.ours is None else self.cpu_seconds / self.ours[1]
        values = (
            *(self.part, self.name, self.world, self.unit, dict(self.sizes), self.cpu_seconds, 1 / self.cpu_seconds),
            *(self.memory, dict(self.growth), floor, seconds, self.ratio, self.slow, ours, times),
        )
        return dict(zip(COLUMNS, values, strict=True))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """From `to_dict`; what follows from the rest is computed again."""
        seconds, floor, ours = float(told["cpu_seconds"]), told["floor"], told["ours"]
        return cls(
            **{name: str(told[name]) for name in ("part", "name", "world", "unit")},
            sizes={str(name): int(size) for name, size in told["sizes"].items()},
            cpu_seconds=seconds,
            memory=None if told["memory_bytes"] is None else int(told["memory_bytes"]),
            growth={str(name): float(power) for name, power in told["growth"].items()},
            floor=None if floor is None else (str(floor), float(told["floor_cpu_seconds"])),
            ours=None if ours is None else (str(ours), seconds / float(told["times_ours"])),
        )


@dataclass(frozen=True, kw_only=True)
class Absent:
    """What was not measured, and the extra that brings it."""

    name: str
    extra: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All rows of one run on one machine, or of several `runs`; `cpu_seconds`: what they took, with child processes."""

    rows: tuple[Row, ...]
    machine: Mapping[str, Any]
    absent: tuple[Absent, ...] = ()
    cpu_seconds: float = 0.0
    quick: bool = False
    runs: int = 1

    @property
    def slow(self) -> tuple[Row, ...]:
        """Rows of ours that take more than 3 times as long as their floors."""
        return tuple(row for row in self.rows if row.slow)

    def part(self, name: str) -> tuple[Row, ...]:
        """Its rows."""
        return tuple(row for row in self.rows if row.part == name)

    def joined(self, earlier: Report) -> Report:
        """With the rows of an earlier report that were not measured again."""
        again = {row.key for row in self.rows}
        return replace(
            self,
            rows=(*(row for row in earlier.rows if row.key not in again), *self.rows),
            absent=tuple(dict.fromkeys((*earlier.absent, *self.absent))),
            cpu_seconds=earlier.cpu_seconds + self.cpu_seconds,
            quick=self.quick or earlier.quick,
            runs=earlier.runs + self.runs,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": FORMAT,
            "runs": self.runs,
            "quick": self.quick,
            "cpu_seconds": self.cpu_seconds,
            "machine": dict(self.machine),
            "absent": [{"name": each.name, "extra": each.extra} for each in self.absent],
            "rows": [row.to_dict() for row in self.rows],
        }

    @classmethod
    def from_dict(cls, told: Any, place: str = "report") -> Self:
        """From `to_dict`; `place` is named by the error about anything else."""
        if not isinstance(told, Mapping) or not {"format", "rows"} & told.keys():
            raise Unreadable(f"{place}: no report of `bandanna bench --json`")
        try:
            if told["format"] != FORMAT:
                raise Unreadable(f"{place}: a report of format {told['format']}; this version reads {FORMAT}")
            return cls(
                rows=tuple(map(Row.from_dict, told["rows"])),
                machine=dict(told["machine"]),
                absent=tuple(Absent(name=str(each["name"]), extra=str(each["extra"])) for each in told["absent"]),
                cpu_seconds=float(told["cpu_seconds"]),
                quick=bool(told["quick"]),
                runs=int(told["runs"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as fault:
            if isinstance(fault, Unreadable):
                raise
            raise Unreadable(f"{place}: no report of `bandanna bench --json`, or a damaged one") from fault

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """From a file that `bandanna bench --json` has written."""
        file = require.path("path", path)
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise Unreadable(f"{file}: not JSON; `bandanna bench --json > {file.name}` writes it") from None
        return cls.from_dict(told, str(file))
