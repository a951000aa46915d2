"""Who sees what: the table of a task, from its policy, its mixers and its addresses."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.preflight import fixed_arms
from bandanna.deployment.messages.batch_plan import BROWSER_KINDS
from bandanna.deployment.task import creation
from bandanna.deployment.task.creation import create_task
from bandanna.deployment.task.description import (
    VisibilityRow,
    describe_forecast,
    describe_mixer_guarantee,
    forecast,
    guarantee_of_task,
    list_notes,
    task_facts,
    visibility_table,
    world_for,
)
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import first_batches
from bandanna.device.randomizers import device_from_parameters
from bandanna.errors import BandannaError
from bandanna.policies.base import FixedLength
from bandanna.policies.registry import ALGORITHMS
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee, describe_view, format_rounded_up
from bandanna.simulation.environments.linear import LinearContextual

from ..simulation.golden_runs import RUNS
from .files import file

ONE_PROCESS = "that process and its files hold all data without noise, and users must trust it."
_APART = {"device", "network", "registrar"}  # rows of the table that no promise depends on


def made(name: str, **tables: Any) -> tuple[Task, dict[str, VisibilityRow]]:
    task, _ = create_task(file(name, **tables), expect=False)
    return task, {each.role: each for each in visibility_table(task)}


@pytest.mark.parametrize(
    ("name", "mixers", "shuffler", "analyzer"),
    [
        ("LinTS", 0, None, "every user's features, arm and reward"),
        ("LinTS-JDP", 0, None, "every user's features, arm and reward"),
        ("LinTS-LDP", 0, None, "every noisy report"),
        ("LinUCB-SDP-Vec", 1, "the noisy counts of every report", "the totals of a batch"),
        ("LinUCB-SDP-Vec", 2, "a uniform share of every report", "the totals of a batch"),
        ("LinUCB-SDP-Amp", 1, "sealed reports, which it cannot open", "the noisy reports of a batch in sorted order"),
        ("LinUCB-CSDP", 1, "the noisy counts of every level of every report", "the totals of every full batch"),
        ("LinUCB-CSDP", 2, "a uniform share of every report", "the totals of every full batch"),
    ],
)
def test_every_privacy_model_has_its_table(name: str, mixers: int, shuffler: str | None, analyzer: str) -> None:
    task, table = made(name, rules={"mixers": mixers})
    assert set(table) == {"device", "network", "everybody", *task.roles}
    assert (shuffler is None) == ("shuffler" not in table)
    assert shuffler is None or table["shuffler"].sees.startswith(shuffler)
    assert table["analyzer"].sees.startswith(analyzer)
    for role in table:  # whom devices report to, and nobody else but the helper, sees slots and addresses
        assert ("address and time" in table[role].sees) == (role == task.collector)


def test_what_is_left_is_the_guarantee() -> None:
    policy = {"dim": 2, "horizon": 400, "batch": 200, "epsilon": 0.5, "delta": 1e-5}
    task, table = made("LinUCB-SDP-Vec", policy=policy)
    stated = task.policy.guarantee
    assert stated.shuffler is not None
    assert table["analyzer"].left == table["everybody"].left
    assert (
        table["analyzer"].left
        == f"epsilon = {format_rounded_up(stated.epsilon)}, delta = {format_rounded_up(stated.delta, 3)}"
    )
    assert f"epsilon = {format_rounded_up(stated.shuffler.epsilon)}" in table["shuffler"].left
    _, two = made("LinUCB-SDP-Vec", policy=policy, rules={"mixers": 2})
    assert table["shuffler"].left in two["shuffler"].left
    assert "if the shuffler keeps its shares" in two["helper"].left
    _, central = made("LinTS-JDP")
    assert central["analyzer"].left == "nothing: it is trusted"
    _, none = made("LinTS")
    assert none["analyzer"].left == "nothing"
    assert "no privacy is promised" in none["everybody"].left
    policy = {"dim": 2, "horizon": 60, "epsilon": 5.0, "delta": 1e-3, "public_contexts": True}
    _, rewards = made("LinTS-LDP-rewards", policy=policy)
    assert "features and arm" in rewards["everybody"].sees


def test_what_is_left_against_a_mixer() -> None:
    stated = Guarantee(trust="shuffle", epsilon=1.0, delta=1e-5, protects="rewards", exposed=0.99959)
    assert describe_mixer_guarantee(stated) == "nothing: two reports are told apart with probability at least 0.999"
    assert describe_mixer_guarantee(replace(stated, exposed=1e-6)) == "nothing is proven"
    some = replace(stated, shuffler=ApproxDP(epsilon=30.0001, delta=1e-5))
    assert describe_mixer_guarantee(some) == "epsilon = 30.01, delta = 1e-05, if single reports are kept"


@pytest.mark.parametrize(("name", "mixers"), [("LinTS-LDP", 0), ("LinUCB-SDP-Vec", 2), ("LinUCB-SDP-Amp", 1)])
def test_the_stated_length_of_a_report_is_the_one_sent(name: str, mixers: int) -> None:
    task, table = made(name, rules={"mixers": mixers})
    (batch,) = first_batches(task.policy, task.arms, mixers=mixers, seeded=False, most=1)
    body = batch.rounds[0].size
    assert f"a report of {40 + body + 4} bytes" in table["network"].sees
    assert task_facts(task)["report bytes"] == [44 + body]


def test_the_network_sees_what_is_not_encrypted() -> None:
    _, open_ = made("LinTS-LDP")
    assert "http is not encrypted" in open_["network"].left
    task, closed = made("LinTS-LDP", roles={"analyzer": "https://a.example", "registrar": "https://r.example"})
    assert "the connection is encrypted" in closed["network"].left
    assert all("Not encrypted" not in note for note in list_notes(task))
    elsewhere, _ = made("LinTS-LDP", roles={"analyzer": "http://a.example", "registrar": "https://r.example"})
    assert "Connections are not encrypted to: analyzer." in " ".join(list_notes(elsewhere))


def test_notes_name_the_weaknesses_of_a_task() -> None:
    task, _ = made("LinUCB-SDP-Vec", rules={"mixers": 2}, test={"seed": 7})
    said = " ".join(list_notes(task))
    for words in ("cannot check the range of counts", "known users only", "both mixers together"):
        assert words in said
    assert "This is a test, noise and coins follow from a public seed: it protects nobody." in said
    assert "not simulated" in describe_forecast(task)


@pytest.mark.parametrize(
    ("name", "rules", "who"),
    [
        ("LinUCB-SDP-Vec", {"mixers": 1}, "the registrar, the host with its token or the shuffler"),
        ("LinUCB-SDP-Vec", {"mixers": 2}, "the registrar or the host with its token"),
        ("LinUCB-SDP-Amp", {"mixers": 1}, "the registrar, the host with its token or the shuffler"),
        ("LinUCB-SDP-Vec", {"mixers": 1, "noise": "mixer"}, None),
        ("LinTS-JDP", {}, None),
        ("LinTS-LDP", {}, None),
    ],
)
def test_notes_name_the_roles_that_can_invent_users(name: str, rules: dict[str, Any], who: str | None) -> None:
    task, table = made(name, rules=rules)
    assert ("If it invents all others of a batch: " in table["registrar"].left) == (who is not None)
    said = " ".join(list_notes(task))
    assert ("invents all others of a batch" in said) == (who is not None)
    if who is not None:
        assert f"If {who} invents" in said
        assert table["registrar"].left.endswith(describe_mixer_guarantee(task.policy.guarantee))
        sealed = "it adds no reports of its own" in table["shuffler"].left
        assert sealed == (name == "LinUCB-SDP-Amp")


CONFIGURATIONS = [  # privacy model, protocol, who draws the noise, mixers; who together see single reports
    ("LinTS", {}, None),
    ("LinTS-JDP", {}, None),
    ("LinTS-LDP", {}, None),
    ("LinUCB-LDP-batched", {}, None),
    ("LinUCB-SDP-Vec", {"mixers": 1, "noise": "device"}, "the shuffler itself"),
    ("LinUCB-SDP-Vec", {"mixers": 1, "noise": "checked"}, "the shuffler itself"),
    ("LinUCB-SDP-Vec", {"mixers": 1, "noise": "mixer"}, "the shuffler itself"),
    ("LinUCB-SDP-Vec", {"mixers": 2}, "the shuffler and the helper together"),
    ("LinUCB-SDP-Amp", {"mixers": 1}, "the shuffler and the analyzer together"),
    ("LinUCB-CSDP", {"mixers": 1}, "the shuffler itself"),
    ("LinUCB-CSDP", {"mixers": 1, "noise": "mixer"}, "the shuffler itself"),
    ("LinUCB-CSDP", {"mixers": 2}, "the shuffler and the helper together"),
]


@pytest.mark.parametrize(("name", "rules", "together"), CONFIGURATIONS, ids=str)
def test_the_promise_agrees_with_the_table(name: str, rules: dict[str, Any], together: str | None) -> None:
    task, table = made(name, rules=rules)
    words = task.content["promise"]
    assert words == task_facts(task)["promise"]
    told = dict(guarantee_of_task(task).observers)
    assert {who.removeprefix("the ").removeprefix("trusted ") for who in told} == set(table) - _APART
    for who, what in told.items():
        row = table[who.removeprefix("the ").removeprefix("trusted ")]
        assert row.sees.startswith(what)
        assert describe_view(who, what)[1:] in words
        assert who.startswith("the trusted ") == (row.left == "nothing: it is trusted")
    assert "one process" not in words  # these roles run apart
    assert ("Against" in words) == (together is not None)
    if together is not None:
        assert f"Against {together}, " in words
        left = table["shuffler"].left
        assert ("all data are hidden from it, as long as" in left) == (together != "the shuffler itself")
        assert ("The shuffler alone learns who sent each report and when." in words) == ("all data are hidden" in left)
        if (stated := task.policy.guarantee.shuffler) is not None:
            assert left.endswith(describe_mixer_guarantee(task.policy.guarantee))
            assert f"Against {together}, the guarantee is epsilon = {format_rounded_up(stated.epsilon)}, " in words


@pytest.mark.parametrize(("name", "rules", "together"), CONFIGURATIONS, ids=str)
def test_the_policy_of_a_task_states_the_guarantee_of_one_process(
    name: str, rules: dict[str, Any], together: str | None
) -> None:
    task, _ = made(name, rules=rules)
    assert task.policy.guarantee.one_process
    assert ONE_PROCESS in str(task.policy.guarantee)


def test_a_document_that_promises_another_configuration_is_refused() -> None:
    one, _ = made("LinUCB-SDP-Vec", rules={"mixers": 1, "noise": "device"})
    two, _ = made("LinUCB-SDP-Vec", rules={"mixers": 2})
    content = {**two.content, **{name: one.content[name] for name in ("guarantee", "promise")}}
    with pytest.raises(BandannaError, match="promises something else than its policy keeps"):
        task_facts(Task.made(content))


PRIVACIES = {
    "none": bd.none(),
    "central": bd.central(epsilon=1.0, delta=1e-5),
    "central, who return": bd.central(epsilon=1.0, delta=1e-5, participations=2),
    "local": bd.local(epsilon=1.0, delta=1e-5),
    "shuffle": bd.shuffle(epsilon=1.0, delta=1e-5),
    "shuffle, checked": bd.shuffle(epsilon=1.0, delta=1e-5, noise="checked"),
    "shuffle, mixer": bd.shuffle(epsilon=1.0, delta=1e-5, noise="mixer"),
    "shuffle, gaussian": bd.shuffle(epsilon=1.0, delta=1e-5, protocol="gaussian"),
    "concurrent": bd.concurrent(epsilon=1.0, delta=1e-5, shufflers=2),
}


@pytest.mark.parametrize("name", PRIVACIES)
def test_a_policy_says_what_its_agent_says(name: str) -> None:
    policy = bd.LinTS(dim=2, horizon=1000, batch=200, privacy=PRIVACIES[name])
    agent = bd.Agent(policy=policy)
    assert str(agent.guarantee) == str(policy.guarantee)
    assert agent.guarantee == policy.guarantee
    assert ONE_PROCESS in str(agent.guarantee)
    seeded = bd.Agent(policy=policy, test=True, seed=0)
    told = str(seeded.guarantee)
    assert told.replace(" This is a test: anyone who knows its seed sees everything.", "") == str(policy.guarantee)
    assert told != str(policy.guarantee)


# What is expected of a task: simulated where a typical world fits, within seconds, the same every time


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_world(name: str) -> None:
    policy = bd.make(name, **RUNS[name][0])
    env = world_for(policy)
    assert env is not None
    for size in ("dim", "n_arms"):
        assert getattr(policy, size, None) in (None, getattr(env, size))


@pytest.mark.parametrize(
    "name", ["LinTS-JDP", "AdaC-UCB", "AdaC-GOPE", "LDP-DPE", "GLM-SDP", "AdaC-OFUL-JDP", "LDP-UCB"]
)
def test_every_kind_can_be_simulated(name: str) -> None:
    policy = bd.make(name, **RUNS[name][0])
    found = forecast(policy)
    assert found is not None
    assert found["rounds"] == policy.horizon
    assert found["seeds"] == 4
    assert found["regret"] > 0
    assert found["stderr"] > 0
    assert found["random play"] > 0


def test_the_forecast_is_the_simulators_regret() -> None:
    policy = bd.make("LinTS-JDP", dim=3, horizon=300, epsilon=5.0, delta=1e-3)
    found = forecast(policy)
    assert found is not None
    assert found["environment"] == "LinearContextual: 10 arms, 3 features"
    result = bd.simulate(policy, LinearContextual(dim=3, n_arms=10), n_seeds=4)
    assert found["regret"] == float(np.mean(result.final_regret))


def test_arms_that_stay_are_simulated_as_such() -> None:
    policy = bd.make("LinTS", dim=2, horizon=50)
    assert world_for(policy, fixed_arms(policy, {"a": [0, 1], "b": [1, 0]})) == LinearContextual(
        dim=2, n_arms=2, fixed=True
    )
    own = bd.make("LinTS", n_arms=3, features=2, horizon=50)
    assert forecast(own, fixed_arms(own, None)) is not None
    assert "DisjointLinear: 3 arms" in str(forecast(own, fixed_arms(own, None)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("LinTS", {"dim": 5, "horizon": 10**7}),
        ("LinUCB", {"dim": 2, "horizon": 10**4}),
        ("UCB1", {"n_arms": 2, "horizon": 10**5}),
        ("GLM-UCB", {"dim": 2, "horizon": 10**5}),
        ("DPE", {"dim": 2, "horizon": 3000, "clients": 2**31}),
        ("DPE", {"dim": 2, "horizon": 3000, "alpha": 3}),
    ],
)
def test_a_long_forecast_is_not_begun(name: str, arguments: dict[str, int]) -> None:
    policy = bd.make(name, **arguments)
    policy._prepare()
    assert forecast(policy) is None


# What a task tells light clients is what its policy does, and nobody can change it unseen


PARTS: dict[str, Any] = {"horizon": 2000, "dim": 3, "epsilon": 1.0, "delta": 1e-5}


def made_task(name: str, **parts: Any) -> Task:
    arguments = {**PARTS, **parts}
    return creation.create_task({"title": "a test", "algorithm": name, "policy": arguments}, expect=False)[0]


@pytest.mark.parametrize("name", ["LinTS-SDP", "LinTS-LDP", "LinUCB-SDP-Vec", "LinUCB-CSDP", "LinUCB-SDP-Amp"])
def test_every_batch_of_the_schedule_has_its_plan(name: str) -> None:
    task = made_task(name)
    policy, section = task.policy, task.content["device"]
    assert isinstance(policy, bd.LinTS | bd.LinUCB)
    plans = {plan["users"]: plan for plan in section["plans"]}
    for users in policy._channel.sizes.counts():
        least = max(n for n in plans if n <= users)
        (device,) = plans[least]["devices"][0]
        assert device_from_parameters(device) == policy._query(FixedLength(number=0, users=users)).protocol.device
        if policy.privacy.model == "shuffle":
            assert least == users


def test_a_document_that_gives_devices_less_noise_is_refused() -> None:
    task = made_task("LinTS-SDP")
    content = copy.deepcopy(dict(task.content))
    device = content["device"]["plans"][0]["devices"][0][0]
    device["trials"] = round(0.64 * device["trials"])
    with pytest.raises(BandannaError, match="another section for devices"):
        task_facts(Task.made(content))


def test_the_facts_of_a_task_name_the_clients_that_can_play_it() -> None:
    assert task_facts(made_task("LinTS-SDP"))["clients"] == ["python", "browser"]
    assert task_facts(made_task("LinTS-JDP"))["clients"] == ["python", "browser"]
    assert task_facts(made_task("LinUCB-SDP-Amp"))["clients"] == ["python"]
    finite = {"n_arms": 3, "horizon": 5000, "epsilon": 1.0, "delta": 1e-5}
    other, _ = creation.create_task({"title": "a test", "algorithm": "SDP-SE", "policy": finite}, expect=False)
    assert task_facts(other)["clients"] == ["python", "browser"]
    assert task_facts(made_task("GLM-SDP", horizon=20_000, epsilon=10.0))["clients"] == [
        "python, with the whole library"
    ]
    assert "Noisy" not in BROWSER_KINDS
