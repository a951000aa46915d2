"""A figure or table of a paper: curves, how they are computed, printed and drawn; the figures of every paper."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument, WeakPrivacyWarning
from bandanna.experiments.executors import ProgressCallback, call_all, call_here, ignore_progress
from bandanna.privacy.guarantee import Guarantee
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


REGRET = ("regret=mean:,.0f", "+-=stderr:,.0f")  # columns


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure or table; all but `compute` are functions of what it found, most often a list of curves.

    shows     in a few words
    options   what may be chosen, and what is meant otherwise (None: each panel's own)
    compute   of options, processes and progress
    document  as JSON
    columns   of the printed table: "title=key:format", title and format where they say more than the key
    lines     its rows; `caption` explains them
    notes     sentences below the table
    draw      as files whose names begin with a stem; None: nothing to draw
    """

    name: str
    shows: str
    options: Mapping[str, Any]
    compute: Callable[..., Any]
    document: Callable[[Any], dict[str, Any]] = rows_of
    columns: tuple[str, ...] = ()
    lines: Callable[[Any], list[Row]] = lambda found: [each.shown for each in found]
    caption: str = ""
    notes: Callable[[Any], list[str]] = lambda found: []
    draw: Callable[[Any, Path], list[Path]] | None = None

    def check(self, **chosen: Any) -> None:
        """Refuse an option that the figure does not have: its numbers would look like what was asked for."""
        for name, value in chosen.items():
            if name not in self.options:
                known = ", ".join(f"--{each}" for each in self.options)
                raise InvalidArgument(f"--{name}", value, f"left out: {self.name} takes {known}")

    def find(self, *, jobs: int = 1, progress: ProgressCallback = ignore_progress, **chosen: Any) -> Any:
        """Compute it, with the given options in the place of its own."""
        self.check(**chosen)
        options = {**self.options, **chosen}
        if "seeds" in options:
            seeds = options.pop("seeds")
            options["n_seeds"] = None if seeds is None else validation.integer("seeds", seeds)
        return self.compute(**options, jobs=jobs, progress=progress)

    @property
    def titles(self) -> list[str]:
        """Of the columns."""
        return [_parts(column)[0] for column in self.columns]

    def table(self, found: Any) -> list[list[str]]:
        """Cells of the printed table, row by row."""
        parts = [_parts(column) for column in self.columns]
        return [[_cell(line[key], form) for _, key, form in parts] for line in self.lines(found)]


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of something that needs neither processes nor progress."""
    return lambda *, jobs, progress, **options: function(**options)


def _parts(column: str) -> tuple[str, str, str]:
    """Title, key and format."""
    name, _, form = column.partition(":")
    title, _, key = name.rpartition("=")
    return title or key, key, form


def _cell(value: Any, form: str) -> str:
    """A dash where there is nothing to show."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:{form}}"


Value = TypeVar("Value")


def gather(
    function: Callable[..., Value],
    tasks: Sequence[Mapping[str, Any]],
    *,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Value]:
    """`function(**task)` for every task, in their order; in processes of their own where there are `jobs` > 1."""
    jobs, found = validation.integer("jobs", jobs), dict[int, Value]()
    progress(0, len(tasks), "")
    numbered = dict(enumerate(tasks))
    run = partial(_with_budgets_as_printed, function)
    with closing(call_here(run, numbered) if jobs == 1 else call_all(run, numbered, jobs=jobs)) as ended:
        for index, value in ended:
            found[index] = value
            progress(len(found), len(tasks), _words(tasks[index]))
    return [found[index] for index in range(len(tasks))]


def _with_budgets_as_printed(function: Callable[..., Value], **task: Any) -> Value:
    """Call `function` without warnings of weak budgets: papers chose them, and figures state what they give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        return function(**task)


def _words(task: Mapping[str, Any]) -> str:
    """What a task is about: words as they are, numbers with their names."""
    words = [value for value in task.values() if isinstance(value, str)]
    numbers = {name: value for name, value in task.items() if isinstance(value, int | float) and "seed" not in name}
    return ", ".join([*words, *(f"{name} = {value:g}" for name, value in numbers.items())])


PAPERS = {
    "000": "shuffle_linucb.figures",
    "001": "distributed_dpe",
    "002": "concurrent_shuffle.figures",
    "003": "private_glm",
    "004": "concentrated_dp",
}


def figures(paper: str) -> dict[str, Figure]:
    """Return the figures of one paper by name, in its order."""
    module = importlib.import_module(f"reproductions.{PAPERS[validation.one_of('number', paper, tuple(PAPERS))]}")
    return {figure.name: figure for figure in module.FIGURES}
