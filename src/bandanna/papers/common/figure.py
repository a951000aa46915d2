"""A paper's figure or table as one value: how it is computed, printed and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.experiments.workers import Progress, silent
from bandanna.papers.common.curve import Row, rows_of

REGRET = ("regret=mean:,.0f", "+-=stderr:,.0f")  # columns


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What `bandanna paper` shows; all but `compute` are functions of what it found, most often a list of curves.

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
                raise InvalidArgument(f"--{name}", value, f"{self.name} takes {known} only")

    def find(self, *, jobs: int = 1, progress: Progress = silent, **chosen: Any) -> Any:
        """Compute it, with the given options in the place of its own."""
        self.check(**chosen)
        options = {**self.options, **chosen}
        if "seeds" in options:
            seeds = options.pop("seeds")
            options["n_seeds"] = None if seeds is None else require.whole("seeds", seeds)
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
