"""Programs that begin quickly: a process that has loaded the library, and knows nothing else, forks for each of them.

`nursery().start(command, ...)` stands for `subprocess.Popen(command, ...)` of a Python program: `python -W error file`
or `python -m module`, with its arguments. Its process is a real one, with its own memory, files and end, and may be
killed; only what a second or more of imports would do is done. Some tests start programs without it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest


def main(number: str) -> None:
    """Fork a process for each list that is received; answer a number by the exit code of that process."""
    import httpx  # noqa: F401
    import uvloop  # noqa: F401

    import bandanna.deployment.analyzer.service
    import bandanna.deployment.helper_service
    import bandanna.deployment.processes
    import bandanna.deployment.registrar_service
    import bandanna.deployment.shuffler
    import bandanna.storage.database.postgres
    import bandanna.storage.database.sqlite  # noqa: F401
    from bandanna.cli import main as main_module
    from bandanna.deployment.http.application import build_application  # noqa: F401
    from bandanna.deployment.http.server import serve  # noqa: F401
    from bandanna.deployment.messages.canonical import make_tls_context
    from bandanna.policies.registry import make_encoding

    make_encoding()
    make_tls_context()
    main_module.command()
    gc.collect()
    gc.freeze()  # a child that looks for garbage would copy all of this
    with socket.socket(fileno=int(number)) as asked:
        while True:
            line, given, _, _ = socket.recv_fds(asked, 1 << 16, 2)
            if not line:
                break
            wanted = json.loads(line)
            if isinstance(wanted, int):
                asked.sendall(json.dumps(_ended(wanted)).encode())
                continue
            child = os.fork()
            if child == 0:
                break
            for each in given:
                os.close(each)
            asked.sendall(json.dumps(child).encode())
    if line:
        _become(wanted, given)


def _ended(child: int) -> int | None:
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(wanted: list[str], given: list[int]) -> None:
    """Run a program as Python would, in the folder that is named first."""
    import bandanna.errors

    folder, *arguments = wanted
    os.chdir(folder)
    for stream, file in enumerate(given, start=1):
        os.dup2(file, stream)
        os.close(file)
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    warnings.simplefilter("ignore", bandanna.errors.WeakPrivacyWarning)  # tests choose little noise on purpose
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


class Child:
    """A process with the interface of `subprocess.Popen`."""

    def __init__(self, nursery: Nursery, pid: int, stdout: BinaryIO | None) -> None:
        self._nursery, self.pid, self.stdout = nursery, pid, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal; None while it runs."""
        with self._nursery.lock:
            if self.returncode is None:
                self.returncode = self._nursery.request(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.01)
        return code

    def communicate(self, timeout: float | None = None) -> None:
        self.wait(timeout)
        if self.stdout is not None:
            self.stdout.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The interface to the forking process."""

    def __init__(self) -> None:
        import bandanna

        self.lock = threading.RLock()
        self._asking, asked = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__, str(asked.fileno())],
            pass_fds=[asked.fileno()],
            env={**os.environ, "PYTHONPATH": str(Path(bandanna.__file__).parents[1])},
        )
        asked.close()
        atexit.register(self.close)

    def request(self, wanted: object, files: Sequence[int] = ()) -> Any:
        with self.lock:
            socket.send_fds(self._asking, [json.dumps(wanted).encode()], files)
            return json.loads(self._asking.recv(64))

    def start(self, command: Sequence[str], *, stdout: Any, stderr: Any, **_: Any) -> Child:
        """Start a program; `stdout` is a file or `subprocess.PIPE`."""
        assert command[0] == sys.executable
        reads, writes = os.pipe() if stdout == subprocess.PIPE else (None, None)
        out = stdout.fileno() if writes is None else writes
        child = self.request([os.getcwd(), *command[1:]], [out, stderr.fileno()])
        if writes is not None:
            os.close(writes)
        return Child(self, child, None if reads is None else os.fdopen(reads, "rb"))

    def close(self) -> None:
        self._asking.close()
        self._process.wait(timeout=600)


@cache
def nursery() -> Nursery:
    return Nursery()


@pytest.fixture
def _quick_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `RunningDeployment` start its roles by the nursery."""

    def start(command: Sequence[str], **files: Any) -> Child:
        return nursery().start(command, **files)

    quick = SimpleNamespace(Popen=start, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr("bandanna.deployment.processes.subprocess", quick)


if __name__ == "__main__":
    main(sys.argv[1])
