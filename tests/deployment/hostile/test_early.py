"""Devices that are faster than the shuffler: it has not heard of their batch yet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import HttpDeployment
from bandanna.deployment.task.document import Task

from ..inside import a_task


class Slow(ThreadingHTTPServer):
    """A collector that says "early" twice."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.bodies: list[bytes] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Answering(BaseHTTPRequestHandler):
    """One request."""

    server: Slow

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        early = len(self.server.bodies) < 3
        said = {"results": [{"reason": "early", "error": ""}], "reason": "early"} if early else {"places": [4]}
        content = json.dumps(said).encode()
        self.send_response(409 if early else 201)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.shutdown()
    slow.server_close()


def test_what_is_too_early_is_sent_again(collector: Slow) -> None:
    made, _ = a_task(bd.make("LinTS-LDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3), seed=None)
    url = f"http://127.0.0.1:{collector.server_port}"
    task = Task.made({**made.content, "urls": {"analyzer": url, "registrar": url}})
    http = HttpDeployment(task, token="t")
    assert http.upload([b"a record"])[0].place == 4
    assert len(set(collector.bodies)) == 1  # the same bytes
    assert (len(collector.bodies), http.retries) == (3, 2)
    for each in http._calls.values():
        each.close()
