"""Real tasks of every trust model: what browser clients send is kept by the real collector, and learned from."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import Opener, encode_base64url, expand_mask
from bandanna.deployment.messages.report import sealing_info, split_reports
from bandanna.deployment.task.document import Secrets, Task

from ...deployment.inside import Inside, a_task
from ...deployment.simulated import case
from .running import node

pytestmark = pytest.mark.browser

BATCH, ARMS = 16, 4
SIZE: dict[str, Any] = {"horizon": 4 * BATCH, "batch": BATCH}
DP: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4}
URLS = {role: f"http://{role}.test" for role in ("analyzer", "shuffler", "helper", "registrar")}
FIXED = {"aspirin": (0.1, 0.2, 0.3), "rest": (0.5, -0.1, 0.0), "tea": (0.0, 0.0, 0.9)}
POLICIES: dict[str, Any] = {
    "LinTS, shuffle, intercept": bd.LinTS(dim=3, intercept=True, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, shuffle, exploring": bd.LinTS(
        dim=3, privacy=bd.shuffle(**DP), explore=bd.policies.uniform(first=20), **SIZE
    ),
    "LinTS, a model for every arm": bd.LinTS(n_arms=3, features=2, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, noise of the mixer": bd.LinTS(dim=3, privacy=bd.shuffle(noise="mixer", **DP), **SIZE),
    "LinTS, arms that stay": bd.LinTS(dim=3, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, central": bd.LinTS(dim=3, privacy=bd.central(**DP), **SIZE),
    "LinTS, no privacy": bd.LinTS(dim=3, privacy=bd.none(), **SIZE),
    "LinUCB, shuffle": bd.LinUCB(dim=3, privacy=bd.shuffle(**DP), **SIZE),
    "LinUCB, central": bd.LinUCB(dim=3, privacy=bd.central(**DP), **SIZE),
    "LinUCB, concurrent": bd.LinUCB(dim=3, privacy=bd.concurrent(shufflers=2, **DP), **SIZE),
    "rewards, shuffle": bd.policies.LinTSRewards(dim=3, public_contexts=True, privacy=bd.shuffle(**DP), **SIZE),
    "rewards, intercept": bd.policies.LinTSRewards(
        dim=3, intercept=True, public_contexts=True, privacy=bd.shuffle(**DP), **SIZE
    ),
    "rewards, local": bd.policies.LinTSRewards(
        dim=3, public_contexts=True, privacy=bd.local(epsilon=2.0, delta=0.0), **SIZE
    ),
    "rewards, central": bd.policies.LinTSRewards(dim=3, public_contexts=True, privacy=bd.central(**DP), **SIZE),
}
REFUSED = {
    "LinTS, local": bd.LinTS(dim=3, privacy=bd.local(**DP), **SIZE),
    "LinUCB, shuffled Gaussians": bd.LinUCB(dim=3, privacy=bd.shuffle(protocol="gaussian", **DP), **SIZE),
}


def played(
    inside: Inside, secrets: dict[str, Secrets], arms: Any, rng: np.random.Generator, count: int = BATCH
) -> list[dict[str, Any]]:
    """A batch of browsers that act on what is published now."""
    task, published = inside.task, inside.learner.published
    tickets = inside.tickets(range(count), inside.learner.running[0])
    people = [
        {"contexts": contexts(task, arms, rng), "reward": float(rng.random()),
         "ticket": {"epoch": each.epoch, "slot": encode_base64url(each.slot),
                    "collector": encode_base64url(each.collector),
                    **({} if each.helper is None else {"helper": encode_base64url(each.helper)})}}
        for each in tickets
    ]  # fmt: skip
    given = {
        "document": _text(task.document), "task": task.id, "publication": _text(published.document),
        "signature": published.signature, "witness": published.cosignature, "people": people,
    }  # fmt: skip
    answered: list[dict[str, Any]] = json.loads(node("records.mjs", given))
    return answered


def contexts(task: Task, arms: Any, rng: np.random.Generator) -> Any:
    """Features as the task wants them: of every arm, of the user, or none."""
    if arms is not None:
        return None
    if getattr(task.policy, "n_arms", None) is not None:
        return rng.uniform(-0.5, 0.5, 2).tolist()
    drawn = rng.uniform(-0.6, 0.6, (ARMS, 3))
    drawn[:, -1] = 1.0
    return dict(zip("abcd", drawn.tolist(), strict=True)) if rng.random() < 0.5 else drawn.tolist()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_of_browsers_is_learned_from(name: str, tmp_path: Path) -> None:
    arms = FIXED if "stay" in name else None
    task, secrets = a_task(POLICIES[name], seed=None, arms=arms, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(7)
    for number in (1, 2):
        found = played(inside, secrets, arms, rng)
        assert not any("error" in each for each in found), found[0]
        for each in found:
            for request in (each["zero"], each["final"]):
                (verdicts,) = inside.collector.accept([base64.b64decode(request)])
                assert [verdict.reason for verdict in verdicts] == [""]
        if "mixer" in name:
            return  # whose noise only the process draws
        inside.pump()
        assert inside.learner.published.number == number
    if arms is not None:
        assert {each["arm"] for each in found} <= set(FIXED)


@pytest.mark.parametrize(("name", "mixers"), [("SDP-SE", 1), ("SDP-SE", 2), ("AdaC-UCB", 0), ("DP-SE", 0), ("GOPE", 0)])
def test_places_say_which_arm(name: str, mixers: int, tmp_path: Path) -> None:
    """Where arms are assigned, a browser plays another one than its place says, or reports it otherwise than Python."""
    policy, _, arms, _ = case(name)
    task, secrets = a_task(policy, seed=None, arms=arms, mixers=mixers, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(3)
    batch = inside.learner.now.batches[0]
    found = played(inside, secrets, True, rng, min(batch.slots, 40))
    assert not any("error" in each for each in found), found[0]
    assert [each["action"] for each in found] == batch.arms_at(np.arange(len(found))).tolist()
    for place, each in enumerate(found):
        for request in (each["zero"], each["final"]):
            (verdicts,) = inside.collector.accept([base64.b64decode(request)])
            assert [(verdict.place, verdict.reason) for verdict in verdicts] == [(place, "")]


@pytest.mark.parametrize("name", ["LinTS, shuffle, intercept", "LinUCB, concurrent", "LinTS, a model for every arm"])
def test_python_opens_what_browsers_seal(name: str, tmp_path: Path) -> None:
    """With two mixers, share and mask are not what a browser drew; or its seed opens for another plan, slot or part."""
    task, secrets = a_task(POLICIES[name], mixers=2, seed=None, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(9)
    opener, batch = Opener(secrets["helper"].seal), inside.learner.now.batches[0]
    part = batch.rounds[0].parts[0]
    for each in played(inside, secrets, None, rng):
        assert "error" not in each, each
        for version, request in enumerate((each["zero"], each["final"])):
            ((slot, _, epoch, round_, sent, key_id, body),) = split_reports(base64.b64decode(request), 1)
            assert (epoch, round_, sent, key_id, len(body)) == (batch.epoch, 0, version, 0, batch.rounds[0].size)
            sealed = batch.rounds[0].sealed(body)
            opened = opener.open(sealed, sealing_info(task.digest, batch, 0, slot))
            assert opened[16:] == inside.ticket_of(slot, epoch).helper
            counts = part.numbers([body])[0] + expand_mask(opened[:16], part.length)
            (drawn,) = (one["message"] for one in each["drawn"] if one["version"] == version)
            assert counts.tolist() == [int(number) for number in drawn]
            other = Batch.from_dict({**batch.to_dict(), "slots": batch.slots - 1})
            with pytest.raises(bd.errors.BandannaError):
                opener.open(sealed, sealing_info(task.digest, other, 0, slot))


@pytest.mark.parametrize("name", REFUSED)
def test_tasks_that_browsers_cannot_play_are_refused(name: str, tmp_path: Path) -> None:
    task, secrets = a_task(REFUSED[name], seed=None, urls=URLS)
    found = played(Inside(task, secrets, tmp_path), secrets, None, np.random.default_rng(1))
    assert {each.get("reason") for each in found} == {"device"}
    assert all("or the Python client" in each["error"] for each in found)


def test_a_seeded_test_is_refused(tmp_path: Path) -> None:
    task, secrets = a_task(POLICIES["LinTS, central"], seed=3, urls=URLS)
    found = played(Inside(task, secrets, tmp_path), secrets, None, np.random.default_rng(1))
    assert {each.get("reason") for each in found} == {"device"}
