"""Long commands: a progress bar on standard error, where a person looks on."""

from __future__ import annotations

from typing import Self


class Bar:
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
