"""What the simulator of GLM-JDP and GLM-SDP really releases about one user, replayed with that user replaced.

A run is recorded; then the same run is made with one user's contexts and reward replaced, every release being forced to
what it was. Between the two only that user may be seen, by no more than the price; and everything that is computed on
the way (refits, points at which gradients are taken, who explores) must be the same, for it may depend on releases
only. All prices are taken from the noise that is drawn, never from what the policy says of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.numeric.rng import Streams
from bandanna.policies.base import SumQuery
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPConstants
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.optimisers import NoisyGradient
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import finite_mu
from bandanna.privacy.events import CompositionEvent, RecordEvent
from bandanna.protocols.privacy_model import central, shuffle
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.recorded import ArrayEnvironment

ROUNDS, BATCHED, ARMS, DIM, USER = 300, 400, 3, 3, 0  # the first user is in every release
BUDGET = ApproxDP(epsilon=4.0, delta=1e-3)
BUSY = GLMJDPConstants(
    share=0.4,
    steps=3,
    calls_o=2,
    calls_tau=3,
    regulariser_v=12.0,
    regulariser_h=0.5,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)


class Certain:
    """Rewards that are their means."""

    binary = False

    def draw(self, means: np.ndarray, streams: Streams) -> np.ndarray:
        """No randomness."""
        return np.array(means)


def world(arm: np.ndarray, reward: float, *, user: int = USER, rounds: int = ROUNDS) -> ArrayEnvironment:
    """The same users but for one, who has one arm only and a reward of his own."""
    rng = np.random.default_rng(7)
    arms = rng.normal(size=(rounds, ARMS, DIM))
    arms *= (rng.random((rounds, ARMS)) ** 0.3 / np.linalg.norm(arms, axis=-1))[..., None]
    means = np.round(rng.random((rounds, ARMS)))
    arms[user], means[user] = arm, reward
    return ArrayEnvironment(arms=arms, means=means, reward=Certain())


@dataclass
class Record:
    """What was released, and where: values before noise, their noise's std, outputs; leaves; points of gradients."""

    kinds: list[str] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    stds: list[float] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    leaves: list[np.ndarray] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)

    def noise(self, kind: str) -> np.ndarray:
        """Of all releases of a kind, in units of its stated std."""
        rows = zip(self.kinds, self.values, self.stds, self.outputs, strict=True)
        return np.concatenate([((out - value) / std).ravel() for k, value, std, out in rows if k == kind])

    def squares(self, kind: str, other: Record) -> float:
        """sum |difference|^2 / std^2 over the releases of a kind: mu^2 of what tells this run from another."""
        return float(sum(
            np.sum((value - theirs) ** 2) / std**2
            for k, value, theirs, std in zip(self.kinds, self.values, other.values, self.stds, strict=True)
            if k == kind
        ))  # fmt: skip


def played(policy: GLMJDP, env: ArrayEnvironment, replay: Record | None = None) -> Record:
    """One run along every step of its mechanisms, recorded; with `replay` its releases are those of another run."""
    record, now = Record(), ["matrix"]

    def spied(original: Callable[..., np.ndarray], named: bool) -> Callable[..., np.ndarray]:
        def gaussian(self: object, value: np.ndarray, *, std: float, grid: float) -> np.ndarray:
            place = len(record.values)
            output = original(self, value, std=std, grid=grid)
            output = output if replay is None else replay.outputs[place]
            for name, new in (("kinds", now[0] if named else "matrix"), ("values", np.array(value)), ("stds", std)):
                getattr(record, name).append(new)
            record.outputs.append(output)
            return output

        return gaussian

    step, report = ContinualGaussian.step, GLMJDP.report

    def stepped(self: ContinualGaussian, state: Any, value: np.ndarray, source: Any, **named: Any) -> Any:
        record.leaves.append(np.array(value))
        return step(self, state, value, source, **named)

    def reported(self: GLMJDP, ask: SumQuery, *rest: Any) -> Any:
        if ask.of != "episode":
            record.points.append(np.array(ask.at))
            now[0] = {"explored": "o", "rest": "tau"}[ask.of]
        return report(self, ask, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplicatedNoise, "gaussian", spied(ReplicatedNoise.gaussian, named=False))
        patch.setattr(FastNoise, "gaussian", spied(FastNoise.gaussian, named=True))
        patch.setattr(ContinualGaussian, "step", stepped)
        patch.setattr(GLMJDP, "report", reported)
        simulate(policy, env, n_seeds=1, path="messages")
    return record


@pytest.fixture(scope="module", params=[True, False], ids=["newton", "lemma"])
def policy(request: pytest.FixtureRequest) -> GLMJDP:
    """Both budgets of calls are used up within the rounds; with the steps of either kind."""
    return GLMJDP(
        dim=DIM,
        horizon=ROUNDS,
        link="logistic",
        parameter_bound=2.0,
        kappa=9.0,
        privacy=central(budget=BUDGET),
        constants=replace(BUSY, newton=request.param),
    )


FAR, NEAR = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.1, 0.0])
LIVES = {
    "explored in both": (FAR, np.array([1.0, 0.0, 0.0])),
    "explored in neither": (NEAR, np.array([0.1, 0.0, 0.0])),
    "explored in one": (FAR, NEAR),
}


@pytest.fixture(scope="module")
def far(policy: GLMJDP) -> Record:
    """Somebody far from all others, whom several tests compare with others."""
    return played(policy, world(FAR, 1.0))


@pytest.mark.often(of=lambda policy, life: life == "explored in one" or (policy and life == "explored in both"))
@pytest.mark.parametrize("life", list(LIVES))
def test_only_the_replaced_user_can_be_seen_and_by_no_more_than_the_price(
    policy: GLMJDP, far: Record, life: str
) -> None:
    ours, theirs = LIVES[life]
    first = far if ours is FAR else played(policy, world(ours, 1.0))
    second = played(policy, world(theirs, 0.0), replay=first)
    assert first.kinds == second.kinds  # refits at the same times, of the same kinds
    np.testing.assert_array_equal(first.points, second.points)  # from the same points
    changed = [t for t, (a, b) in enumerate(zip(first.leaves, second.leaves, strict=True)) if np.any(a != b)]
    assert changed == [USER]
    explored = [bool(np.any(record.leaves[USER][:, : DIM * (DIM + 1) // 2])) for record in (first, second)]
    assert explored == [life != "explored in neither", life == "explored in both"]
    o, tau = first.squares("o", second), first.squares("tau", second)
    assert (o > 0, tau > 0) == (life != "explored in neither", life != "explored in both")
    assert first.squares("matrix", second) + o + tau <= finite_mu(BUDGET) ** 2


def test_the_noise_that_is_drawn_costs_the_budget(policy: GLMJDP, far: Record) -> None:
    """The noise of all steps of all refits would cost more than is stated, as 20 % less of it does; or be used twice.

    Worst cases from first principles: estimates do not share users; a leaf moves by 1, where one of two weights is 0,
    beside a logistic gradient by 2, or by sqrt(2 - 2 c^2) beside sqrt(2 + 2 c), c the cosine of two features.
    """
    record = far
    counts = {kind: record.kinds.count(kind) for kind in ("matrix", "o", "tau")}
    assert counts == {"matrix": ROUNDS, "o": 2 * 3, "tau": 3 * 3}
    price = {
        kind: [1 / std**2 for k, std in zip(record.kinds, record.stds, strict=True) if k == kind] for kind in counts
    }
    assert len(set(price["matrix"])) == 1
    matrix = policy.mechanisms.matrices.factorisation.sensitivity() ** 2 * price["matrix"][0]
    cosines = np.linspace(0, 1, 1001)
    for kind in ("o", "tau"):
        gradients = sum(price[kind])
        joined = np.max(matrix * (2 - 2 * cosines**2) + gradients * (2 + 2 * cosines))
        assert max(joined, matrix + 4 * gradients) == pytest.approx(finite_mu(BUDGET) ** 2, rel=1e-3)
        noise = record.noise(kind)
        assert len(np.unique(noise)) == len(noise)
    assert abs(float(np.std(record.noise("matrix"))) - 1) < 5 / np.sqrt(2 * ROUNDS * DIM * (DIM + 1))


def test_noise_of_refits_has_its_stated_spread(policy: GLMJDP) -> None:
    drawn: list[np.ndarray] = []
    original = FastNoise.gaussian

    def gaussian(self: FastNoise, value: np.ndarray, *, std: float, grid: float) -> np.ndarray:
        output = original(self, value, std=std, grid=grid)
        drawn.append((output - value) / std)
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastNoise, "gaussian", gaussian)
        simulate(policy, world(FAR, 1.0), n_seeds=15)
    noise = np.concatenate(drawn)
    assert len(noise) == 15 * 15 * DIM
    assert len(np.unique(noise)) == len(noise)
    assert abs(float(np.std(noise)) - 1) < 0.1


def batches(policy: GLMSDP, env: ArrayEnvironment, replay: list[Any] | None = None, **rounds: int) -> list[Any]:
    """All shuffled sums of a run: (protocol, statistics, estimate); with `replay` the estimates of another run."""
    seen: list[Any] = []
    original = ShuffleBinomial.release

    def release(self: ShuffleBinomial, statistic: Any, source: Any, **named: Any) -> Estimate:
        estimate = original(self, statistic, source, **named)
        estimate = estimate if replay is None else replay[len(seen)][2]
        seen.append((self, np.array(statistic.values), estimate))
        return estimate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShuffleBinomial, "release", release)
        simulate(policy, env, n_seeds=1, **rounds)
    return seen


SHUFFLED = GLMSDP(
    dim=DIM, horizon=BATCHED, parameter_bound=2.0, privacy=shuffle(epsilon=1.0, delta=1e-5), warmup=60, steps=3
)


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_user_is_in_the_sums_of_one_batch_and_they_cost_the_budget(batch: int) -> None:
    sizes = SHUFFLED.sizes
    assert len(sizes) == 4
    begin, per = sum(sizes[:batch]), SHUFFLED.steps + 1
    first = batches(SHUFFLED, world(FAR, 1.0, user=begin + 2, rounds=BATCHED))
    second = batches(SHUFFLED, world(np.array([1.0, 0.0, 0.0]), 0.0, user=begin + 2, rounds=BATCHED), replay=first)
    assert len(first) == len(second) == per * (len(sizes) - 1)
    for place, ((protocol, ours, _), (other, theirs, _)) in enumerate(zip(first, second, strict=True)):
        assert protocol == other
        assert protocol.noise.users == ours.shape[-2] == sizes[place // per]
        moved = np.flatnonzero(np.any(ours != theirs, axis=-1))
        assert moved.tolist() == ([2] if place // per == batch else [])
        assert np.linalg.norm(ours - theirs) <= protocol.domain.sensitivity
    parts = ("weighted", *("vector",) * SHUFFLED.steps)
    paid = CompositionEvent(events=tuple(
        RecordEvent(event=one.event, part=part)
        for part, (one, *_) in zip(parts, first[per * batch : per * (batch + 1)], strict=True)
    ))  # fmt: skip
    assert accountant.satisfies(paid, SHUFFLED.privacy.budget)
    assert accountant.epsilon(paid, 1e-5) > 0.98
    limits = {DIM: 2.0, DIM * (DIM + 1) // 2: np.sqrt(2) * (1.0 if batch == 0 else 0.25)}
    for protocol, *_ in first[per * batch : per * (batch + 1)]:  # priced for what a user can do at worst
        assert protocol.event.shift == pytest.approx(protocol.noise.scale * limits[protocol.domain.dim])


def test_batches_that_are_not_complete_are_not_released() -> None:
    sizes, per = SHUFFLED.sizes, SHUFFLED.steps + 1
    env = world(FAR, 1.0, rounds=BATCHED)
    assert len(batches(SHUFFLED, env, horizon=sizes[0] - 1)) == 0
    assert len(batches(SHUFFLED, env, horizon=sizes[0] + sizes[1] - 1)) == per
    assert len(batches(SHUFFLED, env, horizon=sizes[0] + sizes[1])) == 2 * per


def test_steps_of_both_optimisers_are_as_many_as_are_priced() -> None:
    optimiser = NoisyGradient.priced(link=SHUFFLED.model, dim=2, parameter_bound=1.0, steps=5, mu=1.0)
    calls: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        original = FastNoise.gaussian
        patch.setattr(
            FastNoise, "gaussian", lambda self, value, **kw: calls.append(kw["std"]) or original(self, value, **kw)
        )
        for matrix in (None, np.eye(2)):
            source = FastNoise(np.random.default_rng(0))
            optimiser.minimise(np.zeros((4, 2)), np.zeros(4), source, count=4, ridge=1.0, matrix=matrix)
    assert calls == [optimiser.std] * 10
    assert replace(optimiser, calls=2).event.times == 10
