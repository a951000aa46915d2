"""Who sees what: the table of a task, from its policy, its mixers and its addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.guarantee import Guarantee, rounded_up
from bandanna.tasks.beginning import first_batches
from bandanna.tasks.creation import create
from bandanna.tasks.document import Task
from bandanna.tasks.page import expectation, facts, notes
from bandanna.tasks.sight import Sight, against_mixer, sight

from .files import file


def made(name: str, **tables: Any) -> tuple[Task, dict[str, Sight]]:
    """A task and its table."""
    task, _ = create(file(name, **tables), expect=False)
    return task, {each.role: each for each in sight(task)}


@pytest.mark.parametrize(
    ("name", "mixers", "shuffler", "analyzer"),
    [
        ("LinTS", 0, None, "every user's features, arm and reward"),
        ("LinTS-JDP", 0, None, "every user's features, arm and reward"),
        ("LinTS-LDP", 0, None, "every noisy report"),
        ("LinUCB-SDP-Vec", 1, "the noisy counts of every report", "the totals of a batch"),
        ("LinUCB-SDP-Vec", 2, "a uniform share of every report", "the totals of a batch"),
        ("LinUCB-SDP-Amp", 1, "sealed reports, which it cannot open", "the noisy reports of a batch, sorted"),
        ("LinUCB-CSDP", 1, "the noisy counts of every level of every report", "the totals of every full batch"),
        ("LinUCB-CSDP", 2, "a uniform share of every report", "the totals of every full batch"),
    ],
)
def test_every_trust_model_has_its_table(name: str, mixers: int, shuffler: str | None, analyzer: str) -> None:
    """A role is missing in the table or there without being in the task, or is said to see what another does."""
    task, table = made(name, rules={"mixers": mixers})
    assert set(table) == {"device", "network", "everybody", *task.roles}
    assert (shuffler is None) == ("shuffler" not in table)
    assert shuffler is None or table["shuffler"].sees.startswith(shuffler)
    assert table["analyzer"].sees.startswith(analyzer)
    for role in table:  # whom devices report to, and nobody else but the helper, sees tickets and addresses
        assert ("address and time" in table[role].sees) == (role == task.collector)


def test_what_is_left_is_the_guarantee() -> None:
    """A number in the table is not that of the policy's guarantee."""
    policy = {"dim": 2, "horizon": 400, "batch": 200, "epsilon": 0.5, "delta": 1e-5}
    task, table = made("LinUCB-SDP-Vec", policy=policy)
    stated = task.policy.guarantee
    assert stated.shuffler is not None
    assert table["analyzer"].left == table["everybody"].left
    assert table["analyzer"].left == f"epsilon = {rounded_up(stated.epsilon)}, delta = {rounded_up(stated.delta, 3)}"
    assert f"epsilon = {rounded_up(stated.shuffler.epsilon)}" in table["shuffler"].left
    _, two = made("LinUCB-SDP-Vec", policy=policy, rules={"mixers": 2})
    assert table["shuffler"].left in two["shuffler"].left
    assert "with the shuffler" in two["helper"].left
    _, central = made("LinTS-JDP")
    assert central["analyzer"].left == "nothing: it is trusted"
    _, none = made("LinTS")
    assert none["analyzer"].left == "nothing"
    assert "no privacy is promised" in none["everybody"].left
    policy = {"dim": 2, "horizon": 60, "epsilon": 5.0, "delta": 1e-3, "public_contexts": True}
    _, rewards = made("LinTS-LDP-rewards", policy=policy)
    assert "features and arm" in rewards["everybody"].sees


def test_what_is_left_against_a_mixer() -> None:
    """Where nothing is left, or nothing is proven, something seems to be."""
    stated = Guarantee(trust="shuffle", epsilon=1.0, delta=1e-5, protects="rewards", exposed=0.99959)
    assert against_mixer(stated) == "nothing: two reports are told apart with probability at least 0.999"
    assert against_mixer(replace(stated, exposed=1e-6)) == "nothing is proven"
    some = replace(stated, shuffler=ApproxDP(epsilon=30.0001, delta=1e-5))
    assert against_mixer(some) == "epsilon = 30.01, delta = 1e-05, if single reports are kept"


@pytest.mark.parametrize(("name", "mixers"), [("LinTS-LDP", 0), ("LinUCB-SDP-Vec", 2), ("LinUCB-SDP-Amp", 1)])
def test_the_length_of_a_record_is_that_of_the_wire(name: str, mixers: int) -> None:
    """The table says another number of bytes than a report has: 16 + 16 + 8, the body, and 4 before it."""
    task, table = made(name, rules={"mixers": mixers})
    (batch,) = first_batches(task.policy, task.arms, mixers=mixers, seeded=False, most=1)
    body = sum(part.size for part in batch.rounds[0].parts)
    assert f"a record of {40 + body + 4} bytes" in table["network"].sees
    assert facts(task)["record bytes"] == [44 + body]


def test_the_network_sees_what_is_not_encrypted() -> None:
    """Reports by http are said to be hidden, or those by https to be open; or other addresses than the collector's."""
    _, open_ = made("LinTS-LDP")
    assert "http is not encrypted" in open_["network"].left
    task, closed = made("LinTS-LDP", roles={"analyzer": "https://a.example", "registrar": "https://r.example"})
    assert "the connection is encrypted" in closed["network"].left
    assert notes(task) == []
    elsewhere, _ = made("LinTS-LDP", roles={"analyzer": "http://a.example", "registrar": "https://r.example"})
    assert "Not encrypted on the way to: analyzer." in " ".join(notes(elsewhere))


def test_what_must_be_known_is_said() -> None:
    """Nobody is told that shares cannot be checked, that two mixers together see all, or that tests protect nobody."""
    task, _ = made("LinUCB-SDP-Vec", rules={"mixers": 2}, test={"seed": 7})
    said = " ".join(notes(task))
    for words in ("cannot check that counts are within their range", "must be authenticated", "both mixers together"):
        assert words in said
    assert "This is a test, noise and coins follow from a public seed: it protects nobody." in said
    assert "not simulated" in expectation(task)
