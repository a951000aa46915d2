"""Cases for the browser client with what Python makes of them: acting, devices and tells, with recorded entropy."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.action_selection import ActionSelector, OptimisticSelector, ThompsonSelector
from bandanna.device.base import Device, to_plain_value
from bandanna.device.domain import Ball, Bits, Domain
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport, RegressionReport
from bandanna.device.noise import SecureNoise, Size, to_shape
from bandanna.device.randomizers import (
    BinomialCounts,
    LevelRandomizers,
    PlainVector,
    RandomizedBit,
    RandomizedSign,
    RepeatedBits,
    RoundedCounts,
)
from bandanna.device.samplers import draw_binomials
from bandanna.device.statistics import (
    PublicStatistic,
    RegressionStatistic,
    ReportStatistic,
    RewardStatistic,
    WeightedStatistic,
)
from bandanna.numeric.rng import DeviceRandomness, SecureRandomness
from bandanna.policies.linear.lints import Posterior
from bandanna.policies.linear.linucb import OptimisticSnapshot
from bandanna.policies.registry import make_encoding
from bandanna.types import Floats, Ints

ARMS, DIM = 4, 3
REPORTS: tuple[RegressionReport, ...] = (
    LinearReport(features=DIM),
    LinearReport(features=8, reward_bound=0.5),
    LinearReport(features=DIM, isometric=False),
    InterceptReport(features=DIM + 1),
    PerArmReport(features=DIM, n_arms=ARMS),
)
HALF = Ball(dim=DIM + 1, bound=0.5)
DOMAINS: tuple[Domain, ...] = (*REPORTS, HALF, Bits())
CHOOSERS: tuple[ActionSelector, ...] = (
    *(ThompsonSelector(domain=domain) for domain in REPORTS),
    OptimisticSelector(domain=LinearReport(features=DIM)),
    OptimisticSelector(domain=LinearReport(features=8), ties="first"),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    given: dict[str, Any]
    expected: dict[str, Any]


def devices_of(domain: Domain) -> Iterator[Device]:
    """All that a light client has for statistics of a domain."""
    yield BinomialCounts(domain=domain, scale=7.3, trials=601)
    yield BinomialCounts(domain=domain, scale=100.0, trials=40, probability=0.3)
    yield RoundedCounts(domain=domain, scale=12.0)
    yield PlainVector(domain=domain)
    levels = BinomialCounts(domain=domain, scale=3.0, trials=90), BinomialCounts(domain=domain, scale=5.0, trials=17)
    yield LevelRandomizers(domain=domain, levels=levels)
    if isinstance(domain, Ball):
        yield RandomizedSign(domain=domain, lie=0.27)
    if isinstance(domain, Bits):
        yield RepeatedBits(copies=3, trials=25)
        yield RandomizedBit(lie=0.3)


def acting(chooser: ActionSelector, words: Words, rng: np.random.Generator, kind: str, number: int) -> Case:
    snapshot, contexts = _snapshot(chooser, rng, kind), _contexts(chooser.domain, rng, kind)
    action = int(chooser.act(snapshot, contexts[None], RecordedCoins(words)).actions[0])
    given = {"what": "act", "choose": to_plain_value(chooser), "snapshot": make_encoding().dumps(snapshot),
             "contexts": contexts.tolist(), "words": words.taken()}  # fmt: skip
    features = chooser.clip_features(contexts[None])[0, action].tolist()
    return Case(given=given, expected={"action": action, "features": features})


def protecting(device: Device, words: Words, rng: np.random.Generator, number: int) -> Case:
    """A message about a point of the domain, every tenth about nothing."""
    zero = number % 10 == 0
    drawn = rng.normal(size=(1, device.domain.dim)) * rng.choice([0.1, 1.0, 10.0])
    statistic = device.domain.nothing if zero else device.domain.admit(drawn)
    message = device.message(statistic, RecordedNoise(words))[0]
    values = None if zero else statistic.values[0].tolist()
    given = {"what": "encode", "device": device.parameters, "values": values, "words": words.taken()}
    return Case(given=given, expected={"message": [str(each) for each in message.tolist()]})


def tells() -> Iterator[tuple[ReportStatistic, Device, int]]:
    for domain in REPORTS:
        for device in (BinomialCounts(domain=domain, scale=9.0, trials=333), RoundedCounts(domain=domain, scale=50.0)):
            yield RegressionStatistic(centre=0.5 if domain.reward_bound == 0.5 else 0.0), device, domain.features
    yield RewardStatistic(low=0.0, high=1.0), RepeatedBits(copies=2, trials=30), DIM
    yield RewardStatistic(low=-1.0, high=2.0), RandomizedBit(lie=0.2), DIM
    for seen in (LinearReport(features=DIM + 1), InterceptReport(features=DIM + 1)):
        weights = tuple(0.9 - 0.1 * k for k in range(DIM + 1))
        yield WeightedStatistic(seen=seen, weights=weights, bits=True), RandomizedSign(domain=HALF, lie=0.3), DIM + 1
        yield (
            WeightedStatistic(seen=seen, weights=weights, bits=False),
            BinomialCounts(domain=HALF, scale=20.0, trials=64),
            DIM + 1,
        )
        yield PublicStatistic(seen=seen, scale=0.5), PlainVector(domain=LinearReport(features=DIM + 1)), DIM + 1


def telling(
    tell: ReportStatistic, device: Device, dim: int, words: Words, rng: np.random.Generator, number: int
) -> Case:
    features = rng.normal(size=dim) * rng.choice([0.2, 0.5, 3.0])
    if isinstance(getattr(tell, "seen", device.domain), InterceptReport):
        features[-1] = rng.choice([1.0, 0.3])
    arm, reward = int(rng.integers(ARMS)), float(rng.choice([0.0, 1.0, rng.random(), 1.7, -0.2]))
    coins, source = RecordedCoins(words), RecordedNoise(words)
    statistic = tell.statistic(device.domain, features[None], np.array([reward]), np.array([arm]), coins)
    message = device.message(statistic, source)[0]
    given = {"what": "tell", "tell": to_plain_value(tell), "device": device.parameters, "features": features.tolist(),
             "action": arm, "reward": reward, "words": words.taken()}  # fmt: skip
    expected = {"values": statistic.values[0].tolist(), "message": [str(each) for each in message.tolist()]}
    return Case(given=given, expected=expected)


def _snapshot(chooser: ActionSelector, rng: np.random.Generator, kind: str) -> Any:
    domain = chooser.domain
    explore = {"explore": 0.4, "any arm": 1.0}.get(kind, 0.0)
    own = isinstance(domain, PerArmReport)
    d = domain.features + own
    lead: tuple[int, ...] = (ARMS,) if own else ()
    theta, root = rng.normal(size=(*lead, d)), rng.normal(size=(*lead, d, d))
    if kind == "ties":
        theta, root = np.zeros_like(theta), np.zeros_like(root)
    if isinstance(chooser, OptimisticSelector):
        return OptimisticSnapshot(
            theta=theta, inverse=root @ root.T + np.eye(d), radius=float(rng.random()), explore=explore
        )
    return Posterior(theta=theta, root=root, explore=explore)


def _contexts(domain: RegressionReport, rng: np.random.Generator, kind: str) -> Floats:
    size = rng.choice([0.1, 0.5, 5.0])
    contexts = rng.normal(size=(ARMS, domain.features)) * size
    if kind == "ties":
        contexts[rng.integers(ARMS) :] = contexts[0] * rng.choice([1.0, 1 + 1e-12])
    if isinstance(domain, PerArmReport):
        contexts[:] = contexts[0]  # of the user
    if isinstance(domain, InterceptReport):
        contexts[:, -1] = rng.choice([1.0, 0.25])
    return contexts


# Recorded entropy: noise and coins from words that are written down, so that another program can draw the same


class Words:
    """Random words of a seed, and all that were drawn."""

    def __init__(self, seed: int) -> None:
        self._generator, self._drawn = np.random.default_rng(seed), bytearray()

    def __call__(self, wanted: tuple[int, ...]) -> NDArray[np.uint64]:
        words = self._generator.integers(0, 2**64, math.prod(wanted), dtype=np.uint64).astype("<u8")
        self._drawn += words.tobytes()
        return words.reshape(wanted)

    def uniform(self, wanted: tuple[int, ...]) -> Floats:
        return np.asarray((self(wanted) >> np.uint64(11)) * 2.0**-53)

    def taken(self) -> str:
        """What was drawn since the last time, in base64."""
        drawn, self._drawn = self._drawn, bytearray()
        return base64.b64encode(drawn).decode("ascii")


class RecordedNoise(SecureNoise):
    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        wanted = to_shape(size)
        return draw_binomials(trials, Fraction(probability), math.prod(wanted), self._words).reshape(wanted)

    def uniform(self, size: Size) -> Floats:
        return self._words.uniform(to_shape(size))


class RecordedCoins(SecureRandomness):
    def __init__(self, words: Words) -> None:
        self._words = words

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return self._words.uniform(shape)

    def below(self, counts: Ints) -> Ints:
        return DeviceRandomness.below(self, counts)


# The browser client in Node: cases in, answers out. Built by `make client`


ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients" / "js"
BUILT = CLIENT / "dist" / "bandanna.mjs"


def node(script: str, given: Any = None, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> str:
    """What a script of clients/js/test writes when it is given JSON; it must end well and complain about nothing.

    before, after: arguments of Node, and of the script.
    """
    command = [_node(), "--disable-warning=ExperimentalWarning", *before, str(CLIENT / "test" / script), *after]
    made = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
    assert not made.stderr
    return made.stdout


def answers(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of clients/js/test/vectors.mjs, one for each case."""
    answered: list[dict[str, Any]] = json.loads(node("vectors.mjs", cases))
    assert len(answered) == len(cases)
    return answered


def _node() -> str:
    found = shutil.which("node")
    if found is None:
        return str(_missing("Node.js", "make test-browser installs it, or: apt install nodejs npm"))
    return found if BUILT.exists() else str(_missing("the browser client", "make client"))


def _missing(what: str, command: str) -> None:
    said = f"{what} is not installed: {command}"
    if os.environ.get("BANDANNA_BROWSER") == "required":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
