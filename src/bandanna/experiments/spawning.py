"""Processes that do not run the script that started them.

A spawned process imports its parent's main module first. For a script whose work is not below
`if __name__ == "__main__":` that means to do it all again; here it is imported only where the work itself is of it: a
policy of one's own in the script that runs it.
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any

_MAIN = "__main__"


class _Elsewhere(SpawnProcess):
    """A process that imports nothing but what it is sent."""

    def start(self) -> None:
        """As any, from a program without a main module."""
        with _no_main():
            super().start()


class _Spawning(SpawnContext):
    """Spawned processes of that kind."""

    Process = _Elsewhere


@contextmanager
def _no_main() -> Iterator[None]:
    """While a process starts: it is told where the main module is, if that is anywhere."""
    own = sys.modules[_MAIN]
    sys.modules[_MAIN] = ModuleType(_MAIN)
    try:
        yield
    finally:
        sys.modules[_MAIN] = own


def needs_main(*sent: Any) -> bool:
    """Whether something that is sent to a process is of the main module."""
    return any(_MAIN.encode() in pickle.dumps(each) for each in sent)


def context_for(*, main: bool) -> SpawnContext:
    """In which processes are spawned; `main`: with the main module, which a script has to allow."""
    return multiprocessing.get_context("spawn") if main else _Spawning()


def once() -> None:
    """End a process that imports the script of its parent, quietly: what it would start its parent has started."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)
