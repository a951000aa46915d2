"""Real processes over loopback learn what the simulator learns, bit for bit, and start and stop as one."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import HttpDeployment, SimulatedUsers
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.processes import (
    RunningDeployment,
    build_role,
    check_loopback,
    free_ports,
    port_in_task,
    serve_all,
)
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.registry import make_encoding
from bandanna.simulation.players.reference import ReferenceRun

from ..postgres import server
from .inside import a_task
from .simulated import case, simulated

QUICK = [
    ("LinTS-SDP", 1, "sqlite"),  # by `python -m bandanna serve`; the others by a nursery
    ("LinUCB-CSDP", 2, "postgres"),
]
LONG = [
    ("LinTS-JDP", 0, "sqlite"),  # faults/test_kills.py has the central model on SQLite, in trouble
    ("LinTS-LDP", 0, "postgres"),
    ("LinTS-SDP", 2, "postgres"),
    ("LinUCB-CSDP", 2, "sqlite"),
    ("GLM-SDP", 1, "postgres"),
    ("LinTS", 0, "sqlite"),
    ("LinTS-SDP", 1, "postgres"),
    ("LinTS-SDP", 2, "sqlite"),
    ("LinTS-CSDP", 1, "sqlite"),
    ("LinUCB-SDP-Amp", 1, "sqlite"),
    ("LinUCB-SDP-Amp", 1, "postgres"),
    ("LinUCB-SDP-Vec", 2, "sqlite"),
    ("LinTS-SDP-rewards", 1, "sqlite"),
    ("GLM-SDP", 2, "sqlite"),
    ("GLM-JDP", 0, "postgres"),
    ("SDP-DPE", 1, "sqlite"),
    ("SDP-DPE", 2, "postgres"),
    ("SDP-SE", 1, "sqlite"),
    ("SDP-SE", 2, "postgres"),
    ("AdaC-UCB", 0, "sqlite"),
    ("DP-SE", 0, "postgres"),
    ("LinUCB-LDP-batched", 0, "sqlite"),
]


def on_disk(policy: Any, folder: Path, *, mixers: int | None = None, **parts: Any) -> tuple[Task, dict[str, Any]]:
    """Write a test task with free addresses to a folder."""
    roles = ("registrar", "analyzer", "shuffler", "helper")
    urls = {role: f"http://127.0.0.1:{port}" for role, port in zip(roles, free_ports(4), strict=True)}
    task, secrets = a_task(policy, mixers=mixers, urls=urls, **parts)
    (folder / "task.json").write_bytes(task.document)
    for each in secrets.values():
        each.write(folder)
    return task, secrets


@pytest.mark.parametrize(
    ("name", "mixers", "database"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.full) for each in LONG)]
)
def test_processes_learn_what_the_simulator_learns(
    name: str, mixers: int, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if (name, mixers, database) != QUICK[0]:
        request.getfixturevalue("_quick_roles")
    policy, env, arms, rounds = case(name)
    expected = simulated(policy, env, rounds)
    task, secrets = on_disk(policy, tmp_path, mixers=mixers, arms=arms)
    url = server().fresh() if database == "postgres" else None
    with (
        RunningDeployment(task, tmp_path, database=url),
        HttpDeployment(task, token=secrets["registrar"].token) as http,
    ):
        # Of reports, or features beside them, that are real numbers a sum depends on the order of arrival, by a bit.
        together = 1 if policy.privacy.model in ("local", "none") or name.endswith("-rewards") else 4
        crowd = SimulatedUsers(task, http, env, rounds=rounds, concurrency=together, wait=600.0)
        account = crowd.run()
        last = account.publications[-1]
        ledger = httpx.get(f"{task.url('analyzer')}/tasks/{task.id}/ledger", trust_env=False).json()["ledger"]
    assert make_encoding().dumps(last.state) == expected.state
    assert account.actions == expected.actions
    assert crowd.regret == expected.regret
    assert not account.refused
    if policy.privacy.noisy:
        assert ledger["spent"] == last.content["spent"]
        assert len(ledger["entries"]) >= expected.releases


def test_with_secure_noise_the_regret_agrees_in_law(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=200, batch=40, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    env = bd.environments.LinearContextual(dim=2, n_arms=3)
    rounds, regrets = 200, []
    from .inside import Inside

    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        task, secrets = a_task(policy, seed=None)
        crowd = SimulatedUsers(task, Inside(task, secrets, folder), env, rounds=rounds, seed=seed, concurrency=1)
        crowd.run()
        regrets.append(crowd.regret)
    simulated_ = bd.simulate(policy, env, n_seeds=400, seed=0, path="law").regret[:, -1]
    error = np.hypot(np.std(regrets) / np.sqrt(12), np.std(simulated_) / 20)
    assert abs(np.mean(regrets) - np.mean(simulated_)) < 3.3 * error
    assert isinstance(crowd.seed, ReferenceRun)


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
    """Return whether the analyzer has another request in flight."""
    lines = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {token}"}, trust_env=False).text.splitlines()
    (flying,) = [
        float(line.split()[-1]) for line in lines if "bandanna_requests_in_flight" in line and not line.startswith("#")
    ]
    return flying == 2


def test_a_taken_port_is_reported_before_a_role_starts(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=64, batch=32, privacy=bd.shuffle(epsilon=4.0, delta=1e-4))
    task, _ = on_disk(policy, tmp_path, mixers=1, seed=None)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", port_in_task(task, "analyzer"))), pytest.raises(BandannaError) as refused:
        serve_all(task, tmp_path, database=None, host="127.0.0.1", say=said.append)
    assert f"the analyzer cannot listen on 127.0.0.1:{port_in_task(task, 'analyzer')}" in str(refused.value)
    assert said == []
    assert list(tmp_path.glob("*.db")) == []


def test_a_role_whose_readiness_is_not_200_is_unready(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=64, batch=32, privacy=bd.shuffle(epsilon=4.0, delta=1e-4))
    task, _ = on_disk(policy, tmp_path, mixers=1, seed=None)
    running = RunningDeployment(task, tmp_path)
    assert running.find_unready() == list(task.roles)
    try:
        running.start("registrar")
        running.wait("registrar")
        assert running.find_unready() == ["analyzer", "shuffler"]
    finally:
        running.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::", "example.org"])
def test_plain_http_beyond_this_machine_needs_a_flag(host: str) -> None:
    with pytest.raises(InvalidArgument, match="--plain-http"):
        check_loopback("--host", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_plain_http_within_this_machine_needs_no_flag(host: str) -> None:
    check_loopback("--host", host)


ROUTES = {
    "GET": ["/task", "/tasks/{t}", "/tasks/{t}/snapshot", "/tasks/{t}/snapshot/0", "/tasks/{t}/ledger",
            "/tasks/{t}/ledger/summary", "/tasks/{t}/history", "/tasks/{t}/open",
            "/tasks/{t}/witness", "/tasks/{t}/batches/0.0/shares/shuffler/x", "/status", "/readyz", "/metrics"],
    "POST": ["/tasks/{t}/reports", "/tasks/{t}/tickets", "/admin/keys"],
    "PUT": ["/tasks/{t}/witness", "/tasks/{t}/batches/0.0/job", "/tasks/{t}/batches/0.0/shares/shuffler"],
}  # fmt: skip
DOCUMENTS = {f"GET {path}" for path in ROUTES["GET"][:7]}
REPORTS = {"POST /tasks/{t}/reports", "GET /tasks/{t}/open"}


@pytest.mark.parametrize(
    ("role", "mixers", "allowed"),
    [
        ("registrar", 2, set()),
        ("analyzer", 2, DOCUMENTS),
        ("analyzer", 0, DOCUMENTS | REPORTS),
        ("shuffler", 1, REPORTS),
        ("helper", 2, set()),
    ],
)
async def test_pages_read_what_clients_need(role: str, mixers: int, allowed: set[str], tmp_path: Path) -> None:
    """The registrar answers the host's server alone: a page that could call it would need the host's token."""
    names = ("registrar", "analyzer", "shuffler", "helper")[: 2 + mixers]
    urls = {name: f"http://127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    policy = {"dim": 2, "horizon": 100, "batch": 50, "epsilon": 1.0, "delta": 1e-5}
    algorithm = "LinTS-SDP" if mixers else "LinTS-LDP"
    source = {"algorithm": algorithm, "title": "pages", "policy": policy, "rules": {"mixers": mixers}, "roles": urls}
    task, secrets = create_task(source, expect=False)
    write_task(tmp_path, task, secrets)
    own, log = Secrets.read(tmp_path, role, task), EventLog(role)
    app = build_role(role, task, own, database=str(tmp_path / "role.db"), log=log)
    assert await _readable(app, task.id) == allowed


async def _readable(app: Any, task: str) -> set[str]:
    """Return the routes that a page may read, by the header and by the preflight answer."""
    found = set()
    transport = httpx.ASGITransport(app=app)
    async with _living(app), httpx.AsyncClient(transport=transport, base_url="http://role") as client:
        for method, path in [(method, path) for method, paths in ROUTES.items() for path in paths]:
            answer = await client.request(method, path.replace("{t}", task))
            asked = await client.options(path.replace("{t}", task))
            open_to_pages = answer.headers.get("access-control-allow-origin") == "*"
            allowed = asked.headers.get("access-control-allow-methods", "").split(", ")
            assert open_to_pages == (asked.status_code == 204 and method in allowed), (method, path)
            if open_to_pages:
                found.add(f"{method} {path}")
    return found


@asynccontextmanager
async def _living(app: Any) -> AsyncIterator[None]:
    """Run the lifespan as a server does."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.ensure_future(app({"type": "lifespan"}, told.get, said.put))
    for step in ("startup", "shutdown"):
        await told.put({"type": f"lifespan.{step}"})
        assert (await said.get())["type"] == f"lifespan.{step}.complete"
        if step == "startup":
            yield
    await life
