"""Roles as processes: one of them in this one, or all of a task's, each in its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.roles.serving import Log, known_by, serve
from bandanna.tasks.document import Secrets, Task

FENCED = 75  # the exit code of a process whose database another one serves: "try again later" (EX_TEMPFAIL)
_BEGIN = 300.0  # seconds in which a role must answer: on a busy machine several processes start slowly


def serve_role(
    role: str,
    task: Task,
    *,
    secrets: Path,
    database: str,
    host: str,
    port: int | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    trust: Path | None = None,
    inside: str | None = None,
    peers: str | None = None,
    names: Sequence[str] = (),
    proxies: Sequence[str] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; end with code 75 when another process has taken over the database.

    To end is safer than to answer 503 for ever: nothing of a memory that is old is left, and whoever looks after the
    process starts it anew, with what the database says.
    """
    if role not in task.roles:
        raise InvalidArgument("role", role, f"{', '.join(task.roles)}: this task has no {role}")
    own, log = Secrets.read(secrets, role, task), Log(role)
    number = port_of(task, role) if port is None else require.whole("port", port, least=0, most=65535)
    app = _build(role, task, own, database, log, trust)
    serve(
        app, host=host, port=number, cert=cert, key=key, log=log, ready=lambda at: log.say("ready", port=at),
        inside=None if inside is None else _address("--inside", inside),
        peers=None if peers is None else _address("--peers", peers), names=names, proxies=proxies,
    )  # fmt: skip
    if app.fenced():
        log.say("fenced")
        raise SystemExit(FENCED)


def _address(name: str, text: str) -> tuple[str, int]:
    """Read the host and the port of a listener from an option such as 127.0.0.1:9701."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        raise InvalidArgument(name, text, "HOST:PORT, such as 127.0.0.1:9701")
    return host.strip("[]"), int(port)


def _build(role: str, task: Task, own: Secrets, database: str, log: Log, trust: Path | None) -> Any:
    verify_tls: Any = True
    if trust is not None:
        verify_tls = known_by(trust)
    if role == "registrar":
        from bandanna.roles.registrar import app as registrar

        return registrar.build(task, own, database, log=log)
    if role == "helper":
        from bandanna.roles.helper import app as helper

        return helper.build(task, own, database, log=log, verify_tls=verify_tls)
    if role == "shuffler":
        from bandanna.roles.shuffler import app as shuffler

        return shuffler.build(task, own, database=database, log=log, verify_tls=verify_tls)
    from bandanna.roles.analyzer import app as analyzer

    return analyzer.build(task, own, database=database, log=log, verify_tls=verify_tls)


def port_of(task: Task, role: str) -> int:
    """Of the role's address in the task."""
    parts = urlsplit(task.url(role))
    return parts.port or (443 if parts.scheme == "https" else 80)


class Running:
    """All roles of a task, as processes on this machine."""

    def __init__(self, task: Task, folder: Path, *, database: str | None = None, host: str = "127.0.0.1") -> None:
        self._task, self._folder, self._database, self._host = task, folder, database, host
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, Path] = {}
        self._said: dict[str, int] = {}  # bytes that earlier processes have logged

    def start(self, role: str) -> None:
        """A process for a role; its log goes to a file beside its database."""
        if role in self.processes and self.processes[role].poll() is None:
            return
        where = self._database or str(self._folder / f"{role}.db")
        log = self.logs[role] = self._folder / f"{role}.log"
        self._said[role] = log.stat().st_size if log.exists() else 0
        command = [sys.executable, "-m", "bandanna", "serve", role, "--task", str(self._folder), "--db", where]
        with log.open("ab") as out:
            self.processes[role] = subprocess.Popen([*command, "--host", self._host], stdout=out, stderr=out)

    def wait(self, role: str, seconds: float = _BEGIN) -> None:
        """Until its own process says that it is ready: somebody else may be listening at its address."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            told = self.logs[role].read_bytes()[self._said[role] :].decode(errors="replace")
            if '"event":"ready"' in told:
                return
            if self.processes[role].poll() is not None:
                raise BandannaError(f"the {role} has ended: {' '.join(told.strip().splitlines()[-1:])[:300]}")
            time.sleep(0.05)
        raise BandannaError(f"the {role} is not ready after {seconds:g} seconds: see {self.logs[role]}")

    def begin(self) -> None:
        """All of them, and until they answer; if one does not, none is left behind."""
        try:
            for role in self._task.roles:
                self.start(role)
            for role in self._task.roles:
                self.wait(role)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ask all of them to end, mixers before the analyzer, and wait."""
        for role in reversed(self._task.roles):
            process = self.processes.get(role)
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Running:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free(role: str, host: str, port: int) -> None:
    """Whether somebody else listens there is known before anything is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            trial.bind((host, port))
        except OSError as error:
            raise BandannaError(f"the {role} cannot listen on {host}:{port}: {error.strerror}") from error


def serve_all(task: Task, folder: Path, *, database: str | None, host: str, say: Callable[[str], None]) -> None:
    """All roles, until SIGTERM or SIGINT, or until one of them ends."""
    for role in task.roles:
        _free(role, host, port_of(task, role))
    ended = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.append(True))
    say(f"Starting {', '.join(task.roles)}; this takes some seconds.")
    with Running(task, folder, database=database, host=host) as running:
        for role in task.roles:
            say(f"{role:10} http://{host}:{port_of(task, role)}  log: {running.logs[role]}")
        say("All roles answer. Stop them with Ctrl-C.")
        while not ended:
            time.sleep(0.1)
            for role, process in running.processes.items():
                if process.poll() is not None:
                    raise BandannaError(
                        f"the {role} has ended with code {process.returncode}: see {running.logs[role]}"
                    )
