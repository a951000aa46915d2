"""Progress bars, tables and usage errors of the command line."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bandanna import validation
from bandanna.errors import BandannaError

# What a command needs beyond the core: all of it is asked for at once, before it begins.


SERVE_MODULES = ("cryptography", "httpx", "starlette", "uvicorn")  # of the extra `serve`


def require_serve_extra(command: str) -> None:
    """Whoever makes, runs or watches a deployment needs the whole extra, not only what is missed first."""
    from bandanna.errors import MissingExtra

    if not all(map(_is_installed, SERVE_MODULES)):
        raise MissingExtra("serve", f"`bandanna {command}`")


def _is_installed(module: str) -> bool:
    return sys.modules[module] is not None if module in sys.modules else find_spec(module) is not None


# Where a command will write: found out before the work is done.


def check_folder(argument: str, path: Path) -> Path:
    """A folder that is there, or can be made, and can be written into; nothing is left behind."""
    place = validation.path(argument, path, folder=True).absolute()
    while not place.exists() and not place.is_symlink():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return path
    except OSError as error:
        raise BandannaError(f"{argument} = {path} cannot be written: {error.strerror or error} ({place})") from error


def check_figure_folder(argument: str, path: Path) -> Path:
    """A folder for figures, and what it takes to draw them."""
    from bandanna.simulation.figures import check_drawable

    check_drawable()
    return check_folder(argument, path)


def check_figure_file(argument: str, path: Path) -> Path:
    """A file for a figure: of a known format, in a folder that is there, with what it takes to draw."""
    from bandanna.simulation.figures import check_drawable

    check_drawable(path, argument)
    return check_file(argument, path)


def check_file(argument: str, path: Path) -> Path:
    """A file in a folder that is there, and can be written into."""
    if path.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: it is a folder")
    if not path.absolute().parent.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: {path.parent} is not a folder")
    check_folder(argument, path.parent)
    return path


# Long commands: a progress bar on standard error, where a person looks on.


class ProgressBar:
    """How many of a known number of parts are done, and which ended last; nothing is shown unless `shown`."""

    def __init__(self, *, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not shown or not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("running", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Move on."""
        self._bar.update(self._task, completed=done, total=total, description=what[:56] or "running")


# Tables on a terminal: numbers to the right, and never narrower than their digits.


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
