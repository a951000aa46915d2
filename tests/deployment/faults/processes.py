"""Roles as processes that are killed and started again, behind proxies that lose requests and answers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.deployment.processes import free_ports, port_in_task
from bandanna.deployment.task.document import Task

from ...nursery import Child, nursery

_DEATHS = 6  # at random, in one test
_ENDING = 300.0  # seconds in which a role must end
LAUNCHER = Path(__file__).with_name("launcher.py")


class Proxy:
    """Forwards to a role; each portion of bytes is lost with probability `loss`, and its connection with it."""

    def __init__(self, port: int, target: int, loss: float, seed: int) -> None:
        self._target, self._loss, self._rng = target, loss, np.random.default_rng(seed)
        self._lock, self._ended = threading.Lock(), False
        self._listener = socket.create_server(("127.0.0.1", port))
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended = True
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ended:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            role = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            client.close()
            return
        role.settimeout(None)
        threading.Thread(target=self._copy, args=(role, client), daemon=True).start()
        self._copy(client, role)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    lost = self._rng.random() < self._loss
                    self.lost += lost
                if lost:
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Mortal:
    """All roles of a task; whoever dies is started again, until `close`.

    point, passes   of one role's first life;  every: kill somebody at random so often, in seconds
    """

    def __init__(
        self,
        task: Task,
        folder: Path,
        *,
        role: str = "",
        point: str = "",
        passes: int = 0,
        loss: float = 0.0,
        every: float = 0.0,
        seed: int = 0,
        database: str | None = None,
    ) -> None:
        self._task, self._folder, self._database, self._every = task, folder, database, every
        ports = free_ports(len(task.roles))
        self._inner = dict(zip(task.roles, ports, strict=True))
        self.proxies = [
            Proxy(port_in_task(task, each), self._inner[each], loss, seed + number)
            for number, each in enumerate(task.roles)
        ]
        self.deaths = 0
        self._rng, self._stop = np.random.default_rng(seed), threading.Event()
        self.processes = {each: self._start(each, point if each == role else "", passes) for each in task.roles}
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _start(self, role: str, point: str = "", passes: int = 0) -> Child:
        where = self._database or str(self._folder / f"{role}.db")
        arguments = [str(self._folder), role, str(self._inner[role]), where, point, str(passes)]
        with (self._folder / f"{role}.log").open("ab") as log:
            command = [sys.executable, "-W", "error", str(LAUNCHER), *arguments]
            return nursery().start(command, stdout=log, stderr=log)

    def _keep(self) -> None:
        next_ = time.monotonic() + self._every
        while not self._stop.wait(0.05):
            if self._every and self.deaths < _DEATHS and time.monotonic() > next_ and self._answer():
                next_ = time.monotonic() + self._every
                self.processes[str(self._rng.choice(list(self.processes)))].kill()
            for role, process in self.processes.items():
                if process.poll() is not None and not self._stop.is_set():
                    assert process.returncode == -signal.SIGKILL, f"the {role} has ended by itself"
                    self.deaths += 1
                    self.processes[role] = self._start(role)

    def _answer(self) -> bool:
        """Return whether all roles answer."""
        for port in self._inner.values():
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                return False
        return True

    def __enter__(self) -> Mortal:
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._keeper.join()
        for process in self.processes.values():
            process.terminate()
        endless = []
        for role, process in self.processes.items():
            try:
                process.wait(timeout=_ENDING)
            except subprocess.TimeoutExpired:
                endless.append(role)
                process.send_signal(signal.SIGABRT)  # what its threads do is in its log then
                process.wait(timeout=_ENDING)
        for proxy in self.proxies:
            proxy.close()
        assert not endless, f"{', '.join(endless)}: asked to end, and still there after {_ENDING:g} seconds"
