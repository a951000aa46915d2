"""Names, import paths and arguments of policies, and the privacy that they require."""

from __future__ import annotations

import copy
import importlib
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument, InvalidBudget, WeakPrivacyWarning
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.runner import run_sweep
from bandanna.policies import algorithm as algorithm_module
from bandanna.policies import linear, registry
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.registry import ALGORITHMS, make
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.protocols.privacy_model import central, local

from .conformance.catalogue import NAMED, Case
from .conformance.own_policy import copied

LINUCB = {
    "LinUCB": 1,
    "LinUCB-JDP": 1,
    "LinUCB-JDP-batched": 20,
    "LinUCB-LDP": 1,
    "LinUCB-LDP-batched": 89,
    "LinUCB-SDP-Amp": 36,
    "LinUCB-SDP-Vec": 36,
    "LinUCB-CSDP": 20,
}


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.key)
def test_a_policy_promises_the_privacy_model_of_its_name(case: Case) -> None:
    assert case.policy.guarantee.trust == ALGORITHMS[case.key].trust


@pytest.mark.parametrize("name", LINUCB)
def test_every_name_of_linucb_has_its_batches(name: str) -> None:
    budget = {} if name == "LinUCB" else {"epsilon": 1.0, "delta": 1e-5}
    policy = make(name, dim=2, horizon=400, **budget)
    assert policy._channel.sizes[0] == LINUCB[name]


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("LinUCB-SDP", {}, r"LinUCB-SDP-Vec"),
        ("LinUCB-SPD", {"horizon": 10}, r"got 'LinUCB-SPD'. Did you mean 'LinUCB-SDP-Amp'\?"),
        (["LinUCB"], {}, r"name must be one of LinTS, .*, got \['LinUCB'\]"),
        ("LinUCB", {"epsilon": 1.0}, r"epsilon is not an argument of LinUCB. It takes dim"),
        ("SDP-DPE", {"rho": 0.1}, r"rho is not an argument of SDP-DPE. * It takes epsilon, delta, calibration, dim"),
        ("Laplace-DPE", {"delta": 1e-5}, r"delta is not an argument of Laplace-DPE. * It takes epsilon, dim"),
        ("DPE", {"alfa": 0.5}, r"alfa is not an argument of DPE. Did you mean 'alpha'\?"),
        ("LinUCB-JDP", {"delat": 1e-5}, r"delat is not an argument of LinUCB-JDP. Did you mean 'delta'\?"),
        ("DPE", {"horizon": None}, r"horizon must be given, got None. DPE needs horizon; it takes"),
        ("GOPE", {"dim": None, "horizon": None}, r"dim must be given, got None. GOPE needs dim and horizon"),
        ("AdaC-GOPE-early", {"rho": 1.0, "noise": "late"}, r"noise must be left out, got 'late'. .* is noise='beg"),
    ],
)
def test_an_unknown_or_missing_argument_is_refused_with_the_known_ones(
    name: Any, given: dict[str, Any], complaint: str
) -> None:
    arguments = {key: value for key, value in {"dim": 2, "horizon": 10, **given}.items() if value is not None}
    with pytest.raises(InvalidArgument, match=complaint):
        make(name, **arguments)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("AdaC-UCB", {}, r"rho, or epsilon and delta, or alpha and epsilon, got None. Pass it to make\('AdaC-UCB'"),
        ("AdaP-UCB", {"rho": 1.0}, r"budget must be epsilon, got \{'rho': 1.0\}. Pass it to make\('AdaP-UCB'"),
        ("DP-SE", {"budget": ZCDP(rho=1.0)}, r"budget must be epsilon, got ZCDP\(rho=1.0\)"),
        ("AdaC-OFUL", {"budget": ZCDP(rho=1.0), "rho": 1.0}, r"budget must be left out, got ZCDP.*rho is given, too"),
        ("GLM-SDP", {}, r"budget must be epsilon and delta, got None"),
        ("GLM-JDP", {"epsilon": 1.0}, r"budget must be epsilon and delta, or rho, got \{'epsilon': 1.0\}"),
    ],
)
def test_a_missing_or_wrong_budget_is_refused_with_the_allowed_ones(
    name: str, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidBudget, match=complaint):
        make(name, dim=2, horizon=100, **given)


def test_a_budget_may_be_given_whole() -> None:
    assert make("AdaC-UCB", n_arms=2, horizon=10, budget=ZCDP(rho=1.0)) == make("AdaC-UCB", n_arms=2, horizon=10, rho=1)
    whole = make("GLM-JDP", dim=2, horizon=10, budget=ApproxDP(epsilon=1.0, delta=1e-5))
    assert whole == make("GLM-JDP", dim=2, horizon=10, epsilon=1.0, delta=1e-5)


def test_a_decorator_registers_a_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm_module, "ALGORITHMS", dict(ALGORITHMS))
    monkeypatch.setattr(registry, "ALGORITHMS", algorithm_module.ALGORITHMS)

    @register_algorithm("Own-UCB", paper="own", trust="central", guarantee="zCDP", budgets=(("rho",),), optimism=2.0)
    @dataclass(frozen=True, kw_only=True)
    class Own(UCBEpisodes):
        """UCB with another optimism."""

    policy = make("Own-UCB", n_arms=2, horizon=50, rho=1.0)
    assert isinstance(policy, Own)
    assert (policy.optimism, policy.privacy.budget) == (2.0, ZCDP(rho=1.0))
    assert list(algorithm_module.ALGORITHMS)[-1] == "Own-UCB"
    with pytest.raises(InvalidArgument, match=r"name must be a new name, got 'UCB1'. UCB1 has this one"):
        register_algorithm("UCB1", paper="own")(Own)


def test_policies_are_listed_in_the_display_order() -> None:
    assert list(ALGORITHMS)[16:23] == ["DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"]
    assert list(ALGORITHMS)[23:31] == [
        *("UCB1", "Thompson", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "LDP-UCB", "SDP-SE")
    ]
    assert len(ALGORITHMS) == 44


def test_privacy_may_be_given_whole() -> None:
    made = registry.make("AdaC-UCB", n_arms=3, horizon=100, privacy=central(rho=1.0))
    assert made == registry.make("AdaC-UCB", n_arms=3, horizon=100, rho=1.0)
    with pytest.raises(InvalidArgument, match=r"privacy must be bd.central\(...\), got 'local'. AdaC-UCB"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, privacy=local(epsilon=1.0, delta=1e-5))
    with pytest.raises(InvalidArgument, match="left out"):
        registry.make("AdaC-UCB", n_arms=3, horizon=100, rho=1.0, privacy=central(rho=1.0))


SRC = Path(__file__).parents[2] / "src"
PROBLEM: dict[str, Any] = {"dim": 3, "horizon": 100}
DOCUMENT = """
horizon = 100
n_seeds = 2
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
def test_a_misspelt_name_or_argument_gets_a_suggestion(case: Case) -> None:
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


KINDS = {entry.kind.__name__: entry.kind for entry in ALGORITHMS.values()}
BASELINES = {"UCB1", "Thompson", "GLMUCB", "GLOC", "ECOLog", "RSGLinUCB", "BGLinUCB"}
SIZES: dict[str, dict[str, Any]] = {"UCBEpisodes": {"n_arms": 2}, "Elimination": {"n_arms": 2}, "LDPUCB": {"n_arms": 2}}
PRIVATE = sorted(KINDS.keys() - BASELINES)


def sizes(name: str) -> dict[str, Any]:
    """The arguments that every policy of this class needs beside its privacy."""
    return {"horizon": 100, **SIZES.get(name, {"dim": 3})}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_policy_without_the_argument_privacy_is_refused_with_the_alternatives(name: str) -> None:
    kind = KINDS[name]
    with pytest.raises(InvalidArgument) as refused:
        kind(**sizes(name))
    assert refused.value.argument == "privacy"
    for trust in kind.trusts:
        assert f"bd.{trust}({'...' * (trust != 'none')})" in str(refused.value)
    assert ("bd.none() for no protection" in str(refused.value)) == ("none" in kind.trusts)


def test_baselines_are_the_policies_that_cannot_protect() -> None:
    assert {name for name, kind in KINDS.items() if kind.trusts == ("none",)} == BASELINES
    for name in BASELINES - {"UCB1", "Thompson"}:
        assert KINDS[name](dim=2, horizon=50).privacy == bd.none()
    assert {KINDS[name](n_arms=2, horizon=50).privacy for name in ("UCB1", "Thompson")} == {bd.none()}


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_a_policy_without_a_private_version_names_private_ones(name: str) -> None:
    kind = KINDS[name]
    with pytest.raises(InvalidArgument, match=rf"{name} has no private version. Private ") as refused:
        kind(**({"n_arms": 2} if name in ("UCB1", "Thompson") else {"dim": 2}), horizon=50, privacy=bd.central(rho=1.0))
    named = re.findall(r'"([\w-]+)" \((\w+)\)', str(refused.value))
    assert len(named) > 1
    assert all(ALGORITHMS[private].trust == trust for private, trust in named)


def test_copies_of_a_policy_are_made_without_arguments() -> None:
    policy = bd.LinTS(dim=3, horizon=100, privacy=bd.none())
    assert copy.copy(policy) == copy.deepcopy(policy) == pickle.loads(pickle.dumps(policy)) == policy


def test_a_policy_of_a_module_is_refused_without_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unsaid_here.py").write_text("from bandanna import LinTS\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r'trust must be one of "none", "central", "local".*got None'):
        bd.make("unsaid_here:LinTS", dim=3, horizon=100)
    experiment = {
        "title": "unsaid",
        "horizon": 100,
        "n_seeds": 1,
        "environment": {"name": "LinearContextual", "dim": 3, "n_arms": 2},
        "algorithm": [{"name": "unsaid_here:LinTS"}],
    }
    with pytest.raises(InvalidArgument, match=r'algorithm\[1\]\.trust must be one of "none", "central", "local"'):
        bd.experiments.Experiment.from_dict(experiment)


@pytest.mark.parametrize("trust", ["central", "local", "shuffle", "concurrent"])
@pytest.mark.parametrize("epsilon", [10.01, 1e6, math.inf])
def test_an_epsilon_above_10_gives_a_warning(trust: str, epsilon: float) -> None:
    make = getattr(bd, trust)
    with pytest.warns(WeakPrivacyWarning, match=re.escape(f"epsilon = {epsilon:g} protects little")) as said:
        make(epsilon=epsilon, delta=1e-5)
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(epsilon=10.0, delta=1e-5)


def test_a_whole_budget_above_10_gives_a_warning() -> None:
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 "):
        bd.central(budget=bd.privacy.PureDP(epsilon=11.0))
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 ") as said:
        bd.make("DP-SE", n_arms=2, horizon=100, epsilon=11.0)
    assert [each.filename for each in said] == [__file__]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rho": 2.0}, "rho = 2, which is epsilon = 11 at delta = 1e-06, protects little"),
        (
            {"alpha": 1.5, "epsilon": 8.0},
            "alpha = 1.5, epsilon = 8, which is epsilon = 20.24 at delta = 1e-06, protects",
        ),
        ({"alpha": 100.0, "epsilon": 10.5}, "epsilon = 10.5 protects little"),
    ],
)
def test_other_budgets_are_compared_by_their_epsilon(given: dict[str, float], told: str) -> None:
    with pytest.warns(WeakPrivacyWarning, match=re.escape(told)) as said:
        made = bd.central(**given)
    assert [each.filename for each in said] == [__file__]
    if "which is" in told:
        stated = bd.LinTS(dim=2, horizon=100, batch=100, privacy=made).guarantee.epsilon
        assert stated > 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.central(**{**given, "rho" if "rho" in given else "epsilon": 0.5})


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "concurrent"])
def test_a_privacy_model_without_a_budget_is_refused(model: str) -> None:
    with pytest.raises(InvalidBudget, match=r"budget must be .*bd\.none\(\) for no protection, got None"):
        bd.protocols.Privacy(model=model)
    with pytest.raises(InvalidBudget, match='model="none" keeps no budget'):
        bd.protocols.Privacy(model="none", budget=bd.privacy.ZCDP(rho=1.0))


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "concurrent"])
def test_a_privacy_model_made_by_its_fields_warns_as_well(model: str) -> None:
    with pytest.warns(WeakPrivacyWarning, match="epsilon = 11 protects little") as said:
        made = bd.protocols.Privacy(model=model, budget=bd.privacy.ApproxDP(epsilon=11.0, delta=1e-5))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace(made)


def test_a_counter_warns_as_a_policy_does() -> None:
    with pytest.warns(WeakPrivacyWarning, match=r"delta = 0.2 is more than 1/horizon = 0.125") as said:
        bd.agent.ContinualSum(horizon=8, privacy=bd.central(epsilon=1.0, delta=0.2))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.agent.ContinualSum(horizon=8, privacy=bd.central(epsilon=1.0, delta=0.125))


@pytest.mark.parametrize("name", sorted(set(PRIVATE) - {"LDPUCB"}))
def test_a_delta_above_one_in_the_horizon_gives_a_warning(name: str) -> None:
    kind = KINDS[name]
    trust = getattr(bd, next(each for each in ("central", "shuffle") if each in kind.trusts))
    with pytest.warns(WeakPrivacyWarning, match=r"delta = 0.011 is more than 1/horizon = 0.01") as said:
        policy = kind(**sizes(name), privacy=trust(epsilon=1.0, delta=0.011))
    assert [each.filename for each in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(**sizes(name), privacy=trust(epsilon=1.0, delta=0.01))
        replace(policy)  # a copy says nothing new


def test_no_privacy_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bd.LinTS(dim=3, horizon=10**9, privacy=bd.none())
