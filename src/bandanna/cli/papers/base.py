"""What the papers' figures share on the command line: the options, what is shown, tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for; None where the figure's own default is meant."""

    seeds: int | None
    horizon: int | None
    jobs: int
    epsilon: float | None
    delta: float | None
    shufflers: int | str | None = None
    progress: Callable[[int, int, str], None] = field(compare=False)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the named options that were given, as keyword arguments; seeds are called n_seeds."""
        values = {name: getattr(self, name) for name in names}
        return {"n_seeds" if name == "seeds" else name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure three times: as JSON, as what is printed, and as files (which may need the extra `plot`)."""

    document: dict[str, Any]
    table: Callable[[], None]
    draw: Callable[[Path], list[Path]] | None = None


def number(value: float | None, form: str) -> str:
    """A dash where there is none."""
    return "-" if value is None else f"{value:{form}}"


def print_table(columns: list[str], rows: list[list[str]], caption: str, *, first: str = "algorithm") -> None:
    """Numbers to the right of the first column; never narrower than their digits."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, padding=(0, 1), caption=caption)
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console()
    (console if console.width >= 116 else Console(width=116)).print(table)  # digits matter more than the margin
