"""What reaches an observer beside the noise is found: raw sums, reports of who is missing, runs that cannot go on."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna import environments
from bandanna.audit.mechanisms import PROTOCOLS, target_from_protocol
from bandanna.audit.releases import ReleasePair
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.device.randomizers import NoisyVector
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.privacy import gdp
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, NoisySumAnalyzer
from bandanna.protocols.mixers import sum_plain_statistics
from bandanna.types import Floats, Ints

BUDGET = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-3)


class Discarding(NoisySumAnalyzer):
    """Noise is drawn, and the raw sum released."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        state, estimate = super().analyze(state, view, source)
        return state, replace(estimate, total=sum_plain_statistics(view.numbers, self.domain)[0])


class Adding(NoisySumAnalyzer):
    """Noise is drawn around 0, and a part of it added: the spied values do not move at all."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        total = sum_plain_statistics(view.numbers, self.domain)[0]
        noise = source.gaussian(np.zeros_like(total), std=self.mechanism.std, grid=0.0)
        return state, Estimate(total=total + noise / 10, count=view.users, variance=self.mechanism.variance)


def central(kind: type[NoisySumAnalyzer]) -> CentralGaussian:
    @dataclass(frozen=True, kw_only=True)
    class Central(CentralGaussian):
        @cached_property
        def analyzer(self) -> NoisySumAnalyzer:
            return kind(domain=self.domain, mechanism=self.mechanism)

    return Central.calibrate(domain=Ball(dim=2), budget=BUDGET)


@dataclass(frozen=True, kw_only=True)
class Bare(NoisyVector):
    """A device that draws noise and sends its statistic."""

    def encode(self, values: Floats, source: Any) -> Any:
        super().encode(values, source)
        return values


@dataclass(frozen=True, kw_only=True)
class Local(LocalGaussian):
    @cached_property
    def device(self) -> NoisyVector:
        return Bare(**vars(super().device))


class Raw(ContinualGaussian):
    def step(self, state: Any, value: Any, source: Any) -> Any:
        return super().step(state, value, source)[0], np.asarray(value)


def raw_stream() -> Raw:
    factors = factorise("tree", horizon=8)
    return Raw(factorisation=factors, std=factors.sensitivity() / gdp.mu(1.0, 1e-5), sensitivity=1.0)


FAULTS = {
    "a server that discards its noise": lambda: central(Discarding),
    "a server that adds a tenth of its noise": lambda: central(Adding),
    "a device that discards its noise": lambda: Local.calibrate(domain=Ball(dim=2), budget=BUDGET),
    "a stream that shows its elements": raw_stream,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_values_shown_beside_the_noise_are_found(fault: str) -> None:
    assert bd.audit.audit(FAULTS[fault](), trials=4000).rows[0].verdict == "refuted"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_show_nothing_beside_their_noise(name: str) -> None:
    target = target_from_protocol(PROTOCOLS[name](1.0, 1e-5), name=name)
    assert target.draw is not None
    release: ReleasePair = target.draw.__self__.releases[0]  # type: ignore[attr-defined]
    assert not release.beside
    assert (target.mu is not None) == (name in ("central_gaussian", "central_continual", "local_gaussian"))


@bd.stored_as("SumsOfTwenty")
@dataclass(frozen=True, kw_only=True)
class Sums:
    total: Floats
    batches: int = 0


@bd.stored_as("GreedyOfTwenty")
@dataclass(frozen=True, kw_only=True)
class Greedy(bd.Policy[Sums]):
    trusts = ("central",)
    privacy: bd.protocols.Privacy = bd.central(epsilon=1.0, delta=1e-3)
    dim: int = 3
    horizon: int = 60

    @cached_property
    def protocol(self) -> Any:
        return bd.protocols.protocol_for(self.privacy, bd.device.LinearReport(features=self.dim), 20)

    @property
    def guarantee(self) -> bd.Guarantee:
        return self.protocol.guarantee  # type: ignore[no-any-return]

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> Sums:
        return Sums(total=np.zeros((*replicates, self.protocol.domain.dim)))

    def episode(self, state: Sums) -> Any:
        return bd.policies.FixedLength.batch(state.batches, size=20, horizon=self.horizon)

    def publish(self, state: Sums) -> Floats:
        vector, matrix = self.protocol.domain.unpack(state.total)
        return np.asarray(np.linalg.solve(matrix + 100 * np.eye(self.dim), vector[..., None])[..., 0])

    def best(self, snapshot: Floats, contexts: Floats) -> Ints:
        return np.argmax(contexts @ snapshot, axis=-1)

    def act(self, snapshot: Floats, contexts: Floats, coins: Any) -> Any:
        arms = self.best(snapshot, contexts)
        return bd.device.Choice(actions=arms, probabilities=np.ones(arms.shape))

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        return self.protocol.domain.statistic(played.features, played.rewards)  # type: ignore[no-any-return]

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Sums]:
        released = yield bd.policies.SumQuery(protocol=self.protocol)
        return Sums(total=state.total + released.total, batches=state.batches + 1)


@bd.stored_as("DroppingPolicy")
class Dropping(Greedy):
    """Only those report who were rewarded: how many they are is told with the answer."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        some = played.rewards > 0
        return self.protocol.domain.statistic(played.features[some], played.rewards[some])  # type: ignore[no-any-return]


@bd.stored_as("EndingPolicy")
class Ending(Greedy):
    """Stops when somebody's raw reward is below all others: no answer has told it that."""

    def episode(self, state: Sums) -> Any:
        return None if state.batches and min(SEEN) < -1 else super().episode(state)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> Sums:
        SEEN[:] = [0.0]
        return super().init(arms, replicates)

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        SEEN.append(float(played.rewards.min()))
        return super().report(query, played, coins)


@bd.stored_as("ShortPolicy")
class Short(Greedy):
    """Says nothing of the last third of its rounds."""

    def episode(self, state: Sums) -> Any:
        return None if state.batches == 2 else super().episode(state)


SEEN = [0.0]
WORLD = environments.LinearContextual(dim=3, n_arms=4)


def test_a_policy_without_a_fault_is_consistent() -> None:
    assert bd.audit.audit(Greedy(), env=WORLD, trials=2000).rows[0].verdict == "consistent"


def test_every_user_of_a_batch_reports() -> None:
    policy = Dropping()
    for run in (
        lambda: bd.simulate(policy, WORLD, n_seeds=1, path="messages"),
        lambda: bd.audit.audit(policy, env=WORLD, trials=2000),
    ):
        with pytest.raises(InvalidStatistic, match="20, one for each user"):
            run()
    with pytest.raises(InvalidStatistic, match="20, one for each user"):
        lived(bd.Agent(policy=policy, test=True, seed=0))


def lived(agent: Any) -> None:
    """Two batches, of people who are rewarded every other time."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        agent.observe(agent.act(rng.normal(size=(4, 3)) / 4), float(rng.random() < 0.5))


def test_a_run_that_ends_for_one_reward_is_a_refutation() -> None:
    (row,) = bd.audit.audit(Ending(), env=WORLD, trials=2000).rows
    assert row.refuted
    assert "whether the run goes on" in str(row)


def test_a_policy_that_ends_before_its_rounds_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"Short.episode\(state\) must be .*20 of 60 rounds"):
        bd.simulate(Short(), WORLD, n_seeds=1)


def test_the_separation_of_a_central_sum_is_its_sensitivity_over_its_std() -> None:
    protocol = CentralGaussian.calibrate(domain=Ball(dim=2), budget=BUDGET)
    target = target_from_protocol(protocol)
    assert target.mu == pytest.approx(2 / protocol.noise_std)
    assert math.isclose(target.mu, gdp.mu(1.0, 1e-3), rel_tol=1e-4)  # type: ignore[arg-type]


@bd.stored_as("LoudPolicy")
class Loud(Greedy):
    """The second batch has a tenth of the noise."""

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Sums]:
        quiet = replace(self.protocol, noise_std=self.protocol.noise_std / (10 if state.batches == 1 else 1))
        released = yield bd.policies.SumQuery(protocol=quiet)
        return Sums(total=state.total + released.total, batches=state.batches + 1)


@bd.stored_as("KeepingPolicy")
class Keeping(Greedy):
    """The state keeps the raw reward of a batch's last user."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        SEEN.append(float(played.rewards[-1]))
        return super().report(query, played, coins)

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Sums]:
        learned = yield from super().learn(state, episode)
        return replace(learned, total=learned.total + 1e-6 * np.clip(SEEN[-1], 0, 1))


@pytest.mark.parametrize("policy", [Loud(), Keeping()], ids=["a later batch", "the last user"])
def test_a_fault_that_spares_the_first_user_is_found(policy: Greedy) -> None:
    assert bd.audit.audit(policy, env=WORLD, trials=2000).rows[0].refuted
