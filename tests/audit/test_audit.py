"""Audits of targets, of tasks and by the command line."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna import environments as worlds
from bandanna.audit.audit import audit, known_targets
from bandanna.audit.live import audit_task
from bandanna.audit.mechanisms import (
    MECHANISMS,
    PROTOCOLS,
    enumerate_laws,
    mechanism_target,
    protocol_target,
    target_from_protocol,
)
from bandanna.audit.policies import policy_target, target_from_policy
from bandanna.audit.releases import farthest_points
from bandanna.audit.replay import record_neighbours
from bandanna.audit.sampled_bounds import Claim
from bandanna.audit.targets import COLUMNS, AuditResult, Target, attacked
from bandanna.cli import main
from bandanna.cli.analysis import audit as command
from bandanna.deployment.processes import RunningDeployment
from bandanna.deployment.task.document import Task
from bandanna.device import randomizers
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.device.randomizers import BinomialCounts
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import DiscreteLaplaceMechanism
from bandanna.privacy import accountant, gdp
from tests.policies.conformance.own_policy import Greedy

from ..deployment.inside import Inside, a_task
from ..deployment.test_processes import on_disk


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["bandanna", "audit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


def test_json_has_the_promised_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "curve.svg"
    code = run(monkeypatch, "gaussian", "--epsilon", "2", "--trials", "2e3", "--json", "--plot", str(picture))
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert code == 0
    assert [tuple(row) for row in rows] == [COLUMNS]
    assert rows[0]["known"] is None
    assert rows[0]["verdict"] == "consistent"
    assert rows[0]["lower_bound"] <= rows[0]["claimed_epsilon"]
    assert "claim" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("LinUCB-JPD",), "Did you mean 'LinUCB-JDP'?"),
        ((), "TARGET is missing"),
        ((".",), "with its task.json"),
        (("gaussian", "--gallery"), "or left out with --gallery"),
        (("--gallery", "--epsilon", "2"), "--epsilon"),
        (("--gallery", "--confidence", "0.99"), "--confidence"),
        (("--gallery", "--trust", "local"), "--trust"),
        (("--gallery", "--view", "snapshot"), "--view"),
        (("gaussian", "--trials", "10"), "trials"),
        (("gaussian", "--epsilon", "-1"), "epsilon"),
        (("gaussian", "--view", "snapshot"), "TARGET must be a policy, got 'gaussian'"),
        (("gaussian", "--trust", "local"), "--trust"),
        (("shuffle_binomial", "--trust", "local"), "--trust"),
        (("LinUCB-JDP", "--view", "snapshots"), "view"),
        (("gaussian", "--plot", "curve.txt"), "suffix"),
        (("gaussian", "--jobs", "0"), "jobs"),
        (("gaussian", "--scheduler", "tcp://127.0.0.1:9"), "scheduler"),
        (("LinUCB-LDP", "--view", "one-run", "--jobs", "2"), "must be left out for the view"),
        (("DP-SE", "--view", "actions"), "'snapshot' for DP-SE"),
        (("LinUCB", "--delta", "1e-3"), "given together with an epsilon"),
        (("LinUCB", "--epsilon", "1", "--view", "snapshot"), "releases"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_a_gallery_that_is_surprised_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = bd.audit.audit("gaussian", trials=1000).rows
    result = AuditResult(rows=tuple(type(rows[0])(**{**vars(row), "known": "bad"}) for row in rows))
    monkeypatch.setattr("bandanna.audit.gallery.run_gallery", lambda **_: result)
    assert run(monkeypatch, "--gallery") == 1
    assert "is known to be bad" in capsys.readouterr().out


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


E, D = 4.0, 1e-3
SMALL_ENV = worlds.LinearContextual(dim=3, n_arms=4)


@pytest.mark.parametrize(
    "domain",
    [
        bd.device.Ball(dim=3, bound=2.0),
        bd.device.Box(dim=2, low=-1.0, high=2.0),
        bd.device.Bits(),
        LinearReport(features=3),
        InterceptReport(features=3),
    ],
    ids=repr,
)
def test_canaries_are_as_far_apart_as_the_domain_is_wide(domain: Any) -> None:
    one, two = domain.admit(farthest_points(domain), clip=False).values
    assert np.linalg.norm(one - two) == pytest.approx(domain.sensitivity, rel=1e-4)


def test_canaries_of_arms_with_models_of_their_own_are_in_the_domain() -> None:
    domain = PerArmReport(features=2, n_arms=3)
    one, two = domain.admit(farthest_points(domain), clip=False).values
    assert np.linalg.norm(one - two) > 0.9 * domain.sensitivity


def target_of(name: str) -> Target:
    make = mechanism_target if name in MECHANISMS else protocol_target if name in PROTOCOLS else policy_target
    return make(name, epsilon=E, delta=D)


@pytest.mark.parametrize(
    "name", ["gaussian", "binomial", "continual_blt", "continual_tree", "central_gaussian", "shuffle_bits"]
)
def test_sums_reach_95_percent_of_their_mu_by_samples_alone(name: str) -> None:
    """Of the 40,000 runs of the command less than 95 % is seen where nothing is known exactly, or all is refuted."""
    row = attacked(replace(target_of(name), mu=None, pairs=()))
    assert row.attack == "sampled"
    assert not row.refuted
    assert row.reached >= 0.95


@pytest.mark.full
@pytest.mark.parametrize("name", ["central_continual", "shuffle_binomial", "concurrent_shuffle"])
def test_protocols_reach_95_percent_of_their_mu_by_samples_alone(name: str) -> None:
    """The same along the messages of the slower protocols, of 100,000 runs."""
    row = attacked(replace(target_of(name), mu=None, pairs=()), trials=100_000)
    assert not row.refuted
    assert row.reached >= 0.95


@pytest.mark.parametrize("name", ["LinUCB-JDP", "AdaC-OFUL", "LinUCB-LDP"])
def test_noise_that_is_drawn_too_small_is_seen_in_policies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = policy_target(name, epsilon=E, delta=D)
    original = bd.device.FastNoise.gaussian

    def quiet(self: Any, value: Any, *, std: float, grid: float) -> Any:
        return original(self, value, std=0.8 * std, grid=grid)

    monkeypatch.setattr(bd.device.FastNoise, "gaussian", quiet)
    row = attacked(target, trials=20_000)
    assert row.refuted
    assert row.attack == "sampled"


def test_enumerated_mechanisms_have_the_epsilon_that_is_priced() -> None:
    for name in ("discrete_laplace", "randomized_response", "binomial", "discrete_gaussian"):
        target = mechanism_target(name, epsilon=2.0, delta=D)
        found = Claim(epsilon=target.claim.epsilon, delta=target.claim.delta).parameter_for_pairs(target.pairs)
        assert 0.98 * target.claim.epsilon < found <= target.claim.epsilon * (1 + 1e-9)
    law = enumerate_laws(DiscreteLaplaceMechanism(scale=3.0, shift=2.0))
    assert law is not None
    assert [each.sum() for each in law] == pytest.approx([1.0, 1.0], abs=1e-12)


def test_the_events_of_all_mechanisms_are_known() -> None:
    for name, make in MECHANISMS.items():
        assert accountant.epsilon(make(2.0, D).event, D) <= 2.0 * (1 + 1e-3), name


def test_a_policy_that_asks_twice_and_states_once_is_refuted() -> None:

    class Twice(Greedy):  # type: ignore[misc, valid-type]
        def learn(self, state: Any, episode: Any) -> Any:
            learned = yield from super().learn(state, episode)
            yield bd.policies.SumQuery(protocol=self.protocol, step=1)
            return learned

    privacy = bd.shuffle(epsilon=E, delta=D)
    honest, greedy = (kind(dim=3, horizon=100, privacy=privacy) for kind in (Greedy, Twice))
    assert not attacked(target_from_policy(honest, SMALL_ENV), trials=4000).refuted
    assert attacked(target_from_policy(greedy, SMALL_ENV), trials=4000).refuted


def test_a_policy_that_peeks_is_refuted_whatever_epsilon_is() -> None:

    class Peeking(Greedy):  # type: ignore[misc, valid-type]
        def report(self, query: Any, played: Any, coins: Any) -> Any:
            object.__setattr__(self, "seen_reward", float(np.mean(played.rewards)))
            return super().report(query, played, coins)

        def learn(self, state: Any, episode: Any) -> Any:
            learned = yield from super().learn(state, episode)
            return replace(learned, total=learned.total + self.seen_reward)

    privacy = bd.shuffle(epsilon=E, delta=D)
    row = attacked(target_from_policy(Peeking(dim=3, horizon=100, privacy=privacy), SMALL_ENV))
    assert row.refuted
    assert row.lower_bound == np.inf
    assert row.to_dict()["lower_bound"] is None
    assert record_neighbours(Greedy(dim=3, horizon=100, privacy=privacy), SMALL_ENV, rounds=100).difference is None


def test_a_policy_is_named_by_its_place(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.policies.conformance.own_policy import copied

    (tmp_path / "audited_policy.py").write_text(copied("Audited"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (row,) = audit("audited_policy:Greedy", epsilon=E, delta=D, trust="local", trials=1000).rows
    assert row.target == "audited_policy:Greedy"
    assert not row.refuted
    with pytest.raises(InvalidArgument, match="Did you mean 'Greedy'"):
        audit("audited_policy:Greed", epsilon=E, delta=D)
    with pytest.raises(InvalidArgument, match="trust"):
        audit("LinUCB-JDP", epsilon=E, delta=D, trust="local")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("near_policy", "must be one of gaussian.*Did you mean 'near_policy:Greedy'"),
        ("near_policy.py", "must be one of gaussian.*Did you mean 'near_policy:Greedy'"),
        ("near_policy.py:Greedy", "the name of a module, not of a file.*Did you mean 'near_policy:Greedy'"),
        ("./near_policy.py:Greedy", "the name of a module, not of a file.*Did you mean 'near_policy:Greedy'"),
        ("near_policy:Greed", "Did you mean 'Greedy'"),
        ("no_policy:Greedy", "no_policy"),
        ("broken", "must be one of gaussian"),
        ("statistics", "must be one of gaussian"),
        ("no policy", "must be one of gaussian"),
        (3, "must be one of gaussian"),
    ],
)
def test_a_misspelt_place_is_answered_with_a_suggestion(
    given: Any, words: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.policies.conformance.own_policy import copied

    (tmp_path / "near_policy.py").write_text(copied("Near"), encoding="utf-8")
    (tmp_path / "broken.py").write_text("import bandanna\nclass Mine(", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InvalidArgument, match=words) as refused:
        audit(given)
    assert refused.value.argument == "target"
    assert ("near_policy" in sys.modules) == (given == "near_policy:Greed")
    sys.modules.pop("near_policy", None)


def test_a_value_is_held_to_a_given_claim() -> None:
    protocol = bd.protocols.CentralGaussian.calibrate(
        domain=bd.device.Ball(dim=2), budget=bd.privacy.ApproxDP(epsilon=E, delta=D)
    )
    assert not audit(protocol).refuted
    assert audit(protocol, epsilon=1.0, delta=D).refuted
    assert target_from_protocol(protocol, epsilon=1.0, delta=D).claim.mu == pytest.approx(gdp.mu(1.0, D))


@pytest.mark.parametrize("name", ["LinUCB", "Thompson", "PE", "GLM-UCB"])
def test_an_epsilon_for_a_policy_without_noise_is_refuted(name: str) -> None:
    assert audit(name).rows[0].attack == "nothing claimed"
    for delta in (None, D, 0.0):
        row = audit(name, epsilon=20.0, delta=delta).rows[0]
        assert row.refuted
        assert row.confidence == 1.0
        assert row.lower_bound == math.inf
        assert (row.claim.epsilon, row.claim.delta) == (20.0, 1e-5 if delta is None else delta)


def test_an_epsilon_for_values_without_noise_is_refuted() -> None:
    assert audit(bd.protocols.Clear(domain=bd.device.Ball(dim=2)), epsilon=20.0).refuted
    assert audit(bd.LinUCB(dim=3, horizon=10, privacy=bd.none()), env=SMALL_ENV, epsilon=20.0).refuted
    assert not audit(bd.LinUCB(dim=3, horizon=10, privacy=bd.none()), env=SMALL_ENV).refuted


@pytest.mark.parametrize("name", ["AdaC-UCB", "LinUCB-JDP"])
def test_a_delta_alone_is_heeded(name: str) -> None:
    claim = audit(name, delta=1e-3, trials=2000).rows[0].claim
    assert (claim.epsilon, claim.delta) == (pytest.approx(1.0, rel=1e-3), 1e-3)


def test_views_and_single_runs_are_held_to_a_given_claim() -> None:
    policy = bd.LinUCB(dim=3, horizon=30, privacy=bd.local(epsilon=20.0, delta=D))
    for view in ("snapshot", "one-run"):
        row = audit(policy, env=SMALL_ENV, view=view, epsilon=0.01, delta=D, trials=2000).rows[0]
        assert (row.claim.epsilon, row.claim.delta) == (0.01, D)
        assert row.refuted
        assert not audit(policy, env=SMALL_ENV, view=view, trials=2000).refuted


def test_names_that_are_not_known_are_answered_with_the_nearest() -> None:
    assert len(set(known_targets())) == len(known_targets())
    with pytest.raises(InvalidArgument, match="Did you mean 'LinUCB-JDP'"):
        audit("LinUCB-JPD")
    with pytest.raises(InvalidArgument, match="env"):
        audit(bd.LinUCB(dim=3, horizon=10, privacy=bd.local(epsilon=1.0, delta=D)))


@pytest.mark.parametrize("view", ["snapshot", "actions"])
def test_views_of_other_users_reveal_no_more_than_the_releases(view: str) -> None:
    row = audit("LinUCB-JDP-batched", view=view, epsilon=E, delta=D, trials=8000).rows[0]
    assert not row.refuted
    if view == "snapshot":
        assert row.reached > 0.2  # it does see something
