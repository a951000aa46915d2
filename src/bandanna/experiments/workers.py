"""Worker processes: one thread each, the same numbers whatever their number, and none that outlives its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from bandanna.errors import BandannaError

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

Key = TypeVar("Key")
Value = TypeVar("Value")
Progress = Callable[[int, int, str], None]  # done, total, what ended last


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def silent(done: int, total: int, what: str) -> None:
    """No progress is shown."""


def call_all(
    function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]], *, jobs: int
) -> Generator[tuple[Key, Value], None, None]:
    """`function(**arguments)` for every task, in up to `jobs` processes; values with their keys, as they end.

    The function must be importable, arguments and values such that they can be pickled. Whoever stops
    listening (an error, Ctrl-C) stops the workers too, in the middle of what they do.
    """
    if not tasks:
        return
    context = multiprocessing.get_context("spawn")
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
            raise BandannaError(
                "a worker process died (out of memory, or started by a script without `if __name__ == '__main__':`); "
                "finished blocks of a sweep are kept, continue with --resume"
            ) from error
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
