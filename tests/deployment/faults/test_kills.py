"""Processes killed with SIGKILL, behind proxies that lose bytes, learn what a simulation learns, bit for bit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import HttpDeployment, SimulatedUsers
from bandanna.policies.registry import make_encoding

from ...postgres import server
from ..simulated import simulated
from ..test_processes import on_disk
from .launcher import POINTS
from .processes import Mortal

MODELS: dict[int, Any] = {
    0: bd.central(epsilon=5.0, delta=1e-3),
    1: bd.shuffle(epsilon=5.0, delta=1e-3),
    2: bd.shuffle(epsilon=5.0, delta=1e-3),
}
ROUNDS, BATCH = 80, 20
WORLD = bd.environments.LinearContextual(dim=2, n_arms=3)
QUICK = [
    (0, {"role": "analyzer", "point": "after commit", "passes": 4, "loss": 0.02, "seed": 1}),
    (2, {"role": "helper", "point": "after commit", "passes": 5, "loss": 0.02, "seed": 2}),
]
ROLES = {0: ("analyzer", "registrar"), 1: ("shuffler", "analyzer"), 2: ("shuffler", "helper", "analyzer")}
LONG = [
    (1, {"role": "shuffler", "point": "before commit", "passes": 5}),
    *(
        (mixers, {"role": role, "point": point, "passes": passes})
        for mixers, roles in ROLES.items()
        for role in roles
        for point in (POINTS[:2] if role in ("helper", "registrar") else POINTS)
        for passes in (1, 3)
    ),
    *((mixers, {"loss": 0.03, "every": 0.7, "seed": 10 + number}) for mixers in ROLES for number in range(6)),
]


def learned(mixers: int, folder: Path, **trouble: Any) -> Mortal:
    policy = bd.LinTS(dim=2, horizon=ROUNDS, batch=BATCH, privacy=MODELS[mixers])
    expected = simulated(policy, WORLD, ROUNDS)
    task, secrets = on_disk(policy, folder, mixers=mixers)
    mortal = Mortal(task, folder, **trouble)
    with mortal, HttpDeployment(task, token=secrets["registrar"].token) as http:
        crowd = SimulatedUsers(task, http, WORLD, rounds=ROUNDS, concurrency=1 if mixers == 0 else 4, wait=600.0)
        account = crowd.run()
        last = account.publications[-1]
        ledger = _ledger(task)
    assert make_encoding().dumps(last.state) == expected.state
    assert account.actions == expected.actions
    assert set(account.refused) <= {"closed"}  # a repetition that came after its batch
    assert len({entry["batch"] for entry in ledger["entries"]}) == len(ledger["entries"]) == expected.releases
    for role in task.roles:
        lines = (folder / f"{role}.log").read_text().splitlines()
        assert all(json.loads(line)["role"] == role for line in lines), lines  # no traceback
    return mortal


def _ledger(task: Any) -> Any:
    end = time.monotonic() + 600
    while time.monotonic() < end:  # it may be starting again
        try:
            return httpx.get(f"{task.url('analyzer')}/tasks/{task.id}/ledger", trust_env=False).json()["ledger"]
        except (httpx.HTTPError, ValueError):
            time.sleep(0.05)
    raise AssertionError("no ledger")


@pytest.mark.parametrize(
    ("mixers", "trouble"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.full) for each in LONG)]
)
def test_kills_and_lost_bytes_change_nothing_that_is_learned(
    mixers: int, trouble: dict[str, Any], tmp_path: Path
) -> None:
    mortal = learned(mixers, tmp_path, **trouble)
    if "role" in trouble:
        assert mortal.deaths == 1
    if trouble.get("loss"):
        assert sum(proxy.lost for proxy in mortal.proxies) > 0


@pytest.mark.full
@pytest.mark.parametrize("mixers", [0, 1, 2])
def test_kills_change_nothing_on_postgres(mixers: int, tmp_path: Path) -> None:
    learned(mixers, tmp_path, database=server().fresh(), every=1.0, loss=0.02, seed=5)
