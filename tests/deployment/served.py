"""A role of a task in a process of its own: `python served.py folder role url [port]`; and tasks to serve."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any


def main(folder: str, role: str, url: str, port: str) -> None:
    from bandanna.deployment.http.metrics import EventLog
    from bandanna.deployment.http.server import serve
    from bandanna.deployment.processes import build_role
    from bandanna.deployment.task.document import Secrets, Task

    task = Task.read(Path(folder))
    log = EventLog(role)
    app = build_role(role, task, Secrets.read(Path(folder), role, task), database=url, log=log)
    serve(app, host="127.0.0.1", port=int(port), cert=None, key=None, log=log, ready=lambda at: print(at, flush=True))


class Served:
    def __init__(self, folder: Path, role: str, url: str, port: int = 0) -> None:
        import httpx

        from ..nursery import nursery

        self.errors = folder / f"stderr-{role}-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            command = [sys.executable, "-W", "error", __file__, str(folder), role, url, str(port)]
            self.process = nursery().start(command, stdout=subprocess.PIPE, stderr=errors)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or 0)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=600, trust_env=False, verify=False)

    def lines(self) -> list[dict[str, Any]]:
        """Return the log; fail if anything else was written."""
        return [json.loads(line) for line in self.errors.read_text().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=600)
        return self.process.returncode


@cache
def agreeing_pair(role: str) -> tuple[str, str]:
    """Return the pair of a role, the same in all tasks of a test process."""
    from bandanna.deployment.messages.canonical import sealing_key

    return sealing_key()


def ticket_key(task: Any, verifier: str) -> bytes:
    """Return the key that the registrar and a verifier of tickets share in a task of `written`."""
    from bandanna.deployment.task.document import Secrets

    return Secrets(task=task.id, role="registrar", agree=agreeing_pair("registrar")[0]).ticket_key(task, verifier)


def written(folder: Path, name: str, *, mixers: int, urls: dict[str, str], **arguments: Any) -> Any:
    """Write a task of an algorithm and the secrets of registrar, shuffler and helper to a folder."""
    import bandanna as bd
    from bandanna.deployment.messages.canonical import encode_base64url, sealing_key, signing_key
    from bandanna.deployment.task.document import Secrets, Task, make_content

    roles = ("registrar", "analyzer", "shuffler", "helper")
    signing, agreeing = {role: signing_key() for role in roles}, {role: agreeing_pair(role) for role in roles}
    sealing = sealing_key()
    content = make_content(
        bd.make(name, **arguments), arms=None, title="a test", algorithm=name, mixers=mixers, grace=1.0, close="grace",
        max_age=1, urls=urls, seed=None, test=True, guarantee={}, promise="", expected=None, schema=None,
        keys={**{role: pair[1] for role, pair in signing.items()}, "seal helper": sealing[1],
              **{f"agree {role}": pair[1] for role, pair in agreeing.items()}},
    )  # fmt: skip
    task = Task.made(content)
    (folder / "task.json").write_bytes(task.document)
    for role in roles:
        sign, agree = signing[role][0], agreeing[role][0]
        seal = sealing[0] if role == "helper" else ""
        token = f"the token of the {role}"
        person = encode_base64url(b"p" * 32) if role == "registrar" else ""
        Secrets(task=task.id, role=role, sign=sign, seal=seal, agree=agree, person=person, token=token).write(folder)
    return task


if __name__ == "__main__":
    main(*sys.argv[1:])
