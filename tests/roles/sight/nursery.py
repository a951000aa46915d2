"""Roles as processes that begin quickly: a process that has loaded everything, and knows nothing, forks for each.

Every line that it reads is a role to be served: folder, role, database, port and log. It answers with the number of
its process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Until there is no more to read."""
    import bandanna.roles.analyzer.app
    import bandanna.roles.helper.app
    import bandanna.roles.registrar.app
    import bandanna.roles.shuffler.app  # noqa: F401
    from bandanna.agent.kinds import encoding_of
    from bandanna.roles.serving import application, serve  # noqa: F401

    encoding_of()
    warnings.simplefilter("error")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        wanted = json.loads(line)
        number = os.fork()
        if number == 0:
            _serve(**wanted)
        print(number, flush=True)


def _serve(folder: str, role: str, database: str, port: int, log: str) -> None:
    from bandanna.roles.running import serve_role
    from bandanna.tasks.document import Task

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    kept = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (0, 1, 2):
        os.dup2(kept, stream)
    code = 1
    try:
        serve_role(role, Task.read(Path(folder)), secrets=Path(folder), database=database, host="127.0.0.1", port=port)
        code = 0
    finally:
        os._exit(code)


class Nursery:
    """The process, from outside."""

    def __init__(self) -> None:
        import bandanna

        environment = {**os.environ, "PYTHONPATH": str(Path(bandanna.__file__).parents[1])}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip

    def start(self, **wanted: object) -> int:
        """A role; the number of its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """No more of them."""
        self._process.communicate(timeout=120)


def alive(number: int) -> bool:
    """Whether a role's process is there."""
    with suppress(ProcessLookupError):
        os.kill(number, 0)
        return True
    return False


def stop(numbers: list[int], seconds: float = 20.0) -> None:
    """Ask processes to end, and see that they do."""
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGTERM)
    end = time.monotonic() + seconds
    while any(map(alive, numbers)) and time.monotonic() < end:
        time.sleep(0.02)
    for number in filter(alive, numbers):
        os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    main()
