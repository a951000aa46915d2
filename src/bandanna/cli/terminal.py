"""Options, required extras, output paths, progress bars and tables of commands."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bandanna import validation
from bandanna.errors import BandannaError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
EpsilonOption = Annotated[float, typer.Option(help="Privacy budget epsilon > 0.")]
DeltaOption = Annotated[float, typer.Option(help="Privacy budget delta in (0, 1).")]
JobsOption = Annotated[int | None, typer.Option(help="Number of processes.", show_default="the number of cores")]
ExecutorOption = Annotated[
    str | None, typer.Option(help="processes or dask.", show_default="processes", metavar="NAME")
]
SchedulerOption = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler.", show_default="a local cluster", metavar="ADDRESS")
]


def whole(text: str) -> int:
    """Read an integer, also in the form 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise typer.BadParameter(f"{text!r} is not a whole number.")
    return int(number)


def integer_option(text: str, default: bool | str = True) -> Any:
    """Return an option that takes an integer, also in the form 1e6."""
    return typer.Option(help=text, parser=whole, metavar="INTEGER", show_default=default)


SERVE_MODULES = ("cryptography", "httpx", "starlette", "uvicorn")  # of the extra `serve`


def require_serve_extra(command: str) -> None:
    """Raise an error unless the whole extra `serve` is installed."""
    from bandanna.errors import MissingExtra

    if not all(map(_is_installed, SERVE_MODULES)):
        raise MissingExtra("serve", f"`bandanna {command}`")


def _is_installed(module: str) -> bool:
    return sys.modules[module] is not None if module in sys.modules else find_spec(module) is not None


def check_folder(argument: str, path: Path) -> Path:
    """Check that a folder can be made and written to, leaving nothing behind."""
    place = validation.path(argument, path, folder=True).absolute()
    while not place.exists() and not place.is_symlink():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return path
    except OSError as error:
        raise BandannaError(f"{argument} = {path} cannot be written: {error.strerror or error} ({place})") from error


def check_figure_folder(argument: str, path: Path) -> Path:
    """Check a folder for figures, and that figures can be drawn."""
    from bandanna.simulation.figures import check_drawable

    check_drawable()
    return check_folder(argument, path)


def check_figure_file(argument: str, path: Path) -> Path:
    """Check a file for a figure: its format, its folder, and the extra `plot`."""
    from bandanna.simulation.figures import check_drawable

    check_drawable(path, argument)
    return check_file(argument, path)


def check_file(argument: str, path: Path) -> Path:
    """Check that a file can be written to its folder."""
    if path.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: it is a directory")
    if not path.absolute().parent.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: {path.parent} is not a directory")
    check_folder(argument, path.parent)
    return path


class ProgressBar:
    """Show progress on standard error as "3/20 UNIT" with the newest finished part, if `shown`."""

    def __init__(self, unit: str, *, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
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
        self._bar.update(self._task, completed=done, total=total, description=what[:56] or "running")


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
    """Print a table with numbers to the right; the first column and those in `left` are at the left.

    The table is at least `least` wide, so that digits stay whole. `fold` wraps a long first column.
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
    """Print a table of wrapped sentences; the first column is not wrapped."""
    table = Table(box=box.SIMPLE, padding=(0, 1))
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console = Console()
    (console if console.width >= least else Console(width=least)).print(table)
