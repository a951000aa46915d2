"""A role that is told to stop does not wait for whoever waits for news."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx
import pytest

import bandanna as bd
from bandanna.deployment.processes import RunningDeployment
from bandanna.deployment.task.document import Secrets

from .test_processes import on_disk


@pytest.mark.usefixtures("_quick_roles")
def test_a_long_poll_is_answered_when_the_analyzer_is_told_to_stop(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=40, batch=20, privacy=bd.central(epsilon=2.0, delta=1e-4))
    task, _ = on_disk(policy, tmp_path, seed=None)
    url, found = task.url("analyzer"), list[int]()

    def wait() -> None:
        asked = f"{url}/tasks/{task.id}/snapshot?after=5&wait=25"
        found.append(httpx.get(asked, timeout=600, trust_env=False).status_code)

    running, token = RunningDeployment(task, tmp_path), Secrets.read(tmp_path, "analyzer", task).token
    try:
        for role in ("registrar", "analyzer"):
            running.start(role)
            running.wait(role)
        while httpx.get(f"{url}/tasks/{task.id}/snapshot", timeout=600, trust_env=False).status_code != 200:
            pass  # the registrar has not cosigned it yet
        waiting = threading.Thread(target=wait)
        waiting.start()
        while not _in_flight(url, token):
            assert waiting.is_alive()  # its question lasts 25 seconds
        running.processes["analyzer"].send_signal(signal.SIGTERM)
        waiting.join()
        assert running.processes["analyzer"].wait(timeout=600) == 0
    finally:
        running.stop()
    assert found == [204]


def _in_flight(url: str, token: str) -> bool:
    """Whether the analyzer has the request, beside the one that asks."""
    lines = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {token}"}, trust_env=False).text.splitlines()
    (flying,) = [
        float(line.split()[-1]) for line in lines if "bandanna_requests_in_flight" in line and not line.startswith("#")
    ]
    return flying == 2
