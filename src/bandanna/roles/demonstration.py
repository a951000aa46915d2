"""A deployment on one machine, watched while simulated users go through it: what each role has in its database."""

from __future__ import annotations

import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from secrets import randbelow
from typing import Any

from bandanna.errors import BandannaError
from bandanna.roles.calls import Calls
from bandanna.roles.client.crowd import Crowd, summary
from bandanna.roles.client.deployment import Http
from bandanna.roles.client.worlds import world_of
from bandanna.roles.running import Running
from bandanna.tasks import creation
from bandanna.tasks.document import Secrets, Task
from bandanna.tasks.sight import sight
from bandanna.wire.canonical import loads

_TICK = 0.1  # seconds between two looks
_SAMPLE = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)
_OURS = ("about",)  # the version of the tables


def free_ports(count: int) -> list[int]:
    """Nobody listens on these; and below those that connections are given, which would take one in the meantime."""
    found: list[int] = []
    while len(found) < count:
        port = 20_000 + randbelow(12_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


def a_small_task(folder: Path, *, users: int, mixers: int) -> Task:
    """LinTS in the shuffle model for so many users, on free ports of this machine, written with its secrets."""
    roles = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    urls = {role: f"http://127.0.0.1:{port}" for role, port in zip(roles, free_ports(len(roles)), strict=True)}
    task, secrets = creation.create(
        {
            "title": "A bandit, deployed",
            "algorithm": "LinTS-SDP",
            "policy": {"dim": 5, "horizon": users, "epsilon": 1.0, "delta": 1e-5},
            "rules": {"grace": 0.5, "mixers": mixers},
            "roles": urls,
        },
        expect=False,
    )
    creation.write(folder, task, secrets)
    return task


class Watch:
    """A thread that counts the rows of every table of every role, again and again."""

    def __init__(self, databases: Mapping[str, Path]) -> None:
        self._databases, self._stop = databases, threading.Event()
        self.most: dict[str, dict[str, int]] = {role: {} for role in databases}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_TICK):
            for role, path in self._databases.items():
                for table, count in rows_of(path).items():
                    self.most[role][table] = max(count, self.most[role].get(table, 0))


def rows_of(path: Path) -> dict[str, int]:
    """How many rows each table of an SQLite file has; nothing if it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as rows:
            query = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name"
            names = [name for (name,) in rows.execute(query) if name not in _OURS]
            return {name: int(rows.execute(f'select count(*) from "{name}"').fetchone()[0]) for name in names}
    except sqlite3.Error:
        return {}


def demonstrate(
    folder: Path, *, users: int = 2000, mixers: int = 1, seed: int = 0, progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Make a task in a folder, run its roles as processes, send simulated users, and say what each role saw."""
    creation.check_free(folder)
    began = time.monotonic()
    task = a_small_task(folder, users=users, mixers=mixers)
    created = time.monotonic()
    databases = {role: folder / f"{role}.db" for role in task.roles}
    token = Secrets.read(folder, "registrar", task).token
    with Running(task, folder), Watch(databases) as watch, Http(task, token=token) as http:
        started = time.monotonic()
        world = world_of(task, None)
        crowd = Crowd(task, http, world, rounds=users, seed=seed, concurrency=8, progress=progress)
        crowd.run()
        _until_receipted(databases[task.collector])
        met = {role: _metrics(task, role, Secrets.read(folder, role, task).token) for role in task.roles}
        ledger = _ledger(task)
    return {
        "task": task.id,
        "title": task.content["title"],
        "processes": list(task.roles),
        "collector": task.collector,
        "promise": task.content["promise"],
        "crowd": summary(crowd),
        "ledger": ledger,
        "saw": [_seen(task, role, met[role], watch.most[role], rows_of(databases[role])) for role in task.roles],
        "seconds": {"created": created - began, "started": started - created},
    }


def _seen(task: Task, role: str, met: dict[str, float], most: dict[str, int], end: dict[str, int]) -> dict[str, Any]:
    sees = next(each.sees for each in sight(task) if each.role == role)
    tables = {name: [max(most.get(name, 0), count), count] for name, count in end.items()}
    return {
        "role": role,
        "sees": sees,
        "requests": int(met["requests_total"]),
        "bytes": int(met["received_bytes_total"]),
        "tables": tables,
    }


def _until_receipted(database: Path, seconds: float = 60.0) -> None:
    """The collector deletes reports when their receipt has come: a moment after the publication."""
    end = time.monotonic() + seconds
    while rows_of(database).get("reports", 1) and time.monotonic() < end:  # 1: it could not be read
        time.sleep(0.05)


def _metrics(task: Task, role: str, token: str) -> dict[str, float]:
    """Every metric of a role, added up over its labels."""
    calls = Calls(task.url(role))
    with closing(calls):
        _, content, _ = calls.ask("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(content.decode()):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def _ledger(task: Task) -> dict[str, Any]:
    calls = Calls(task.url("analyzer"))
    with closing(calls):
        status, content, _ = calls.ask("GET", f"/tasks/{task.id}/ledger")
    if status != 200:
        raise BandannaError(f"the analyzer shows no ledger: {status}")
    return dict(loads(content)["ledger"])
