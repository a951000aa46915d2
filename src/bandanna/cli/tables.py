"""Tables on a terminal: numbers to the right, and never narrower than their digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[str] = (),
    least: int = 116,
    fold: bool = False,
    title: str = "",
    caption: str = "",
) -> None:
    """The first column (folded if it is too long and `fold` says so) and those named in `left` begin at the left.

    Digits matter more than the margin: the table is at least `least` wide.
    """
    table = Table(box=box.SIMPLE, padding=(0, 1), title=escape(title), caption=escape(caption))
    table.add_column(columns[0], no_wrap=not fold, overflow="fold")
    for name in columns[1:]:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    (console if console.width >= least else Console(width=least)).print(table)


def print_texts(columns: Sequence[str], rows: Iterable[Sequence[str]], *, least: int = 80) -> None:
    """A table of sentences, which are wrapped; the first column is not."""
    table = Table(box=box.SIMPLE, padding=(0, 1))
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    (console if console.width >= least else Console(width=least)).print(table)
