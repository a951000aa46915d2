"""Policies of one's own: by their place, and by a name that stands beside their class."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.runner import run_sweep
from bandanna.policies import linear, registry
from bandanna.policies.registry import ALGORITHMS

from .conformance.catalogue import NAMED, Case
from .conformance.own_policy import copied

SRC = Path(__file__).parents[2] / "src"
PROBLEM: dict[str, Any] = {"dim": 3, "horizon": 100}
DOCUMENT = """
horizon = 100
seeds = 2
[environment]
name = "LinearContextual"
dim = 3
n_arms = 4
[[algorithm]]
name = "{name}"
{arguments}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`greedy_here.py` in a folder that is neither installed nor the working directory."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    path = folder / "greedy_here.py"
    path.write_text(copied("Here"), encoding="utf-8")
    (folder / "broken_here.py").write_text("1 / 0\n", encoding="utf-8")
    taken = 'import bandanna as bd\n\n@bd.stored_as("LinUCB")\nclass Mine: ...\n'
    (folder / "taken_here.py").write_text(taken, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    importlib.invalidate_caches()
    yield path
    sys.modules.pop("greedy_here", None)


def from_toml(module: Path, name: str, arguments: str) -> Experiment:
    """An experiment whose file lies beside the module."""
    file = module.with_name("mine.toml")
    file.write_text(DOCUMENT.format(name=name, arguments=arguments), encoding="utf-8")
    return Experiment.from_toml(file)


def test_a_file_names_a_policy_by_its_place(module: Path, tmp_path: Path) -> None:
    spent = 'trust = "shuffle"\nepsilon = [1.0, 4.0]\ndelta = 1e-5\nbatch = 20'
    experiment = from_toml(module, "greedy_here:Greedy", spent)
    policies = [curve.policy(dim=3, horizon=100) for curve in experiment.curves]
    assert [policy.privacy for policy in policies] == [bd.shuffle(epsilon=e, delta=1e-5) for e in (1.0, 4.0)]
    assert [policy.batch for policy in policies] == [20, 20]
    assert Experiment.from_dict(experiment.to_dict()) == experiment
    one = from_toml(module, "greedy_here:Greedy", spent.replace("[1.0, 4.0]", "4.0"))  # one task: one other process
    here, there = (run_sweep(one, tmp_path / f"{jobs}", jobs=jobs) for jobs in (1, 2))
    assert here.keys() == there.keys() != set()
    for label, result in here.items():
        np.testing.assert_array_equal(result.regret, there[label].regret)


def test_other_code_is_another_experiment(module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = from_toml(module, "greedy_here:Greedy", 'trust = "shuffle"\nepsilon = 4.0\ndelta = 1e-5')
    run_sweep(experiment, tmp_path / "results", jobs=1)
    run_sweep(experiment, tmp_path / "results", jobs=1, resume=True)
    monkeypatch.setattr("bandanna.policies.algorithm.inspect.getsource", lambda _: "other code")
    with pytest.raises(bd.BandannaError, match=r"code.greedy_here:Greedy"):
        run_sweep(experiment, tmp_path / "results", jobs=1, resume=True)


def test_make_takes_a_module_and_a_class(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(module.parent)
    policy = bd.make("greedy_here:Greedy", trust="central", rho=0.5, explore=0.2, **PROBLEM)
    assert policy.privacy == bd.central(rho=0.5)
    assert policy.explore == 0.2
    assert bd.make("greedy_here:Greedy", trust="none", **PROBLEM).privacy == bd.none()
    with pytest.raises(
        InvalidArgument, match=r'trust must be one of "none", "central", .*got None. greedy_here:Greedy has several'
    ):
        bd.make("greedy_here:Greedy", epsilon=1.0, **PROBLEM)
    with pytest.raises(InvalidArgument, match=r"epsilon must be left out, got 1.0. bd.none has no epsilon"):
        bd.make("greedy_here:Greedy", trust="none", epsilon=1.0, **PROBLEM)
    with pytest.raises(InvalidArgument, match=r"trust must be .*none.*central.*, got 'cloud'"):
        bd.make("greedy_here:Greedy", trust="cloud", **PROBLEM)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        (
            "greedy_her:Greedy",
            "",
            r"algorithm\[1\].name must be .* got 'greedy_her:Greedy'. There is no module 'greedy_her'",
        ),
        (":Greedy", "", "no module ''"),
        ("greedy_here.deep:Greedy", "", "no module"),
        ("greedy_here:", "", r"one of the policies of greedy_here \(Greedy\)"),
        ("greedy_here:Gredy", "", "Did you mean 'Greedy'"),
        ("greedy_here:Sums", "", "a subclass of bd.Policy"),
        ("broken_here:Greedy", "", "ZeroDivisionError: division by zero"),
        ("taken_here:Mine", "", "a name that is not taken.*LinUCB has this one"),
        ("greedy_here:Greedy", "bath = 3", "algorithm.1..bath is not an argument .* Did you mean 'batch'"),
        ("greedy_here:Greedy", 'batch = "many"', "algorithm.1..batch .* a whole number"),
        (
            "greedy_here:Greedy",
            'trust = "concurrent"\nepsilon = 1.0\ndelta = 1e-5',
            "algorithm.1..privacy must be .*got 'concurrent'. Greedy has no other",
        ),
        ("LinUCB-SDP-Vek", "", "Did you mean 'LinUCB-SDP-Vec'"),
    ],
)
def test_mistakes_are_named_in_one_line(module: Path, name: str, arguments: str, complaint: str) -> None:
    with pytest.raises(bd.BandannaError, match=complaint) as refused:
        from_toml(module, name, arguments)
    assert "\n" not in str(refused.value)
    assert "mine.toml" in str(refused.value)


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.key)
def test_every_name_and_argument_has_a_neighbour(case: Case) -> None:
    assert type(bd.make(case.key, **case.arguments)) is ALGORITHMS[case.key].kind
    with pytest.raises(InvalidArgument, match=f"Did you mean '{case.key}'"):
        bd.make(case.key[:-1] + "." + case.key[-1:], **case.arguments)
    kind = ALGORITHMS[case.key].kind
    given = {name: value for name, value in case.arguments.items() if name != "horizon"}
    for made in (lambda **own: bd.make(case.key, **own), kind):
        with pytest.raises(InvalidArgument, match=r"horizn is not an argument of .* Did you mean 'horizon'"):
            made(**{name: given[name] for name in given if name in {each.name for each in fields(kind)}}, horizn=10)


CHECK = """
import sys, bandanna as bd
policy = bd.make("Mine", dim=3, horizon=100, epsilon=1.0, delta=1e-5)
assert policy.privacy == bd.shuffle(epsilon=1.0, delta=1e-5), policy
result = bd.simulate(policy, bd.environments.LinearContextual(dim=3, n_arms=4))
assert 0 < result.guarantee.epsilon <= 1.0
from bandanna.cli.main import main
for command in (["list", "--json"], ["run", "mine.toml", "--jobs", "1", "--out", "results"]):
    sys.argv = ["bandanna", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""


def write_mine(linear: Path, document: Path) -> None:
    """A policy's file with its name beside its class, and an experiment with it."""
    beside = '@register_algorithm("Mine", paper="mine", trust="shuffle", guarantee="shuffle DP")\n'
    text = copied("Added").replace(
        "import bandanna as bd", "import bandanna as bd\nfrom bandanna.policies.algorithm import register_algorithm"
    )
    before, _, after = text.rpartition("@dataclass(frozen=True, kw_only=True)\n")
    added = f"{before}{beside}@dataclass(frozen=True, kw_only=True)\n{after}"
    (linear / "mine.py").write_text(added, encoding="utf-8")
    document.write_text(DOCUMENT.format(name="Mine", arguments="epsilon = 1.0\ndelta = 1e-5"))


def is_known(output: str) -> bool:
    """Whether `bandanna list --json` has it, and `bandanna run` shows its results."""
    listed, ran = output.split("\n", 1)
    return '"name": "Mine", "paper": "mine", "trust": "shuffle"' in listed and "Mine" in ran


def test_adding_a_policy_takes_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy with its name beside its class is unknown to `make`, `simulate`, `bandanna list` or an experiment.

    As when a process begins: the catalogue looks into its folders again, of which one has a file more.
    """
    write_mine(tmp_path, tmp_path / "mine.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(linear, "__path__", [*linear.__path__, str(tmp_path)])
    known = dict(ALGORITHMS)
    try:
        importlib.reload(registry)
        exec(CHECK, {})
        assert is_known(capsys.readouterr().out)
    finally:
        ALGORITHMS.clear()
        ALGORITHMS.update(known)
        sys.modules.pop("bandanna.policies.linear.mine", None)


@pytest.mark.full
def test_adding_a_policy_takes_one_file_in_a_process_of_its_own(tmp_path: Path) -> None:
    shutil.copytree(SRC, tmp_path / "src")  # with what is compiled: files keep their dates
    write_mine(tmp_path / "src" / "bandanna" / "policies" / "linear", tmp_path / "mine.toml")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_known(done.stdout)
