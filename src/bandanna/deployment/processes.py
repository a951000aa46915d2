"""The processes of a deployment, and a whole deployment on this machine."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from secrets import randbelow
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from bandanna import validation
from bandanna.deployment.calls import RoleConnection, RoleUnreachable, trusted_certificates
from bandanna.deployment.client.load_simulation import HttpDeployment, SimulatedUsers, summarize_users, world_for_task
from bandanna.deployment.http.application import Application
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.server import serve
from bandanna.deployment.messages.canonical import loads
from bandanna.deployment.task import creation
from bandanna.deployment.task.description import visibility_table
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument

# Roles as processes


FENCED = 75  # the exit code of a process whose database another one serves: "try again later" (EX_TEMPFAIL)
_START_SECONDS = 300.0  # in which a role must answer: on a busy machine, processes start slowly


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
    plain_http: bool = False,
) -> None:
    """Serve a role until SIGTERM or SIGINT; exit with code 75 when another process has taken over the database.

    A supervisor then starts the process again, and it reads its state from the database.

    Parameters
    ----------
    database
        A path or URL: see `open_database`.
    host, port
        Where to listen; by default, at the port of the role's address in the task.
    trust
        A file of certificates by which other roles are known, beside the system's.
    inside, peers
        HOST:PORT of listeners for the operator and for other roles.
    names, proxies
        More host names, and proxies whose `X-Forwarded-For` is believed.
    plain_http
        Listen without TLS on addresses beyond this machine.
    """
    if role not in task.roles:
        raise InvalidArgument("role", role, f"a role of this task: {', '.join(task.roles)}")
    listeners = {"--inside": inside, "--peers": peers}
    found = {name: _read_address(name, text) for name, text in listeners.items() if text is not None}
    if cert is None and not plain_http:
        for name, address in {"--host": host, **{name: address for name, (address, _) in found.items()}}.items():
            check_loopback(name, address)
    own, log = Secrets.read(secrets, role, task), EventLog(role, task=task.id)
    number = port_in_task(task, role) if port is None else validation.integer("port", port, least=0, most=65535)
    verify_tls: Any = True if trust is None else trusted_certificates(trust)
    app = build_role(role, task, own, database=database, log=log, verify_tls=verify_tls)
    serve(
        app,
        host=host,
        port=number,
        cert=cert,
        key=key,
        log=log,
        ready=lambda at: log.say("ready", port=at),
        inside=found.get("--inside"),
        peers=found.get("--peers"),
        names=names,
        proxies=proxies,
    )
    if app.fenced():
        log.say("fenced", level="error")
        raise SystemExit(FENCED)


def _read_address(name: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        raise InvalidArgument(name, text, "HOST:PORT, such as 127.0.0.1:9701")
    return host.strip("[]"), int(port)


def check_loopback(argument: str, host: str) -> None:
    """Refuse an address beyond this machine, where reports would travel without TLS."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        hint = "Give --cert and --key, or --plain-http if a TLS proxy stands before this address"
        raise InvalidArgument(argument, host, "an address of this machine alone, such as 127.0.0.1, without TLS", hint)


_MODULES = {
    "registrar": "registrar_service",
    "analyzer": "analyzer.service",
    "shuffler": "shuffler",
    "helper": "helper_service",
}


def build_role(
    role: str, task: Task, secrets: Secrets, *, database: str, log: EventLog, verify_tls: Any = True
) -> Application:
    """Return the application of a role; no modules of other roles are loaded."""
    module = import_module(f"bandanna.deployment.{_MODULES[role]}")
    calls = {} if role == "registrar" else {"verify_tls": verify_tls}  # the registrar calls no other role
    application: Application = getattr(module, f"build_{role}")(task, secrets, database=database, log=log, **calls)
    return application


def port_in_task(task: Task, role: str) -> int:
    """Return the port of a role's address in the task."""
    parts = urlsplit(task.url(role))
    return parts.port or (443 if parts.scheme == "https" else 80)


class RunningDeployment:
    """All roles of a task, as processes on this machine.

    `database` serves all roles; by default each has an SQLite file in `folder`.
    """

    def __init__(self, task: Task, folder: Path, *, database: str | None = None, host: str = "127.0.0.1") -> None:
        self._task, self._folder, self._database, self._host = task, folder, database, host
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.logs: dict[str, Path] = {}
        self._log_starts: dict[str, int] = {}  # bytes of logs of earlier processes

    def start(self, role: str) -> None:
        if role in self.processes and self.processes[role].poll() is None:
            return
        where = self._database or str(self._folder / f"{role}.db")
        log = self.logs[role] = self._folder / f"{role}.log"
        self._log_starts[role] = log.stat().st_size if log.exists() else 0
        command = [sys.executable, "-m", "bandanna", "serve", role, "--task", str(self._folder), "--db", where]
        with log.open("ab") as out:
            self.processes[role] = subprocess.Popen([*command, "--host", self._host], stdout=out, stderr=out)

    def wait(self, role: str, seconds: float = _START_SECONDS) -> None:
        """Wait until the process logs that it is ready."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.logs[role].read_bytes()[self._log_starts[role] :].decode(errors="replace")
            if '"event":"ready"' in text:
                return
            if self.processes[role].poll() is not None:
                raise BandannaError(f"the {role} has ended: {' '.join(text.strip().splitlines()[-1:])[:300]}")
            time.sleep(0.05)
        raise BandannaError(f"the {role} is not ready after {seconds:g} seconds: see {self.logs[role]}")

    def begin(self) -> None:
        """Start all roles and wait until they answer, or stop all."""
        try:
            for role in self._task.roles:
                self.start(role)
            for role in self._task.roles:
                self.wait(role)
        except BaseException:
            self.stop()
            raise

    def find_unready(self) -> list[str]:
        """Return the roles whose /readyz does not answer 200."""
        found = []
        for role in self._task.roles:
            name = f"[{self._host}]" if ":" in self._host else self._host
            connection = RoleConnection(f"http://{name}:{port_in_task(self._task, role)}", seconds=3.0)
            with closing(connection), suppress(RoleUnreachable):
                if connection.request("GET", "/readyz")[0] == 200:
                    continue
            found.append(role)
        return found

    def stop(self) -> None:
        """Stop all roles, mixers before the analyzer."""
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

    def __enter__(self) -> RunningDeployment:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_READY_SECONDS = 3.0  # between two checks of /readyz


def serve_all(task: Task, folder: Path, *, database: str | None, host: str, say: Callable[[str], None]) -> None:
    """Serve all roles on addresses of this machine until SIGTERM or SIGINT, or until one of them ends."""
    check_loopback("--host", host)
    for role in task.roles:  # before anything is started
        port = port_in_task(task, role)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            try:
                trial.bind((host, port))
            except OSError as error:
                raise BandannaError(f"the {role} cannot listen on {host}:{port}: {error.strerror}") from error
    ended = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.append(True))
    say(f"Starting {', '.join(task.roles)}; this takes some seconds.")
    with RunningDeployment(task, folder, database=database, host=host) as running:
        for role in task.roles:
            say(f"{role:10} http://{host}:{port_in_task(task, role)}  log: {running.logs[role]}")
        say("All roles answer. Stop them with Ctrl-C.")
        unready: list[str] = []
        next_check = time.monotonic() + _READY_SECONDS
        while not ended:
            time.sleep(0.1)
            for role, process in running.processes.items():
                if process.poll() is not None:
                    text = f"the {role} has ended with code {process.returncode}: see {running.logs[role]}"
                    raise BandannaError(text)
            if time.monotonic() >= next_check:
                found = running.find_unready()
                if found != unready:
                    say(f"Not ready: {', '.join(found)}. See their logs." if found else "All roles are ready.")
                unready, next_check = found, time.monotonic() + _READY_SECONDS


# A watched deployment on one machine


_WATCH_SECONDS = 0.1  # between two counts of rows


def free_ports(count: int) -> list[int]:
    """Return ports that are free, below those that the system gives to connections."""
    found: list[int] = []
    while len(found) < count:
        port = 20_000 + randbelow(12_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def write_demo_task(folder: Path, *, users: int, mixers: int) -> Task:
    """Write a task and its secrets: LinTS in the shuffle model, on free ports of this machine."""
    roles = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    urls = {role: f"http://127.0.0.1:{port}" for role, port in zip(roles, free_ports(len(roles)), strict=True)}
    task, secrets = creation.create_task(
        {
            "title": "A bandit, deployed",
            "algorithm": "LinTS-SDP",
            "policy": {"dim": 5, "horizon": users, "epsilon": 1.0, "delta": 1e-5},
            "rules": {"grace": 0.5, "mixers": mixers},
            "roles": urls,
        },
        expect=False,
    )
    creation.write_task(folder, task, secrets)
    return task


class TableWatcher:
    """A thread that notes the most rows of every table of every role."""

    def __init__(self, databases: Mapping[str, Path]) -> None:
        self._databases, self._stop = databases, threading.Event()
        self.most: dict[str, dict[str, int]] = {role: {} for role in databases}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> TableWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_WATCH_SECONDS):
            for role, path in self._databases.items():
                for table, count in count_rows(path).items():
                    self.most[role][table] = max(count, self.most[role].get(table, 0))


def count_rows(path: Path) -> dict[str, int]:
    """Return the rows of each table of an SQLite file; nothing if it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as rows:
            query = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name"
            names = [name for (name,) in rows.execute(query) if name != "about"]
            return {name: int(rows.execute(f'select count(*) from "{name}"').fetchone()[0]) for name in names}
    except sqlite3.Error:
        return {}


def run_demo(
    folder: Path, *, users: int = 2000, mixers: int = 1, seed: int = 0, progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Create a task in an empty folder, run its roles as processes, send simulated users, and report what each role
    saw.

    `mixers` is 1 or 2; `progress` is called with the number of users that have reported.
    """
    creation.check_free(folder)
    began = time.monotonic()
    task = write_demo_task(folder, users=users, mixers=mixers)
    created = time.monotonic()
    databases = {role: folder / f"{role}.db" for role in task.roles}
    token = Secrets.read(folder, "registrar", task).token
    with RunningDeployment(task, folder), TableWatcher(databases) as watch, HttpDeployment(task, token=token) as http:
        started = time.monotonic()
        world = world_for_task(task, None)
        crowd = SimulatedUsers(task, http, world, rounds=users, seed=seed, concurrency=8, progress=progress)
        crowd.run()
        end = time.monotonic() + 60.0
        while count_rows(databases[task.collector]).get("reports", 1) and time.monotonic() < end:
            time.sleep(0.05)  # the collector deletes reports with their receipt, a moment after the publication
        metrics = {role: _read_metrics(task, role, Secrets.read(folder, role, task).token) for role in task.roles}
        status, content = _get(task, "analyzer", f"/tasks/{task.id}/ledger")
        if status != 200:
            raise BandannaError(f"the analyzer shows no ledger: {status}")
    return {
        "task": task.id,
        "title": task.content["title"],
        "processes": list(task.roles),
        "collector": task.collector,
        "promise": task.content["promise"],
        "crowd": summarize_users(crowd),
        "ledger": dict(loads(content)["ledger"]),
        "saw": [
            _describe_role(task, role, metrics[role], watch.most[role], count_rows(databases[role]))
            for role in task.roles
        ],
        "seconds": {"created": created - began, "started": started - created},
    }


def _describe_role(
    task: Task, role: str, metrics: dict[str, float], most: dict[str, int], end: dict[str, int]
) -> dict[str, Any]:
    return {
        "role": role,
        "sees": next(each.sees for each in visibility_table(task) if each.role == role),
        "requests": int(metrics["bandanna_requests_total"]),
        "bytes": int(metrics["bandanna_received_bytes_total"]),
        "tables": {name: [max(most.get(name, 0), count), count] for name, count in end.items()},
    }


def _read_metrics(task: Task, role: str, token: str) -> dict[str, float]:
    _, content = _get(task, role, "/metrics", {"Authorization": f"Bearer {token}"})
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(content.decode()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def _get(task: Task, role: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    with closing(RoleConnection(task.url(role))) as connection:
        status, content, _ = connection.request("GET", path, headers=headers)
    return status, content
