"""What a task tells light clients is what its policy does, and nobody can change it unseen."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import bandanna as bd
from bandanna.deployment.messages.batch_plan import BROWSER_KINDS
from bandanna.deployment.task import creation
from bandanna.deployment.task.description import task_facts
from bandanna.deployment.task.document import Task
from bandanna.device.randomizers import device_from_parameters
from bandanna.errors import BandannaError
from bandanna.policies.base import FixedLength

PARTS: dict[str, Any] = {"horizon": 2000, "dim": 3, "epsilon": 1.0, "delta": 1e-5}


def made(name: str, **parts: Any) -> Task:
    """A task of an algorithm."""
    arguments = {**PARTS, **parts}
    return creation.create_task({"title": "a test", "algorithm": name, "policy": arguments}, expect=False)[0]


@pytest.mark.parametrize("name", ["LinTS-SDP", "LinTS-LDP", "LinUCB-SDP-Vec", "LinUCB-CSDP", "LinUCB-SDP-Amp"])
def test_every_batch_of_the_schedule_has_its_plan(name: str) -> None:
    task = made(name)
    policy, leaflet = task.policy, task.content["device"]
    assert isinstance(policy, bd.LinTS | bd.LinUCB)
    plans = {plan["users"]: plan for plan in leaflet["plans"]}
    for users in policy._channel.sizes.counts():
        least = max(n for n in plans if n <= users)
        (device,) = plans[least]["devices"][0]
        assert device_from_parameters(device) == policy._query(FixedLength(number=0, users=users)).protocol.device
        if policy.privacy.model == "shuffle":
            assert least == users


def test_a_document_that_tells_devices_less_noise_is_found_out() -> None:
    task = made("LinTS-SDP")
    content = copy.deepcopy(dict(task.content))
    device = content["device"]["plans"][0]["devices"][0][0]
    device["trials"] = round(0.64 * device["trials"])
    with pytest.raises(BandannaError, match="tells devices something else"):
        task_facts(Task.made(content))


def test_who_can_play_a_task_is_on_its_page() -> None:
    assert task_facts(made("LinTS-SDP"))["clients"] == ["python", "browser"]
    assert task_facts(made("LinTS-JDP"))["clients"] == ["python", "browser"]
    assert task_facts(made("LinUCB-SDP-Amp"))["clients"] == ["python"]
    finite = {"n_arms": 3, "horizon": 5000, "epsilon": 1.0, "delta": 1e-5}
    other, _ = creation.create_task({"title": "a test", "algorithm": "SDP-SE", "policy": finite}, expect=False)
    assert task_facts(other)["clients"] == ["python", "browser"]
    assert task_facts(made("GLM-SDP", horizon=20_000, epsilon=10.0))["clients"] == ["python, with the whole library"]
    assert "Noisy" not in BROWSER_KINDS
