"""Executors: run one function for many tasks in this process, in worker processes, or on a Dask cluster.

Numbers are the same bit by bit wherever a task runs: workers use one thread for linear algebra, and a worker whose
versions or threads would give other numbers is refused. No worker outlives its parent.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra

# Spawned processes


_MAIN = "__main__"


class _BareProcess(SpawnProcess):
    """A process that imports nothing but its task."""

    def start(self) -> None:
        with _without_main():
            super().start()


class _BareSpawnContext(SpawnContext):
    """A context that spawns `_BareProcess`."""

    Process = _BareProcess


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the place of the main module while a process starts."""
    own = sys.modules[_MAIN]
    sys.modules[_MAIN] = ModuleType(_MAIN)
    try:
        yield
    finally:
        sys.modules[_MAIN] = own


def needs_main(*sent: Any) -> bool:
    """Return whether an object sent to a process is defined in the main module."""
    return any(_MAIN.encode() in pickle.dumps(each) for each in sent)


def make_spawn_context(*, main: bool) -> SpawnContext:
    """Return the context in which processes are spawned; with `main` they import the main module.

    An unguarded script would run again when its child imports it, so children import it only if a task needs its
    classes.
    """
    return multiprocessing.get_context("spawn") if main else _BareSpawnContext()


def exit_if_imported() -> None:
    """End a process that imports its parent's script, whose work it would repeat."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


# Worker processes


THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_DIED = "a worker process died (out of memory?); finished blocks of a sweep are kept, continue with --resume"
_DIED_AT_IMPORT = (
    "a worker process died (out of memory?). Workers import this script, since a policy is in it: what is to run once"
    ' must stand below `if __name__ == "__main__":`, or the policy in a module of its own; jobs=1 needs neither'
)

Key = TypeVar("Key")
Value = TypeVar("Value")
ProgressCallback = Callable[[int, int, str], None]  # done, total, what ended last


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ignore_progress(done: int, total: int, what: str) -> None:
    """Do nothing, as the default callback for progress."""


def call_here(
    function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
) -> Generator[tuple[Key, Value], None, None]:
    """Call `function(**arguments)` for every task in this process, in order and with one thread."""
    for key, task in tasks.items():
        with threadpool_limits(1):
            value = function(**task)
        yield key, value


def call_all(
    function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]], *, jobs: int
) -> Generator[tuple[Key, Value], None, None]:
    """Call `function(**arguments)` for every task in up to `jobs` processes; yield keys and values as they end.

    The function must be importable, and arguments and values picklable. Closing the generator, an error or Ctrl-C stops
    the workers at once.
    """
    if not tasks:
        return
    exit_if_imported()
    main = needs_main(function, *tasks.values())
    context = make_spawn_context(main=main)
    reader, writer = context.Pipe(duplex=False)  # nothing is sent: workers end when its only writer is gone
    with (
        reader,
        writer,
        single_threaded(),
        ProcessPoolExecutor(
            min(jobs, len(tasks)), mp_context=context, initializer=_prepare_worker, initargs=(reader,)
        ) as pool,
    ):
        with _defer_interrupts():
            pending: dict[Future[Value], Key] = {pool.submit(function, **task): key for key, task in tasks.items()}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        except BrokenProcessPool as error:
            raise BandannaError(_DIED_AT_IMPORT if main else _DIED) from error
        except BaseException:
            writer.close()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare_worker(lifeline: Connection) -> None:
    """Make a worker end with Ctrl-C, and when its parent closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def follow() -> None:
        wait([lifeline])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Defer Ctrl-C, here and in processes started inside until `_prepare_worker`: their imports print no traceback."""
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
    """Let processes started inside use one thread for linear algebra, so that sums have one order."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# Executors


EXECUTOR_NAMES = ("processes", "dask")
_PATIENCE = 30  # seconds until a scheduler must have answered, on a busy machine too
_JOINING = 60  # and until it must have a worker
_MOST = 1024  # processes

TaskResults = Generator[tuple[Key, Value], None, None]


class Executor(Protocol):
    """Runs a function for many tasks."""

    def call_all(
        self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
    ) -> TaskResults[Key, Value]:
        """Call `function(**arguments)` for every task; yield keys and values as they end.

        The function must be importable, and arguments and values picklable.
        """


class InProcessExecutor:
    """Runs tasks in this process, one after the other."""

    def call_all(
        self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
    ) -> TaskResults[Key, Value]:
        return call_here(function, tasks)


@dataclass(frozen=True, kw_only=True)
class ProcessExecutor:
    """Runs tasks in up to `jobs` processes of this machine."""

    jobs: int

    def call_all(
        self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
    ) -> TaskResults[Key, Value]:
        return call_all(function, tasks, jobs=self.jobs)


@dataclass(frozen=True, kw_only=True)
class DaskExecutor:
    """Runs tasks on the workers of a scheduler, or on `jobs` workers of a cluster on this machine.

    The task of a worker that died runs again on another one.
    """

    jobs: int
    scheduler: str | None = None

    def ready(self) -> None:
        """Raise an error if no scheduler with workers answers at the address."""
        if self.scheduler is not None:
            with self._client(_import_distributed()):
                pass

    def call_all(
        self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]
    ) -> TaskResults[Key, Value]:
        """Call the function on the cluster; closing the generator cancels the rest."""
        if not tasks:
            return
        distributed = _import_distributed()
        with self._client(distributed) as client:
            about = _describe_versions()
            pending = {
                client.submit(_run_in_worker, function, dict(task), about, pure=False): key
                for key, task in tasks.items()
            }
            try:
                for future in distributed.as_completed(pending, loop=client.loop):
                    yield pending[future], future.result()
            except (distributed.KilledWorker, distributed.CancelledError, OSError) as error:
                raise BandannaError(
                    "the Dask workers or their scheduler died (out of memory?). Finished blocks of a sweep are kept: "
                    "continue with --resume"
                ) from error
            finally:
                client.cancel(list(pending))

    @contextmanager
    def _client(self, distributed: Any) -> Iterator[Any]:
        with ExitStack() as opened:
            opened.enter_context(_quiet_dask_logs())
            address = self.scheduler
            if address is None:
                opened.enter_context(single_threaded())
                cluster = distributed.LocalCluster(
                    n_workers=self.jobs,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # not open to others, and on a free port
                    silence_logs=logging.CRITICAL,
                )
                address = opened.enter_context(cluster).scheduler_address
            try:
                client = opened.enter_context(_connect_client(distributed, address))
                client.wait_for_workers(1, timeout=_JOINING)
            except (OSError, ValueError, TypeError, MemoryError) as error:  # a timeout is an OSError
                why = "" if isinstance(error, OSError) else f" ({error})"
                raise BandannaError(
                    f"no Dask scheduler with workers answers at {address}{why}. Start `dask scheduler` and `dask "
                    "worker`, or omit the address for a cluster on this machine"
                ) from error
            yield client


@contextmanager
def _connect_client(distributed: Any, address: str) -> Iterator[Any]:
    """Connect a client and close it at the end, even if it did not start."""
    _check_scheduler(distributed, address)
    client = distributed.Client.__new__(distributed.Client)
    try:
        client.__init__(address, timeout=_PATIENCE, set_as_default=False)
    except BaseException:
        with suppress(Exception):  # whatever it did not have yet
            client.close()
        raise
    with client:
        yield client


def _check_scheduler(distributed: Any, address: str) -> None:
    """Raise an error if no scheduler answers at the address.

    A scheduler speaks first, in numbers. Dask would wait without limit for a silent server, and read a greeting in
    letters as a length.
    """
    scheme, _, _ = str(address).rpartition("://")
    if scheme not in ("", "tcp"):
        return
    with socket.create_connection(distributed.comm.get_address_host_port(address), timeout=_PATIENCE) as heard:
        first = heard.recv(8)
    if not first or all(32 <= byte < 127 for byte in first):
        raise ValueError("something else answers there")


@contextmanager
def _quiet_dask_logs() -> Iterator[None]:
    """Silence the log of a broken connection, which is raised as an error."""
    log = logging.getLogger("distributed.client")
    log.addFilter(_is_worth_logging)
    try:
        yield
    finally:
        log.removeFilter(_is_worth_logging)


def _is_worth_logging(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    broken = kind is not None and issubclass(kind, OSError | CancelledError)
    return not broken and "Failed to reconnect to scheduler" not in str(record.msg)


def choose_executor(executor: str | Executor, *, jobs: int | None, scheduler: str | None = None) -> Executor:
    """Return an executor by name, or as given; `jobs` is by default the number of cores, and 1 is this process."""
    many = validation.integer("jobs", count_cores() if jobs is None else jobs, most=_MOST)
    if not isinstance(executor, str) and callable(getattr(executor, "call_all", None)):
        return executor
    name = validation.one_of("executor", executor, EXECUTOR_NAMES)
    if name == "dask":
        if scheduler is not None and not isinstance(scheduler, str):
            raise InvalidArgument("scheduler", scheduler, 'an address such as "tcp://127.0.0.1:8786"')
        _import_distributed()  # if it is missing, before the work
        return DaskExecutor(jobs=many, scheduler=scheduler)
    if scheduler is not None:
        raise InvalidArgument("scheduler", scheduler, 'None unless executor="dask"')
    return InProcessExecutor() if many == 1 else ProcessExecutor(jobs=many)


def choose_executor_or_here(executor: str | Executor | None, *, jobs: int | None, scheduler: str | None) -> Executor:
    """Return the chosen executor, by default this process."""
    if executor is None and jobs is None and scheduler is None:
        return InProcessExecutor()
    return choose_executor("processes" if executor is None else executor, jobs=jobs, scheduler=scheduler)


def check_ready(executor: Executor) -> None:
    """Raise an error if the executor knows that it cannot work."""
    if isinstance(executor, DaskExecutor):
        executor.ready()


def _describe_versions() -> dict[str, str]:
    """Return the versions on which the last bits of numbers depend."""
    return {name: version(name) for name in ("bandanna", "numpy", "scipy")}


def _run_in_worker(function: Callable[..., Value], arguments: Mapping[str, Any], versions: Mapping[str, str]) -> Value:
    if (here := _describe_versions()) != versions:
        raise BandannaError(f"a Dask worker has {here}, this program has {versions}, and numbers could differ")
    threads = {name: os.environ.get(name) for name in THREAD_VARIABLES[:2]}
    if set(threads.values()) != {"1"}:
        raise BandannaError(f"a Dask worker has {threads}. Start it with 1 for each, because numbers could differ")
    return function(**arguments)


def _import_distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingExtra("dask", 'the executor "dask"') from None
