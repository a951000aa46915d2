"""Faults on demand: interrupts at a line, statements that fail, real signals."""

from __future__ import annotations

import dis
import os
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import bandanna as bd

HERE = str(Path(bd.__file__).parent)


class Interrupt:
    """Raises KeyboardInterrupt, or another error, at the k-th line of Bandanna that runs inside."""

    def __init__(self, k: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self.fired, self.error = k, False, error

    def __enter__(self) -> Interrupt:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(HERE) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self.fired and frame.f_lasti not in out_of_reach(frame.f_code):
            self.left -= 1
            if not self.left:
                self.fired = True
                raise self.error
        return self._line


@cache
def out_of_reach(code: CodeType) -> frozenset[int]:
    """Beginnings of lines at which the interpreter looks for no signals, only tracing does, and locks would stay held.

    Where a `with` block lets go of what it holds - three times None are the arguments of `__exit__` - and at `try:`.
    """
    steps, starts = list(dis.get_instructions(code)), [offset for offset, _ in dis.findlinestarts(code)]
    found = set()
    for begin, end in zip(starts, [*starts[1:], len(code.co_code)], strict=True):
        line = [(step.opname, step.argval) for step in steps if begin <= step.offset < end]
        nones = [("LOAD_CONST", None)] * 3
        if line[0][0] == "NOP" or any(line[at : at + 3] == nones for at in range(len(line))):
            found.add(begin)
    return frozenset(found)


class Disk(sqlite3.Connection):
    """A connection whose k-th statement fails, before or after it is executed, or all from the k-th on."""

    left, how = 0, "never"

    def execute(self, query: str, *given: Any) -> Any:
        """Execute without syncing, or fail."""
        return self._perhaps(super().execute, query.replace("synchronous = full", "synchronous = off"), *given)

    def executemany(self, *given: Any) -> Any:
        return self._perhaps(super().executemany, *given)

    def _perhaps(self, work: Callable[..., Any], *given: Any) -> Any:
        Disk.left -= 1
        fails = Disk.how != "never" and (Disk.left == 0 or (Disk.how == "gone" and Disk.left < 0))
        done = work(*given) if Disk.how == "after" or not fails else None
        if fails:
            raise sqlite3.OperationalError("disk I/O error")
        return done


class Failure:
    """Lets the disk fail at the k-th statement."""

    def __init__(self, how: str, k: int) -> None:
        self.how, self.k, self.fired = how, k, False

    def __enter__(self) -> Failure:
        Disk.how, Disk.left = self.how, self.k
        return self

    def __exit__(self, *_: object) -> None:
        self.fired, Disk.how = Disk.left <= 0, "never"


class Signal:
    """Sends a real signal after k microseconds."""

    def __init__(self, k: int) -> None:
        self.k, self.fired = k, False

    def __enter__(self) -> Signal:
        signal.signal(signal.SIGALRM, self._arrived)
        signal.setitimer(signal.ITIMER_REAL, self.k * 1e-6)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _arrived(self, *_: object) -> None:
        self.fired = True
        raise KeyboardInterrupt


def in_a_fork(*calls: Callable[[], Any]) -> list[str]:
    """Return what each call does in a forked child: an error's name, "done", or "hangs" from the first that does."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads and forks do not mix is what is tested
        child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process
        for call in calls:
            signal.alarm(60)
            try:
                call()
                answer = "done"
            except BaseException as error:
                answer = type(error).__name__
            os.write(writer, f"{answer}\n".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader) as said:
        answers = said.read().split()
    return answers + ["hangs"] * (len(calls) - len(answers))
