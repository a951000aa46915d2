"""Every policy learns in a deployment what it learns in a simulation, and invalid messages are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.analyzer import processor as processor_module
from bandanna.deployment.analyzer.processor import ShareRejected
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.client.policy_device import CurrentPublication
from bandanna.deployment.messages.canonical import digest, dumps, loads
from bandanna.deployment.messages.report import FINAL, ZERO
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.registry import ALGORITHMS, make_encoding
from bandanna.protocols.factory import make_mixer_encoding

from .inside import Inside, a_task, shown, signed
from .simulated import EVERY_ROUND, case, simulated
from .test_privacy import submit_report

NOT_DEPLOYABLE = {"RS-OFUL", "AdaC-OFUL"}  # devices would have to act one after the other
SLOW = {"LinUCB", "LinUCB-JDP", "LinUCB-LDP", "UCB1", "Thompson", "LDP-UCB", "GLM-UCB", "GLOC", "ECOLog", "RS-GLinUCB"}


LONG = SLOW | {"GLM-JDP", "GLOC", "DP-SE", "LinTS-JDP-rewards", "LinUCB-SDP-Vec", "LinUCB-JDP-batched", "Laplace-DPE"}
LONG |= {"AdaC-GOPE-early", "DPE-FixedU", "GOPE", "LinTS-LDP-rewards", "PE", "UCB-episodes"}  # as others of their class
LONG |= {"LinTS-SDP", "LinUCB-CSDP"}  # test_processes.py has them
EACH = [
    pytest.param(name, marks=[pytest.mark.full] if name in LONG - {"LinUCB-JDP", "Thompson"} else [])
    for name in sorted(set(ALGORITHMS) - NOT_DEPLOYABLE)
]


@pytest.mark.parametrize("name", EACH)
def test_the_deployment_learns_what_the_simulator_learns(name: str, tmp_path: Path) -> None:
    policy, env, arms, rounds = case(name)
    rounds = min(rounds, EVERY_ROUND) if name in SLOW else rounds
    expected = simulated(policy, env, rounds)
    task, secrets = a_task(policy, arms=arms)
    inside = Inside(task, secrets, tmp_path)
    crowd = SimulatedUsers(task, inside, env, rounds=rounds, concurrency=1, wait=20.0)
    account = crowd.run()
    assert make_encoding().dumps(inside.processor.progress.state) == expected.state
    assert account.actions == expected.actions
    assert crowd.regret == expected.regret
    assert not account.refused
    view = inside.processor.ledger_view()
    if policy.privacy.noisy and policy.privacy.budget is not None:
        assert view is not None
        assert len(view["entries"]) >= min(expected.releases, 1)
        assert view["spent"] is None or view["spent"] <= getattr(policy.privacy.budget, "epsilon", 1e9) * (1 + 1e-9)
    else:
        assert view is None


@pytest.mark.parametrize("name", sorted(NOT_DEPLOYABLE))
def test_policies_that_look_at_every_round_are_refused(name: str, tmp_path: Path) -> None:
    policy, _, arms, _ = case(name)
    task, secrets = a_task(policy, arms=arms)
    with pytest.raises(InvalidArgument, match=r"bandanna\.Agent"):
        Inside(task, secrets, tmp_path)


def begun(folder: Path) -> tuple[Inside, dict[str, Any], int]:
    """Return a deployment with one mixer, its secrets, and a count that devices may send."""
    policy, _, arms, _ = case("LinTS-SDP")
    task, secrets = a_task(policy, arms=arms)
    inside = Inside(task, secrets, folder)
    inside.collector._answered = False  # closes when it is full
    trials = make_mixer_encoding().loads(inside.processor.now.batches[0].rounds[0].parts[0].mixer or "").noise.trials
    return inside, secrets, trials // 2


def test_a_collector_refuses_invalid_reports(tmp_path: Path) -> None:
    inside, _, middle = begun(tmp_path)
    batch = inside.processor.now.batches[0]
    (own,), (later,) = inside.tickets(["one"], 0), inside.tickets(["one"], 1)
    assert submit_report(inside, batch, replace(own, collector=bytes(16)), FINAL, middle)[1] == "ticket"
    assert (
        submit_report(inside, batch, replace(own, collector=later.collector, slot=later.slot), FINAL, middle)[1]
        == "ticket"
    )
    assert submit_report(inside, batch, own, FINAL, 2**31)[1] == "range"
    assert submit_report(inside, batch, own, 2, middle)[1] == "length"
    assert submit_report(inside, inside.processor.now.batches[1], later, FINAL, middle)[1] == "early"
    assert submit_report(inside, batch, own, FINAL, middle) == (0, "")


def test_a_total_is_of_the_last_versions_and_is_released_once(tmp_path: Path) -> None:
    inside, _, middle = begun(tmp_path)
    batch = inside.processor.now.batches[0]
    tickets = inside.tickets([str(user) for user in range(batch.slots)], 0)
    for place, own in enumerate(tickets):
        assert submit_report(inside, batch, own, ZERO, middle) == (place, "")
    assert submit_report(inside, batch, tickets[3], FINAL, middle + 1) == (3, "")
    assert submit_report(inside, batch, tickets[3], ZERO, middle) == (3, "")
    assert inside.collector.close_due()
    assert not inside.collector.close_due()
    assert submit_report(inside, batch, tickets[4], FINAL, middle + 1)[1] == "closed"
    (closed,) = inside.collector.waiting()
    (view,) = make_mixer_encoding().loads(loads(closed.share)["parts"][0])
    assert np.all(view.numbers == batch.slots * middle + 1)
    for change in ({"epoch": 1}, {"round": 1}, {"mixer": "helper"}, {"task": "another"}):
        with pytest.raises(BandannaError):
            inside.processor.take(dumps({**loads(closed.share), **change}), "shuffler", 0, 0)
    assert inside.processor.take(closed.share, "shuffler", 0, 0).status == 201
    assert inside.processor.take(closed.share, "shuffler", 0, 0).status == 200
    other = dumps({**loads(closed.share), "checksum": "0" * 64})
    with pytest.raises(ShareRejected, match="other totals"):
        inside.processor.take(other, "shuffler", 0, 0)
    with pytest.raises(ShareRejected, match="other totals"):
        inside.processor.known(digest(other), "shuffler", 0, 0)
    entries = (inside.processor.ledger_view() or {})["entries"]
    assert [entry["batch"] for entry in entries] == ["0"]


def test_a_share_is_parsed_once_and_the_state_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, _, middle = begun(tmp_path)
    batch, processor = inside.processor.now.batches[0], inside.processor
    for own in inside.tickets([str(user) for user in range(batch.slots)], 0):
        submit_report(inside, batch, own, FINAL, middle)
    inside.collector.close_due()
    (closed,) = inside.collector.waiting()
    parsed, encoded = list[bytes](), list[Any]()
    encode = processor._encoding.dumps
    monkeypatch.setattr(processor_module, "loads", lambda content: parsed.append(content) or loads(content))
    watched = SimpleNamespace(
        dumps=lambda value: encoded.append(value) or encode(value), loads=processor._encoding.loads
    )
    monkeypatch.setattr(processor, "_encoding", watched)
    assert processor.take(closed.share, "shuffler", 0, 0).status == 201
    assert parsed.count(closed.share) == 1
    assert sum(value is processor.progress.state for value in encoded) == 1


def test_totals_that_cannot_be_used_are_paid_for(tmp_path: Path) -> None:
    inside, _, middle = begun(tmp_path)
    batch = inside.processor.now.batches[0]
    for own in inside.tickets([str(user) for user in range(batch.slots)], 0):
        submit_report(inside, batch, own, FINAL, middle)
    inside.collector.close_due()
    (closed,) = inside.collector.waiting()
    wrong = dumps({**loads(closed.share), "count": batch.slots - 1})
    assert inside.processor.take(wrong, "shuffler", 0, 0).status == 422
    assert [entry["batch"] for entry in (inside.processor.ledger_view() or {})["entries"]] == ["0"]
    assert inside.processor.running == (2, 0)  # nobody who was announced to batch 1 is in another one


def test_a_device_refuses_invalid_publications(tmp_path: Path) -> None:
    inside, secrets, _ = begun(tmp_path)
    published, task = inside.processor.published, inside.task
    first = CurrentPublication.read(task, shown(published))
    first.queries()

    def changed(before: CurrentPublication | None = None, **parts: Any) -> CurrentPublication:
        document = dumps({**loads(published.document), **parts})
        return CurrentPublication.read(task, signed(task.id, secrets, document), before)

    with pytest.raises(BandannaError, match="has not signed"):
        CurrentPublication.read(task, shown(published)._replace(document=published.document + b" "))
    with pytest.raises(BandannaError, match="another task"):
        changed(task="another")
    with pytest.raises(BandannaError, match="two publications"):
        changed(first, status="finished")
    with pytest.raises(BandannaError, match="does not follow"):
        changed(first, number=1)
    with pytest.raises(BandannaError, match="has gone back"):
        changed(changed(number=3), number=2)
    smaller = [replace(batch, slots=batch.slots - 1).to_dict() for batch in first.batches]
    with pytest.raises(BandannaError, match="another plan"):
        changed(batches=smaller).queries()
