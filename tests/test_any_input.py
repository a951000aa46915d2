"""Whatever is put into a public function: an answer, or one line of the Bandanna family - and nothing has changed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bandanna as bd
from bandanna import environments
from bandanna.experiments import plan
from bandanna.experiments.executors import InProcessExecutor
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.factory import local_protocol_for

from .drawn import examples
from .hostile import FIXED, VALUES, answers_or_refuses

B: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
BUDGET, BALL = bd.privacy.ApproxDP(**B), bd.device.Ball(dim=3)
ROWS, ONE = np.zeros((4, 3)), [[0.5, 0.1], [0.2, 0.3]]
EVENT = bd.protocols.CentralGaussian.calibrate(domain=BALL, budget=BUDGET).event
RESULT = bd.simulate(
    bd.LinUCB(dim=2, horizon=20, privacy=bd.none()), environments.LinearContextual(dim=2, n_arms=3), n_seeds=2
)
UNIT = bd.protocols.LocalUnit(domain=BALL, cosine=0.2, chance=0.8, candidates=3)
STREAM = bd.protocols.CentralContinual.calibrate(domain=BALL, budget=BUDGET, horizon=8)


class Fresh:
    """An argument that is made anew for every call."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def noise() -> bd.device.FastNoise:
    """A seeded source."""
    return bd.device.FastNoise(np.random.default_rng(0))


def somewhere() -> str:
    """A path that does not exist yet."""
    return str(Path(tempfile.mkdtemp()) / "file")


def saved() -> str:
    """A file with results."""
    RESULT.to_csv(path := somewhere())
    return path


def linucb(**arguments: Any) -> Any:
    """A policy with everything that is computed on demand."""
    policy = bd.LinUCB(**arguments)
    return policy, policy.guarantee, policy.radii


def lints(**arguments: Any) -> Any:
    """A policy with everything that is computed on demand."""
    policy = bd.LinTS(**arguments)
    return policy, policy.guarantee, policy.init()


def spending(
    policy: Callable[..., Any], trust: Callable[..., bd.protocols.Privacy], **arguments: Any
) -> Callable[..., Any]:
    """A policy, and what it guarantees, of a budget in a privacy model."""
    return lambda **budget: policy(privacy=trust(**budget), **arguments).guarantee


SOURCE, PLACE = Fresh(noise), Fresh(somewhere)
Case = tuple[Callable[..., Any], dict[str, Any]]
_calibrate = {"domain": BALL, "budget": BUDGET, "participations": 1, "calibration": "tight"}
_release = {"statistics": ROWS, "source": SOURCE, "clip": True, "path": "messages"}
_finite = {"n_arms": 3, "horizon": 50}
_linear = {"dim": 2, "horizon": 50}
_glm = {**_linear, "link": "logistic", "parameter_bound": 1.0}
_arms = {"dim": 2, "n_arms": 3}
_experiment: dict[str, Any] = {
    "title": "small",
    "horizon": 5,
    "n_seeds": 1,
    "seed": 0,
    "path": "law",
    "checkpoints": 2,
    "environment": {"name": "FiniteArms", "means": [0.2, 0.8]},
    "algorithm": [{"name": "UCB1"}],
}

CASES: dict[str, Case] = {
    "ApproxDP": (bd.privacy.ApproxDP, B),
    "PureDP": (bd.privacy.PureDP, {"epsilon": 1.0}),
    "ZCDP": (bd.privacy.ZCDP, {"rho": 1.0}),
    "RenyiDP": (bd.privacy.RenyiDP, {"alpha": 2.0, "epsilon": 1.0}),
    "Ball": (bd.device.Ball, {"dim": 3, "bound": 1.0}),
    "Box": (bd.device.Box, {"dim": 3, "low": 0.0, "high": 1.0}),
    "LinearReport": (bd.device.LinearReport, {"features": 3, "reward_bound": 1.0}),
    "ImportanceWeightDomain": (
        bd.device.ImportanceWeightDomain,
        {"bound": 2.0, "targets": 2, "moments": True, "exclusive": False},
    ),
    "SymmetricMatrix": (bd.device.SymmetricMatrix, {"size": 3, "bound": 1.0}),
    "Domain.admit": (BALL.admit, {"values": ROWS, "clip": True}),
    "LinearReport.statistic": (
        bd.device.LinearReport(features=3).statistic,
        {"features": ROWS, "rewards": np.zeros(4)},
    ),
    "LinearReport.unpack": (bd.device.LinearReport(features=2).unpack, {"stacked": np.zeros(5)}),
    "central": (bd.central, {**B, "rho": None, "mechanism": "blt", "calibration": "tight", "participations": 1}),
    "central.renyi": (bd.central, {"epsilon": 1.0, "alpha": 2.0}),
    "central.budget": (bd.central, {"budget": BUDGET, "participations": 1}),
    "local.budget": (bd.local, {"budget": BUDGET, "participations": 1}),
    "local": (bd.local, {**B, "rho": None, "protocol": "auto", "calibration": "tight", "participations": 1}),
    "shuffle": (bd.shuffle, {**B, "protocol": "binomial", "calibration": "tight", "participations": 1}),
    "concurrent": (bd.concurrent, {**B, "shufflers": 2, "degrees": "best", "calibration": "tight"}),
    "Privacy": (
        bd.protocols.Privacy,
        {"model": "central", "budget": BUDGET, "mechanism": "blt", "protocol": "binomial"},
    ),
    "protocol_for": (bd.protocols.protocol_for, {"privacy": bd.shuffle(**B), "domain": BALL, "users": 20}),
    "CentralGaussian.calibrate": (bd.protocols.CentralGaussian.calibrate, _calibrate),
    "LocalGaussian.calibrate": (bd.protocols.LocalGaussian.calibrate, _calibrate),
    "LocalUnit.calibrate": (bd.protocols.LocalUnit.calibrate, {"domain": BALL, "budget": BUDGET, "participations": 1}),
    "LocalUnit.of_std": (
        bd.protocols.LocalUnit.of_std,
        {"domain": BALL, "std": 3.0, "participations": 1, "delta": 1e-5},
    ),
    "LocalUnit": (
        bd.protocols.LocalUnit,
        {"domain": BALL, "cosine": 0.2, "chance": 0.8, "candidates": 3, "participations": 1, "delta": 1e-5},
    ),
    "LocalUnit.release": (UNIT.release, _release),
    "LocalUnit.std": (UNIT.std, {"users": 4}),
    "LocalUnit.std_along": (UNIT.std_along, {"users": 4}),
    "open_local": (local_protocol_for, {"privacy": bd.local(**B, protocol="auto"), "domain": BALL}),
    "CentralLaplace.calibrate": (
        bd.protocols.CentralLaplace.calibrate,
        {"domain": bd.device.Box(dim=1), "budget": bd.privacy.PureDP(epsilon=1.0), "participations": 1},
    ),
    "CentralContinual.calibrate": (
        bd.protocols.CentralContinual.calibrate,
        {**_calibrate, "horizon": 8, "mechanism": "blt"},
    ),
    "ShuffleGaussian.calibrate": (bd.protocols.ShuffleGaussian.calibrate, {**_calibrate, "batch": 20}),
    "ShuffleBinomial.calibrate": (
        bd.protocols.ShuffleBinomial.calibrate,
        {**_calibrate, "batch": 20, "bits_limit": 1e6},
    ),
    "ShuffleBits.calibrate": (bd.protocols.ShuffleBits.calibrate, {"budget": BUDGET, "batch": 20, "participations": 1}),
    "LocalBits.calibrate": (bd.protocols.LocalBits.calibrate, {"budget": BUDGET, "participations": 1}),
    "ConcurrentShuffle.calibrate": (
        bd.protocols.ConcurrentShuffle.calibrate,
        {"domain": bd.device.Bits(), "budget": BUDGET, "horizon": 30, "shufflers": 2, "degrees": "best"},
    ),
    "Clear.calibrate": (bd.protocols.Clear.calibrate, {"domain": BALL, "budget": BUDGET}),
    "CentralGaussian": (
        bd.protocols.CentralGaussian,
        {"domain": BALL, "noise_std": 3.0, "participations": 1, "delta": 1e-5},
    ),
    "CentralGaussian.release": (bd.protocols.CentralGaussian(domain=BALL, noise_std=3.0).release, _release),
    "LocalGaussian.release": (bd.protocols.LocalGaussian(domain=BALL, noise_std=3.0).release, _release),
    "LocalGaussian.std": (bd.protocols.LocalGaussian(domain=BALL, noise_std=3.0).std, {"users": 4}),
    "ShuffleBinomial.release": (
        bd.protocols.ShuffleBinomial.calibrate(domain=BALL, budget=BUDGET, batch=4).release,
        _release,
    ),
    "ShuffleBinomial.std": (
        bd.protocols.ShuffleBinomial.calibrate(domain=BALL, budget=BUDGET, batch=4).std,
        {"users": 4},
    ),
    "CentralContinual.release": (STREAM.release, {"state": Fresh(STREAM.begin), "statistics": ROWS, "source": SOURCE}),
    "factorise": (factorise, {"name": "blt", "horizon": 8}),
    "LinUCB": (
        linucb,
        {
            **_linear,
            "privacy": bd.central(**B),
            "batch": 10,
            "failure": 0.05,
            "width": 1.0,
            "ridge": 1.0,
            "parameter_bound": 1.0,
            "growing": False,
            "confidence": "exact",
        },
    ),
    "LinTS": (
        lints,
        {
            **_linear,
            "privacy": bd.central(**B),
            "intercept": True,
            "batch": "auto",
            "alpha": 0.5,
            "prior": 0.5,
            "reward_std": 0.5,
            "explore": None,
        },
    ),
    "LinTS per arm": (lints, {"n_arms": 3, "features": 2, "horizon": 50, "privacy": bd.central(**B)}),
    "uniform": (bd.policies.uniform, {"first": 10, "then": 0.1}),
    "PaperConfidence": (bd.policies.PaperConfidence, {"matrix": 1.0, "vector": 1.0}),
    "geometric": (bd.policies.geometric, {"first": 10, "ratio": 1.5}),
    "make": (bd.make, {"name": "LinUCB-JDP", **_linear, **B, "batch": 5, "width": 1.0}),
    "UCB1": (bd.policies.UCB1, {**_finite, "reward_range": (0.0, 1.0)}),
    "Thompson": (bd.policies.Thompson, {**_finite, "reward_range": (0.0, 1.0)}),
    "UCBEpisodes": (bd.policies.UCBEpisodes, {**_finite, "privacy": bd.central(rho=1.0)}),
    "Elimination": (bd.policies.Elimination, {**_finite, "privacy": bd.central(epsilon=1.0, delta=0.0)}),
    "LDPUCB": (bd.policies.LDPUCB, {**_finite, "privacy": bd.local(epsilon=1.0, delta=0.0)}),
    "UCBEpisodes.rho": (spending(bd.policies.UCBEpisodes, bd.central, **_finite), {"rho": 1.0}),
    "Elimination.epsilon": (spending(bd.policies.Elimination, bd.central, **_finite), {"epsilon": 1.0, "delta": 0.0}),
    "Elimination.shuffled": (spending(bd.policies.Elimination, bd.shuffle, **_finite), B),
    "LDPUCB.epsilon": (spending(bd.policies.LDPUCB, bd.local, **_finite), {"epsilon": 1.0, "delta": 0.0}),
    "OFUL.rho": (spending(bd.policies.OFUL, bd.central, **_linear), {"rho": 1.0}),
    "OFULJDP.rho": (spending(bd.policies.OFULJDP, bd.central, **_linear), {"rho": 1.0}),
    "GLMJDP.epsilon": (spending(bd.policies.GLMJDP, bd.central, **_glm), B),
    "GLMSDP.epsilon": (spending(bd.policies.GLMSDP, bd.shuffle, **_glm), B),
    "GOPE": (bd.policies.GOPE, {**_linear, "privacy": bd.central(rho=1.0)}),
    "OFUL": (
        bd.policies.OFUL,
        {**_linear, "privacy": bd.central(rho=1.0), "width": 1.0, "ridge": 1.0, "failure": 0.05},
    ),
    "OFULJDP": (bd.policies.OFULJDP, {**_linear, "privacy": bd.central(rho=1.0), "batch": 5, "width": 1.0}),
    "LinTSRewards": (
        bd.policies.LinTSRewards,
        {
            **_linear,
            "privacy": bd.local(**B),
            "public_contexts": True,
            "intercept": True,
            "batch": 5,
            "alpha": 0.5,
            "prior": 1.0,
            "reward_std": 0.5,
        },
    ),
    "LinTSRewards.local": (spending(bd.policies.LinTSRewards, bd.local, **_linear), {**B}),
    "PhasedElimination": (
        bd.policies.PhasedElimination,
        {**_linear, "privacy": bd.central(**B), "alpha": 0.8, "width": 1.0},
    ),
    "GLMUCB": (bd.policies.GLMUCB, _glm),
    "GLOC": (bd.policies.GLOC, _glm),
    "ECOLog": (bd.policies.ECOLog, _glm),
    "RSGLinUCB": (bd.policies.RSGLinUCB, _glm),
    "BGLinUCB": (bd.policies.BGLinUCB, _glm),
    "GLMJDP": (bd.policies.GLMJDP, {**_glm, "privacy": bd.central(**B)}),
    "GLMSDP": (bd.policies.GLMSDP, {**_glm, "privacy": bd.shuffle(**B)}),
    "Anytime": (bd.policies.Anytime, {"first": bd.LinUCB(dim=2, horizon=8, privacy=bd.none())}),
    "simulate": (
        bd.simulate,
        {
            "policy": bd.LinUCB(dim=2, horizon=20, privacy=bd.none()),
            "env": environments.LinearContextual(dim=2, n_arms=3),
            "n_seeds": 1,
            "seed": 0,
            "path": "law",
            "checkpoints": 5,
            "horizon": 10,
        },
    ),
    "sweep": (
        bd.sweep,
        {
            "policy": bd.LinUCB(dim=2, horizon=20, privacy=bd.none()),
            "env": environments.LinearContextual(dim=2, n_arms=3),
            "epsilon": [1.0],
            "delta": 1e-5,
            "privacy": bd.local,
            "n_seeds": 1,
            "seed": 0,
            "path": "law",
            "checkpoints": 5,
            "horizon": 10,
        },
    ),
    "Experiment": (lambda **document: bd.experiments.Experiment.from_dict(document), _experiment),
    "run": (
        partial(bd.experiments.run, executor=InProcessExecutor()),  # of processes each would take seconds
        {"experiment": _experiment, "jobs": 1, "scheduler": None, "resume": False},
    ),
    "plan": (
        bd.plan,
        {**_arms, **B, "users": 20, "trust": "none", "n_seeds": 2, "seed": 0, "fixed": False, "search": True},
    ),
    "LinearContextual": (environments.LinearContextual, {**_arms, "fixed": False, "reward": environments.Bernoulli()}),
    "ArrayEnvironment, means": (environments.ArrayEnvironment, {"arms": ONE, "means": [0.1, 0.2]}),
    "ArrayEnvironment, theta": (environments.ArrayEnvironment, {"arms": ONE, "theta": [0.5, 0.5]}),
    "FiniteArms": (environments.FiniteArms, {"means": [0.1, 0.2]}),
    "DriftingContexts": (environments.DriftingContexts, {**_arms, "horizon": 10, "turns": 1.0}),
    "Population": (environments.Population, {**_arms, "sigma": 0.1}),
    "SphereArms": (environments.SphereArms, _arms),
    "GeneralisedLinear": (environments.GeneralisedLinear, {**_arms, "link": "logistic", "norm": 1.0}),
    "ContinualSum": (
        bd.agent.ContinualSum,
        {"horizon": 8, "privacy": bd.central(**B), "values": bd.device.Box(dim=1), "source": SOURCE},
    ),
    "Agent": (
        bd.Agent,
        {"policy": bd.LinUCB(dim=3, horizon=20, batch=5, privacy=bd.none()), "grace": 0, "test": True, "seed": 0},
    ),
    "Agent.load": (bd.Agent.load, {"path": PLACE}),
    "Ledger": (bd.Ledger, {"budget": BUDGET, "participations": 1, "store": Fresh(bd.privacy.MemoryStore)}),
    "SQLiteStore": (bd.privacy.SQLiteStore, {"path": PLACE}),
    "plot_regret": (bd.plot_regret, {"results": {"a": RESULT}, "path": None, "title": "t", "log": False}),
    "Result.to_csv": (RESULT.to_csv, {"path": PLACE}),
    "Result.load": (bd.simulation.Result.load, {"path": Fresh(saved)}),
    "FastNoise": (bd.device.FastNoise, {"rng": Fresh(lambda: np.random.default_rng(0))}),
}


def counter() -> bd.agent.ContinualSum:
    """A counter that has seen one user."""
    counting = bd.agent.ContinualSum(horizon=8, privacy=bd.central(**B), source=noise())
    counting.update(0.5)
    return counting


def agent() -> bd.Agent:
    """An agent that has made a decision, whose reward is not there yet."""
    made = bd.Agent(policy=bd.LinUCB(dim=3, horizon=20, batch=5, privacy=bd.local(**B)), test=True, seed=0)
    made.act(ROWS, user="somebody")
    return made


def ledger() -> bd.Ledger:
    """A ledger with a release."""
    made = bd.Ledger(budget=bd.privacy.ApproxDP(epsilon=9.0, delta=1e-4), store=bd.privacy.MemoryStore())
    made.release(EVENT, task="t", batch=0, data=ROWS, draw=lambda: 1.0)
    return made


def of_agent(made: bd.Agent) -> Any:
    """All that a decision, a reward or a save could change."""
    slots = {name: np.asarray(value).tolist() for name, value in made._runner.slots.to_columns().items()}
    return (
        made.decisions,
        made.releases,
        made.late,
        made.missing,
        made.clipped,
        slots,
        made._runner.rng.bit_generator.state,
    )


def of_counter(made: bd.agent.ContinualSum) -> Any:
    """How far it is."""
    return made.users, float(made.estimate)


def of_ledger(made: bd.Ledger) -> Any:
    """What was spent, for what."""
    return made.spent(), [(entry.task, entry.batch, entry.fingerprint) for entry in made.store.entries()]


STATEFUL: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str, dict[str, Any]]] = {
    "Agent.act": (agent, of_agent, "act", {"contexts": {"a": [0.0, 0.0, 1.0]}, "user": "a"}),
    "Agent.act_many": (agent, of_agent, "act_many", {"contexts": np.zeros((2, 4, 3)), "users": ["a", "b"]}),
    "Agent.observe": (agent, of_agent, "observe", {"decision_id": "an id", "reward": 1.0}),
    "Agent.recommend": (agent, of_agent, "recommend", {"contexts": ROWS}),
    "Agent.save": (agent, of_agent, "save", {"path": PLACE}),
    "ContinualSum.update": (counter, of_counter, "update", {"value": 0.5}),
    "ContinualSum.run": (counter, of_counter, "run", {"values": [0.5, 0.1], "path": "law"}),
    "Ledger.release": (
        ledger,
        of_ledger,
        "release",
        {
            "event": EVENT,
            "task": "t",
            "batch": 1,
            "data": ROWS,
            "draw": Fresh(lambda: float),
            "members": None,
            "streams": 1,
        },
    ),
}


RANDOMIZERS = (  # of devices: their parameters come from calibrated protocols
    *("BinomialCounts", "CapRandomizer", "Device", "LevelRandomizers", "Messages", "NoisyVector", "PlainVector"),
    *("RandomizedBit", "RandomizedSign", "RepeatedBits", "RoundedCounts", "device_from_parameters"),
)


def filled(good: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Good arguments but for one."""
    made = {each: one.make() if isinstance(one, Fresh) else one for each, one in good.items()}
    return {**made, name: value}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a strange path makes are not here, and no plan takes long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "_NUMBERS", 10**6)  # seconds
    monkeypatch.setattr(plan, "_SEARCH", 10**5)


def test_every_public_name_is_here() -> None:
    held = {name.partition(".")[0] for name in (*CASES, *STATEFUL)}
    bases = {"BandannaError", "Budget", "Domain", "NoiseSource", "LedgerStore", "Policy"}  # nothing to call
    bases |= {"BatchProtocol", "Protocol", "StreamProtocol"}
    parts = {
        "SumQuery",
        "AssignedArms",
        "Choice",
        "FixedLength",
        "PlayedRounds",
        "StoppedByPublicData",
        "LinearPolicy",
        "LinearSums",
        "argmax",
        "stored_as",
    }  # of a policy: code, not input
    simple = {"Bits", "MemoryStore", "SecureNoise", "none"}  # without arguments
    made = {
        "Decision",
        "Estimate",
        "Guarantee",
        "LedgerView",
        "Replay",
        "ResultSet",
        "Results",
        "Statistic",
    }  # by the library
    elsewhere = {"Accountant", "ExplicitPolicy"}  # of events and tables that are checked when they are made
    elsewhere |= {"Log", "replay"}  # of frames, which tests/logs holds to the law
    packages = (bd, bd.agent, bd.data, bd.experiments, bd.policies, bd.privacy, bd.protocols, bd.simulation)
    named = {name: getattr(place, name) for place in (*packages, bd.device) for name in place.__all__}
    callables = {name for name, value in named.items() if callable(value)} - set(RANDOMIZERS)
    assert callables - held <= bases | parts | simple | made | elsewhere


@pytest.mark.filterwarnings("ignore::bandanna.errors.CommunicationWarning")
@pytest.mark.parametrize("name", CASES)
@examples(6, full=25)
@given(data=st.data())
def test_any_input_of_a_function_ends_in_one_line(name: str, data: st.DataObject) -> None:
    act, good = CASES[name]
    argument, value = data.draw(st.sampled_from(sorted(good))), data.draw(VALUES).value
    answers_or_refuses(lambda: act(**filled(good, argument, value)))


@pytest.mark.parametrize("name", STATEFUL)
@examples(10, full=40)
@given(data=st.data())
def test_a_refused_input_changes_nothing(name: str, data: st.DataObject) -> None:
    make, look, method, good = STATEFUL[name]
    owner = make()
    argument, value = data.draw(st.sampled_from(sorted(set(good) - {"draw"}))), data.draw(VALUES).value
    before = look(owner)
    if not answers_or_refuses(lambda: getattr(owner, method)(**filled(good, argument, value))):
        assert look(owner) == before


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::bandanna.errors.CommunicationWarning")
@pytest.mark.parametrize("name", [*CASES, *STATEFUL])
def test_every_value_in_every_place_ends_in_one_line(name: str) -> None:
    act, good = CASES.get(name, (None, None))
    for argument in set(good or STATEFUL[name][3]) - {"draw"}:  # whatever that raises is the caller's
        for value in FIXED:
            call = act or getattr(STATEFUL[name][0](), STATEFUL[name][2])
            answers_or_refuses(lambda: call(**filled(good or STATEFUL[name][3], argument, value)))  # noqa: B023
