from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.audit.live import audit_task
from bandanna.cli.analysis import audit as command
from bandanna.deployment.processes import RunningDeployment
from bandanna.deployment.task.document import Task
from bandanna.device import randomizers
from bandanna.device.randomizers import BinomialCounts
from bandanna.errors import InvalidArgument

from ..deployment.inside import Inside, a_task
from ..deployment.test_processes import on_disk

ENV = bd.environments.LinearContextual(dim=2, n_arms=3)


def deployed(folder: Path, name: str = "LinTS-SDP", horizon: int = 1200, **budget: Any) -> tuple[Task, Inside]:
    given = {"epsilon": 1.0, "delta": 1e-5, "batch": 20, **budget}
    task, secrets = a_task(bd.make(name, dim=2, horizon=horizon, **given), seed=None)
    return task, Inside(task, secrets, folder)


@pytest.mark.parametrize(("name", "epsilon", "least"), [("LinTS-SDP", 1.0, 0.0), ("LinTS-JDP", 200.0, 1.5)])
def test_a_deployment_that_keeps_its_promise_is_consistent(
    tmp_path: Path, name: str, epsilon: float, least: float
) -> None:
    task, inside = deployed(tmp_path, name, horizon=400, epsilon=epsilon)
    (row,) = audit_task(task, inside, env=ENV, confidence=0.999 if epsilon == 1 else 0.95).rows
    assert row.verdict == "consistent"
    assert (row.trials, row.attack) == (20, "live")
    assert row.claim.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert row.lower_bound >= least


def test_a_deployment_without_noise_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, inside = deployed(tmp_path)

    def constant(device: BinomialCounts, values: Any, source: Any) -> Any:
        return randomizers.encode_on_lattice(values, device.scale, device.domain, source) + device.trials // 2

    monkeypatch.setattr(BinomialCounts, "encode", constant)
    (row,) = audit_task(task, inside, env=ENV, batches=40).rows
    assert row.verdict == "refuted"
    assert row.lower_bound > 2 * row.claim.epsilon
    assert row.trials == 40


def test_real_tasks_are_refused(tmp_path: Path) -> None:
    task, inside = deployed(tmp_path)
    real = Task.made({**task.content, "test": False, "close": "grace"})
    with pytest.raises(InvalidArgument, match="marked as a test"):
        audit_task(real, inside)


@pytest.mark.full
def test_processes_are_audited_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, _ = on_disk(bd.make("LinTS-SDP", dim=2, horizon=400, epsilon=1.0, delta=1e-5, batch=20), tmp_path, seed=None)
    with RunningDeployment(task, tmp_path):
        command(target=str(tmp_path), trials=10, confidence=0.999, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["verdict"] == "consistent"
    assert row["trials"] == 10
    assert row["target"] == "task a test"
