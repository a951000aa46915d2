"""A real deployment, every role a process behind a recording proxy, and a search in all that each role has."""

from __future__ import annotations

import base64
import json
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bandanna.deployment.client.load_simulation import HttpDeployment, SimulatedUsers, SimulationTotals
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.report import ReportAnswer, TaggedReport, Ticket
from bandanna.deployment.processes import free_ports
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Secrets, Task
from bandanna.simulation.environments.linear import LinearContextual

from ...nursery import Child, nursery

SOURCE = "127.77.5."  # where requests seem to come from: an address that nothing else has


@dataclass
class Connection:
    """The bytes of both directions of a connection."""

    sent: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: int = 0


class Tap:
    """Listens at the address of a role and forwards to the role."""

    def __init__(self, number: int) -> None:
        self._source = f"{SOURCE}{number}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.target = 0
        self.connections: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def received(self) -> bytes:
        return b"\n".join(bytes(each.sent) for each in self.connections)

    def answers_to(self, mark: bytes) -> bytes:
        """Return the role's answers on connections that sent this."""
        return b"\n".join(bytes(each.answered) for each in self.connections if mark in each.sent)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            try:
                role = socket.create_connection(
                    ("127.0.0.1", self.target), timeout=600, source_address=(self._source, 0)
                )
            except OSError:
                peer.close()  # it is not there yet
                continue
            held = Connection()
            self.connections.append(held)
            for one, other, kept in ((peer, role, held.sent), (role, peer, held.answered)):
                threading.Thread(target=_pass, args=(one, other, kept, held), daemon=True).start()


def _pass(one: socket.socket, other: socket.socket, kept: bytearray, held: Connection) -> None:
    """Forward one direction; the last of both closes the connection."""
    with suppress(OSError):
        while piece := one.recv(1 << 16):
            kept += piece
            other.sendall(piece)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
    with held.lock:
        held.ended += 1
        if held.ended == 2:
            one.close()
            other.close()


def traces(value: bytes) -> set[bytes]:
    found = {value, value.hex().encode(), value.hex().upper().encode()}
    for shift in range(3):  # inside something longer, base64 begins anywhere
        padded = base64.b64encode(bytes(shift) + value)
        inner = padded[-(-8 * shift // 6) :] if shift else padded
        whole = (len(value) + shift) * 8 // 6 - (-(-8 * shift // 6))  # characters that depend on the value alone
        for text in (inner[:whole], inner[:whole].replace(b"+", b"-").replace(b"/", b"_")):
            if len(text) >= 8:
                found.add(text)
    return found


def numbers(row: Any) -> set[bytes]:
    """Return forms in which integers might be written: as texts, and in the types of the wire."""
    listed = [int(each) for each in row]
    found = {sign.join(map(str, listed)).encode() for sign in (",", ", ", " ")}
    for dtype in ("<u4", "<u8", ">u4", ">u8"):
        found |= traces(np.array(listed, dtype=np.int64).astype(dtype).tobytes())
    return found


def seen(values: Iterable[bytes], where: bytes) -> int:
    """Count the values that are found, in any form."""
    return sum(any(trace in where for trace in traces(value)) for value in values)


def seen_numbers(rows: Iterable[Any], where: bytes) -> int:
    return sum(any(trace in where for trace in numbers(row)) for row in rows)


ROLES = ("registrar", "analyzer", "shuffler", "helper")


@dataclass
class Known:
    """What devices know and roles must not."""

    users: list[bytes] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    reports: list[TaggedReport] = field(default_factory=list)

    @property
    def slots(self) -> list[bytes]:
        return [each.slot for each in self.tickets]

    @property
    def keys(self) -> list[bytes]:
        """Return the keys of tickets for the collector and the helper."""
        return [key for each in self.tickets for key in (each.collector, each.helper) if key is not None]

    @property
    def tags(self) -> list[bytes]:
        return [each.tag for each in self.reports]

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.reports]


class Watched(HttpDeployment):
    """The client side, which notes what it sends; names of users are unique."""

    def __init__(self, task: Task, token: str, look: Any) -> None:
        super().__init__(task, token=token)
        self.known, self._look, self._uploads = Known(), look, 0

    def tickets(self, users: Sequence[str], epoch: int, refused: Sequence[Any] = ()) -> list[Ticket]:
        names = [f"person-{secrets.token_hex(8)}" for _ in users]
        made = super().tickets(names, epoch, refused)
        self.known.users += [name.encode() for name in names]
        self.known.tickets += made
        return made

    def upload(self, reports: Sequence[bytes]) -> list[ReportAnswer]:
        """Send one request; before the sixth, look at all stored data."""
        self._uploads += 1
        if self._uploads == 6:
            self._look()
        self.known.reports += map(TaggedReport.from_bytes, reports)
        return super().upload(reports)

    def close(self) -> None:
        for each in self._calls.values():
            each.close()


class Deployed:
    """All roles of a task, with their files (before a batch was over, and at the end), logs and traffic."""

    def __init__(self, folder: Path, algorithm: str, *, rounds: int, **rules: Any) -> None:
        self.folder, self._rounds = folder, rounds
        names = ROLES if rules.get("mixers") == 2 else ROLES[: 2 + rules.get("mixers", 0)]
        self.taps = {role: Tap(number) for number, role in enumerate(names)}
        batch: dict[str, Any] = {} if "CSDP" in algorithm or "UCB" in algorithm else {"batch": 10}
        own: dict[str, Any] = {"width": 0.2} if "UCB" in algorithm else {}
        self.task, made = create_task(
            {
                "title": "watched",
                "algorithm": algorithm,
                "policy": {"dim": 2, "horizon": 40, "epsilon": 5.0, "delta": 1e-3, **batch, **own},
                "rules": rules,
                "roles": {role: f"http://127.0.0.1:{tap.port}" for role, tap in self.taps.items()},
                "test": {"close": "answered"},
            },
            expect=False,
        )
        write_task(folder, self.task, made)
        self.secrets: dict[str, Secrets] = {each.role: each for each in made}
        self._processes: list[Child] = []
        self.plans: list[Batch] = []
        self.before: dict[str, bytes] = {}
        self.after: dict[str, bytes] = {}

    def run(self) -> SimulationTotals:
        try:
            self.begin()
            return self.play()
        finally:
            self.end()

    def begin(self) -> None:
        for role in self.task.roles:
            self._start(role)
        self._wait()

    def play(self, look: Callable[[], None] = lambda: None) -> SimulationTotals:
        """Simulate users; `look` is called while the first batch is open."""

        def both() -> None:
            self.before = self._stored()
            look()

        watched = Watched(self.task, self.secrets["registrar"].token, both)
        self.known = watched.known
        world = LinearContextual(dim=2, n_arms=4)
        account = SimulatedUsers(self.task, watched, world, rounds=self._rounds, concurrency=1, wait=600).run()
        watched.close()
        self.plans = [batch for view in account.publications for batch in view.batches]
        self._settle()
        self.after = self._stored()
        return account

    def end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=600)
            except subprocess.TimeoutExpired:
                process.kill()
        for tap in self.taps.values():
            tap.close()

    def log(self, role: str) -> bytes:
        return (self.folder / f"{role}.log").read_bytes()

    def lines(self, role: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log(role).splitlines()]

    def received(self, role: str) -> bytes:
        """Return the requests to a role, and the answers to its own."""
        asked = {
            "analyzer": [("registrar", b"/witness")],
            "shuffler": [("analyzer", b"/shares/shuffler"), ("helper", b"/job")],
            "helper": [("analyzer", b"/shares/helper")],
        }.get(role, [])
        answers = (self.taps[name].answers_to(mark) for name, mark in asked if name in self.taps)
        return b"\n".join([self.taps[role].received, *answers])

    def _stored(self) -> dict[str, bytes]:
        """Return the bytes of all files of each role but its log."""
        found = {}
        for role in self.task.roles:
            files = [each for each in (self.folder / role).rglob("*") if each.is_file()]
            found[role] = b"\n".join(each.read_bytes() for each in sorted(files))
        return found

    def memory(self, role: str) -> int:
        number = self._processes[self.task.roles.index(role)].pid
        return int(Path(f"/proc/{number}/statm").read_text().split()[1]) * 4096

    def tables(self, role: str) -> dict[str, int]:
        """Return the number of rows of each table at the end."""
        with closing(sqlite3.connect(f"file:{self.folder / role / 'role.db'}?mode=ro", uri=True)) as rows:
            names = [name for (name,) in rows.execute("select name from sqlite_master where type = 'table'")]
            return {name: rows.execute(f"select count(*) from {name}").fetchone()[0] for name in names}

    def _start(self, role: str) -> None:
        (port,) = free_ports(1)
        (self.folder / role).mkdir()
        database = str(self.folder / role / "role.db")
        command = ["-m", "bandanna", "serve", role, "--task", str(self.folder), "--db", database, "--port", str(port)]
        with (self.folder / f"{role}.log").open("ab") as log:
            self._processes.append(nursery().start([sys.executable, "-W", "error", *command], stdout=log, stderr=log))
        self.taps[role].target = port

    def _wait(self) -> None:
        end = time.monotonic() + 600
        for role in self.task.roles:
            while time.monotonic() < end:
                assert all(each.poll() is None for each in self._processes), self.log(role)
                try:
                    if httpx.get(
                        f"http://127.0.0.1:{self.taps[role].target}/readyz", trust_env=False, verify=False
                    ).status_code:
                        break
                except httpx.HTTPError:
                    time.sleep(0.05)

    def _settle(self) -> None:
        end = time.monotonic() + 600
        while time.monotonic() < end:
            if not self.tables(self.task.collector)["reports"] and not (
                self.task.mixers == 2 and self.tables("helper")["slots"]
            ):
                break
            time.sleep(0.05)
        time.sleep(0.3)  # and the log of changes is emptied
