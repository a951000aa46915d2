"""A role as a process that kills itself (-9): `python launcher.py folder role port database point passes`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POINTS = ("before commit", "after commit", "before call", "after call")


def arm(point: str, passes: int) -> None:
    from bandanna.deployment.calls import RoleConnection
    from bandanna.storage.database.base import Database

    left = [passes]

    def passed(here: str) -> None:
        if here == point:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    begin, request = Database.transaction, RoleConnection.request

    @contextmanager
    def transaction(self: Any) -> Iterator[Any]:
        with begin(self) as rows:
            yield rows
            passed("before commit")
        passed("after commit")

    def request_with_faults(self: Any, *arguments: Any) -> Any:
        passed("before call")
        answer = request(self, *arguments)
        passed("after call")
        return answer

    Database.transaction = transaction  # type: ignore[method-assign]
    RoleConnection.request = request_with_faults  # type: ignore[method-assign]


def main(folder: str, role: str, port: str, database: str, point: str, passes: str) -> None:
    from bandanna.deployment.processes import serve_role
    from bandanna.deployment.task.document import Task

    faulthandler.enable()
    if point:
        arm(point, int(passes))
    task = Task.read(Path(folder))
    serve_role(role, task, secrets=Path(folder), database=database, host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
