"""Worker processes, or this one: one thread each, the same numbers whatever their number, none outlives its parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from bandanna.errors import BandannaError
from bandanna.experiments.spawning import context_for, needs_main, once

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_DIED = "a worker process died (out of memory?); finished blocks of a sweep are kept, continue with --resume"
_AGAIN = (
    "a worker process died (out of memory?). Workers import this script, since a policy is in it: what is to run once"
    ' must stand below `if __name__ == "__main__":`, or the policy in a module of its own; jobs=1 needs neither'
)

Key = TypeVar("Key")
Value = TypeVar("Value")
Progress = Callable[[int, int, str], None]  # done, total, what ended last


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def silent(done: int, total: int, what: str) -> None:
    """No progress is shown."""


def call_here(
    function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
) -> Generator[tuple[Key, Value], None, None]:
    """`function(**arguments)` for every task, in their order, in this process: numbers as in others, by one thread."""
    for key, task in tasks.items():
        with threadpool_limits(1):
            value = function(**task)
        yield key, value


def call_all(
    function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]], *, jobs: int
) -> Generator[tuple[Key, Value], None, None]:
    """`function(**arguments)` for every task, in up to `jobs` processes; values with their keys, as they end.

    The function must be importable, arguments and values such that they can be pickled. Whoever stops
    listening (an error, Ctrl-C) stops the workers too, in the middle of what they do. The script that calls this is
    not run again by them, unless what they are sent is in it.
    """
    if not tasks:
        return
    once()
    main = needs_main(function, *tasks.values())
    context = context_for(main=main)
    reader, writer = context.Pipe(duplex=False)  # nothing is sent: workers end when its only writer is gone
    with (
        reader,
        writer,
        single_threaded(),
        ProcessPoolExecutor(
            min(jobs, len(tasks)), mp_context=context, initializer=_prepare, initargs=(reader,)
        ) as pool,
    ):
        with _uninterrupted():
            pending: dict[Future[Value], Key] = {pool.submit(function, **task): key for key, task in tasks.items()}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        except BrokenProcessPool as error:
            raise BandannaError(_AGAIN if main else _DIED) from error
        except BaseException:
            writer.close()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare(lifeline: Connection) -> None:
    """In a worker: end at once with Ctrl-C, and when the parent closes its end of the pipe, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def follow() -> None:
        wait([lifeline])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits, here and, until `_prepare`, in processes started inside: their imports would print a trace."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Processes started inside use one thread for linear algebra: they share the cores, and their sums one order."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
