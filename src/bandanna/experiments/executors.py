"""Who does the work of a sweep: processes of this machine, or a Dask cluster. The numbers are the same, bit by bit.

An executor calls one function for many tasks and hands out values as they end; whoever listens keeps them. Workers use
one thread for linear algebra, and a worker whose versions or threads would give other numbers is refused.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
from asyncio import CancelledError
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments.workers import THREADS, call_all, call_here, cores, single_threaded

NAMES = ("processes", "dask")
_PATIENCE = 30  # seconds until a scheduler must have answered, on a busy machine too
_JOINING = 60  # and until it must have a worker
_MOST = 1024  # processes

Key = TypeVar("Key")
Value = TypeVar("Value")
Ending = Generator[tuple[Key, Value], None, None]


class Executor(Protocol):
    """Calls a function for many tasks."""

    def call_all(self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]) -> Ending[Key, Value]:
        """`function(**arguments)` for every task; values with their keys, as they end.

        The function must be importable, arguments and values such that they can be pickled.
        """


class Here:
    """This process, one task after the other."""

    def call_all(self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]) -> Ending[Key, Value]:
        """In their order."""
        return call_here(function, tasks)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Up to `jobs` processes of this machine."""

    jobs: int

    def call_all(self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]) -> Ending[Key, Value]:
        """In processes that end with this one."""
        return call_all(function, tasks, jobs=self.jobs)


@dataclass(frozen=True, kw_only=True)
class Dask:
    """The workers of the scheduler at an address; without one, `jobs` workers of a cluster on this machine.

    What a worker was doing when it died is done again by another one.
    """

    jobs: int
    scheduler: str | None = None

    def ready(self) -> None:
        """An error if no scheduler with workers answers at the address: before anything is begun."""
        if self.scheduler is not None:
            with self._client(_distributed()):
                pass

    def call_all(self, function: Callable[..., Value], tasks: Mapping[Key, Mapping[str, Any]]) -> Ending[Key, Value]:
        """Over the cluster; whoever stops listening cancels the rest."""
        if not tasks:
            return
        distributed = _distributed()
        with self._client(distributed) as client:
            about = _about()
            pending = {
                client.submit(_work, function, dict(task), about, pure=False): key for key, task in tasks.items()
            }
            try:
                for future in distributed.as_completed(pending, loop=client.loop):
                    yield pending[future], future.result()
            except (distributed.KilledWorker, distributed.CancelledError, OSError) as error:
                raise BandannaError(
                    "the Dask workers or their scheduler died (out of memory?); finished blocks of a sweep are "
                    "kept, continue with --resume"
                ) from error
            finally:
                client.cancel(list(pending))

    @contextmanager
    def _client(self, distributed: Any) -> Iterator[Any]:
        with ExitStack() as opened:
            opened.enter_context(_quiet())
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
                client = opened.enter_context(_connected(distributed, address))
                client.wait_for_workers(1, timeout=_JOINING)
            except (OSError, ValueError, TypeError, MemoryError) as error:  # a timeout is an OSError
                why = "" if isinstance(error, OSError) else f" ({error})"
                raise BandannaError(
                    f"no Dask scheduler with workers answers at {address}{why}: start `dask scheduler` and `dask "
                    "worker`, or leave the address out for a cluster on this machine"
                ) from error
            yield client


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    """A client, closed at the end: also one that did not begin, whose loop would be found running when Python ends."""
    _greeted(distributed, address)
    client = distributed.Client.__new__(distributed.Client)
    try:
        client.__init__(address, timeout=_PATIENCE, set_as_default=False)
    except BaseException:
        with suppress(Exception):  # whatever it did not have yet
            client.close()
        raise
    with client:
        yield client


def _greeted(distributed: Any, address: str) -> None:
    """An error where something else answers: a scheduler speaks first, and in numbers; Dask would wait for ever for a
    server that does not, and take the greeting of one that speaks in letters for a length.
    """
    scheme, _, _ = str(address).rpartition("://")
    if scheme not in ("", "tcp"):
        return
    with socket.create_connection(distributed.comm.get_address_host_port(address), timeout=_PATIENCE) as heard:
        first = heard.recv(8)
    if not first or all(32 <= byte < 127 for byte in first):
        raise ValueError("something else answers there")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Dask's client logs of a connection that broke: whoever waits for values raises an error about it."""
    log = logging.getLogger("distributed.client")
    log.addFilter(_worth_saying)
    try:
        yield
    finally:
        log.removeFilter(_worth_saying)


def _worth_saying(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    broken = kind is not None and issubclass(kind, OSError | CancelledError)
    return not broken and "Failed to reconnect to scheduler" not in str(record.msg)


def chosen(executor: str | Executor, *, jobs: int | None, scheduler: str | None = None) -> Executor:
    """By name, or as it is; `jobs` are processes of this machine, by default one for each core; one is this process."""
    many = require.whole("jobs", cores() if jobs is None else jobs, most=_MOST)
    if not isinstance(executor, str) and callable(getattr(executor, "call_all", None)):
        return executor
    name = require.one_of("executor", executor, NAMES)
    if name == "dask":
        if scheduler is not None and not isinstance(scheduler, str):
            raise InvalidArgument("scheduler", scheduler, 'an address such as "tcp://127.0.0.1:8786"')
        _distributed()  # if it is missing, before the work
        return Dask(jobs=many, scheduler=scheduler)
    if scheduler is not None:
        raise InvalidArgument("scheduler", scheduler, 'only with the executor "dask"')
    return Here() if many == 1 else Processes(jobs=many)


def here_unless(executor: str | Executor | None, *, jobs: int | None, scheduler: str | None) -> Executor:
    """This process, unless an executor or a number of processes is asked for."""
    if executor is None and jobs is None and scheduler is None:
        return Here()
    return chosen("processes" if executor is None else executor, jobs=jobs, scheduler=scheduler)


def ready(executor: Executor) -> None:
    """An error where an executor can say beforehand that it cannot work."""
    if isinstance(executor, Dask):
        executor.ready()


def _about() -> dict[str, str]:
    """What the last bits of numbers depend on."""
    return {name: version(name) for name in ("bandanna", "numpy", "scipy")}


def _work(function: Callable[..., Value], arguments: Mapping[str, Any], wanted: Mapping[str, str]) -> Value:
    """In a worker."""
    if (here := _about()) != wanted:
        raise BandannaError(f"a Dask worker has {here}, and this program {wanted}: numbers could differ")
    threads = {name: os.environ.get(name) for name in THREADS[:2]}
    if set(threads.values()) != {"1"}:
        raise BandannaError(f"a Dask worker has {threads}: start it with 1 for each, or numbers could differ")
    return function(**arguments)


def _distributed() -> Any:
    """Imported on first use."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingExtra("dask", 'the executor "dask"') from None
