"""What was measured: rows, the machine, and what could not be measured for want of an extra.

Two reports are compared by the ratios of rows to their floors: which became slower or faster. Another machine, or a
busier one, changes the floors as much as what stands on them: so seconds are never compared. `page_of`
writes docs/appendix/benchmarks.md from a report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Self

from bandanna import validation
from bandanna.errors import InvalidArgument, Unreadable

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
            raise Unreadable(f"{place}: no report of `python -m benchmarks --json`")
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
            raise Unreadable(f"{place}: no report of `python -m benchmarks --json`, or a damaged one") from fault

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """From a file that `python -m benchmarks --json` has written."""
        file = validation.path("path", path)
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise Unreadable(f"{file}: not JSON; `python -m benchmarks --json > {file.name}` writes it") from None
        return cls.from_dict(told, str(file))


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
    number = validation.finite("threshold", threshold, allowed)
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


AXES = ("rounds", "horizon", "arms", "dim", "seeds", "users")
FLOOR = (  # in a sentence
    "A *floor* is the least work of a row: draw arms and rewards if they are fresh, find the largest score if "
    "they are fixed and in a single decision, answer a request by a bare server. It learns nothing and protects nobody."
)
PROSE = {
    "simulation": (
        "## Every algorithm, many seeds at once\n\nCPU time for one round of one seed in `bd.simulate`, the largest "
        "memory of the simulation, and exponents of growth with rounds, arms (K), features (d), seeds, and clients of "
        "a phase, fitted to three sizes. Fixed costs make exponents smaller. `fixed`, `sphere`: fixed arms. `fresh`, "
        "`contexts`, `logistic`: new arms in every round. `people`: one action for a population."
    ),
    "agent": (
        "## One decision at a time\n\n`Agent.act` and `observe` for one stream, with seeded noise. Exponents of growth "
        "of the same number of decisions with horizon, arms and features (0: no influence), and of all decisions "
        "with the number of different users (1: each costs the same), from two sizes."
    ),
    "peer": (
        "## Beside other libraries\n\nThe nearest equivalent of each library, without privacy, in the same run. They "
        "have a model for every arm; our LinUCB has one model for all arms. They run many seeds one after another, "
        "Bandanna side by side. Above 1 in the last column: slower than Bandanna."
    ),
    "serving": "## Serving\n\nCPU time of the server for one report over a kept connection.",
    "floor": (
        "## Floors\n\nThe floor of a simulation is to draw its arms and rewards if arms are fresh, and one product of "
        "arms and a vector with its argmax if they are fixed. The floor of drawing and of argmax is to copy as many "
        "numbers in memory."
    ),
}


def short(number: float) -> str:
    """Three digits, and never a power of ten."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}" if number >= 1e-4 else f"{number:.5f}"


def page_of(report: Report) -> str:
    """Markdown."""
    parts = [_head(report), *(_part(report, part) for part in PROSE)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Report) -> str:
    machine = report.machine
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    absent = "".join(f"\n* not installed: {each.name} (extra `{each.extra}`)" for each in report.absent)
    return (
        "# Benchmarks\n\n"
        "This page is generated from the report [benchmarks.json](benchmarks.json). To measure again:\n\n"
        "```text\nOMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks --json "
        "--page docs/appendix/benchmarks.md > docs/appendix/benchmarks.json\n```\n\n"
        "All times are CPU times. Another machine has others, so compare ratios. "
        f"{FLOOR} Every row was measured beside its floor; *times its floor* is the ratio of both "
        f"(bold if the row is ours and the ratio above {SLOW:g}), all in {_runs(report)}. "
        "`python -m benchmarks --compare docs/appendix/benchmarks.json` reports changes of the ratios. "
        "To measure a part, an algorithm or another library:\n\n"
        "```text\npython -m benchmarks --only LinUCB --only 'river LinUCB'\n```\n\n"
        f"* {machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GB, "
        f"{machine['system']}, Python {machine['python']}, {machine['blas']}\n"
        f"* {libraries}\n"
        f"* load of the machine at the end: {machine['load']}{absent}"
    )


def _runs(report: Report) -> str:
    took = f"took {report.cpu_seconds:.0f} CPU seconds"
    if report.runs == 1:
        return f"one run, which {took}"
    return f"{report.runs} runs of some parts each, which {took}"


def _rows(report: Report, part: str) -> list[Row]:
    """Of a section: other servers stand beside ours, not beside other bandits."""
    if part == "serving":
        return [row for row in report.rows if row.unit == "request" and row.part != "floor"]
    return [row for row in report.rows if row.part == part and (part != "peer" or row.unit != "request")]


def _part(report: Report, part: str) -> str:
    rows = _rows(report, part)
    if not rows:
        return ""
    axes = [axis for axis in AXES if any(axis in row.growth for row in rows)]
    remembers = any(row.memory is not None for row in rows)
    columns = ["", "world" if part in ("simulation", "agent", "floor") else "how", "CPU us", "a CPU second"]
    columns += ["MB"] * remembers + [f"{axis}^" for axis in axes] + ["times its floor"]
    columns += ["times ours"] * (part == "peer")
    table = [_cells(row, axes, remembers=remembers) for row in rows]
    return f"{PROSE[part]}\n\n{_sizes(rows)}{_table(columns, table)}"


def _sizes(rows: Sequence[Row]) -> str:
    """What is the same in all of them, if anything is."""
    same = set(rows[0].sizes.items()).intersection(*(row.sizes.items() for row in rows))
    told = ", ".join(f"{size:,} {name}" for name, size in rows[0].sizes.items() if (name, size) in same)
    return f"All with {told}.\n\n" if told else ""


def _cells(row: Row, axes: Sequence[str], *, remembers: bool) -> list[str]:
    cells = [row.name, row.world, short(1e6 * row.cpu_seconds), f"{1 / row.cpu_seconds:,.0f}"]
    if remembers:
        cells.append("" if row.memory is None else f"{row.memory / 1e6:.2g}")
    cells += [f"{row.growth[axis]:.2f}" if axis in row.growth else "" for axis in axes]
    ratio = "" if row.ratio is None else short(row.ratio)
    cells.append(f"**{ratio}**" if row.slow else ratio)
    if row.ours is not None:
        cells.append(short(row.cpu_seconds / row.ours[1]))
    return cells


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", *("---:" for _ in columns[2:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
