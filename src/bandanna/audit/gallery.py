"""The gallery: faults of real privacy software that an audit must refute, and correct code that it must not.

Faulty code states the right price for noise that it does not draw, or uses the right noise wrongly. Known-good rows
together are refuted by chance with probability at most 0.05, as is each known-bad row. Seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna.audit import targets
from bandanna.audit.mechanisms import (
    MECHANISMS,
    PROTOCOLS,
    mechanism_target,
    protocol_target,
    target_from_mechanism,
    target_from_protocol,
)
from bandanna.audit.policies import policy_target, target_from_policy
from bandanna.audit.releases import farthest_points
from bandanna.audit.sampled_bounds import Claim
from bandanna.audit.targets import AuditResult, AuditRow, ProgressCallback, Target, attacked, ignore_progress
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, NoiseSource
from bandanna.experiments.executors import Executor, choose_executor_or_here
from bandanna.mechanisms.noise import GaussianMechanism
from bandanna.numeric import search
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies.base import FixedLength, PlayedRounds, Policy, RunnerState, SumQuery, drive_learning
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPConstants, GLMJDPState
from bandanna.policies.glm.links import Link, link_of
from bandanna.privacy import gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.gaussian import CentralGaussian, NoisySumAnalyzer
from bandanna.protocols.mixers import MixerState, sum_plain_statistics
from bandanna.protocols.privacy_model import Privacy, central
from bandanna.simulation.environments.glm import PublishedGLM
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.types import Bools, Floats

# Laplace noise in floating point


_STEP = 2.0**-53
_AROUND = 8  # uniforms on either side of the one that fits best


def textbook_laplace(value: float, scale: float, runs: int, rng: np.random.Generator) -> Floats:
    """Return value + Laplace(scale), computed as usual in floating point.

        noise = -scale s log(U),     U a multiple of 2^-53 in (0, 1], s a fair sign,     output = fl(value + noise)

    Outputs that only 0 or only 1 can reach reveal the value (Mironov 2012).
    """
    uniform = 1.0 - rng.random(runs)
    return np.asarray(value + np.where(rng.random(runs) < 0.5, 1.0, -1.0) * (-scale * np.log(uniform)))


def is_reachable(outputs: Floats, value: float, scale: float) -> Bools:
    """Return whether some uniform number gives exactly this output from the value, (runs,).

    Only the uniform numbers nearest to the inverse are tried; a missed one is missed under both values.
    """
    noise = outputs - value
    best = np.rint(np.exp(-np.abs(noise) / scale) / _STEP)
    around = best[:, None] + np.arange(-_AROUND, _AROUND + 1)
    uniform = np.clip(around, 1.0, 2.0**53) * _STEP
    again = value + np.sign(noise)[:, None] * (-scale * np.log(uniform))
    return np.asarray(np.any(again == outputs[:, None], axis=1))


def float_laplace() -> Target:
    """Make the target of textbook Laplace noise, which claims pure epsilon = 1."""

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        outputs = textbook_laplace(float(swapped), 1.0, runs, rng)
        from_zero, from_one = is_reachable(outputs, 0.0, 1.0), is_reachable(outputs, 1.0, 1.0)
        return np.asarray(from_zero.astype(float) - from_one.astype(float))[:, None]

    return Target(name="", claim=Claim(epsilon=1.0, delta=0.0), draw=draw)


# The published noise of papers 000 and 003


DIM, HORIZON, BATCH, DELTA = 5, 20_000, 20, 0.1  # of paper 000's figures


def published_std(algorithm: str, epsilon: float, delta: float, *, horizon: int, batch: int) -> float:
    """Return sigma per entry and draw of LinUCB-LDP, -JDP or -SDP-Amp in paper 000's public code."""
    if algorithm == "LinUCB-LDP":
        return math.sqrt(math.log(2.5 / delta)) / epsilon
    if algorithm == "LinUCB-JDP":
        return math.sqrt(math.log(horizon)) * math.log(2.5 / delta) / epsilon
    return math.sqrt(math.log(2.5 * batch / delta)) / (epsilon * math.sqrt(batch))


def calls_as_run(
    *,
    epsilon: float,
    delta: float,
    dim: int,
    horizon: int,
    parameter_bound: float,
    kappa: float,
    link: Link,
    failure: float,
) -> tuple[int, int, float]:
    """Return M1, M2 and lambda as run."""
    r, log = link.reward_bound, math.log(4 * horizon / failure)
    spread = math.log(4 / delta) * log**2 * link.slope_bound / epsilon
    regulariser = 2 * spread + 0.75 * dim * log / r**2
    low, high = regulariser - 1.5 * spread, regulariser + 1.5 * spread
    gamma = r * parameter_bound * math.sqrt(dim * math.log(horizon / failure))
    first = dim * r**2 * kappa * gamma**2 * math.log(horizon) / 20_000
    second = 3 * math.log2(high / low + horizon * link.slope_bound**2 / (low * dim))
    return max(1, math.floor(first)), max(1, math.floor(second)), regulariser


def call_rho(epsilon: float, delta: float, calls: int) -> float:
    """Return the rho of each of `calls` calls that share (epsilon, delta)."""
    if calls <= 10:
        share, tail = epsilon / calls, delta / calls
    else:
        root, tail = math.sqrt(2 * calls * math.log(2 / delta)), delta / (2 * calls)
        share = search.find_greatest(lambda e: root * e + calls * e * math.expm1(e) <= epsilon, 1e-9, epsilon)
    return search.find_greatest(lambda rho: ZCDP(rho=rho).to_approx(tail).epsilon <= share, 1e-12, 50.0, relative=1e-6)


def _farthest_reports() -> Floats:
    """Return two reports of paper 000 that are sqrt 12 apart, stacked isometrically, (2, d + d(d+1)/2).

    They have features (u, 1) and (-u, 1), and rewards of 1 (`reproductions/shuffle_linucb`).
    """
    x = np.zeros((2, DIM))
    x[:, 0], x[:, -1] = (1.0, -1.0), 1.0
    return LinearReport(features=DIM).pack(x, np.ones(2))


def printed_local_noise(epsilon: float) -> Target:
    """Make the target of LinUCB-LDP: noise sqrt(ln(2.5/delta))/epsilon on reports up to sqrt 12 apart."""
    std = published_std("LinUCB-LDP", epsilon, DELTA, horizon=HORIZON, batch=BATCH)
    reports = _farthest_reports()
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        report = reports[int(swapped)] + rng.normal(0.0, std, (runs, len(move)))
        return np.asarray(report @ move[:, None])

    return Target(name="", claim=Claim(epsilon=epsilon, delta=DELTA), draw=draw)


def reused_tree_noise(epsilon: float) -> Target:
    """Make the target of LinUCB-JDP: two consecutive releases with the same draws differ by a bare report."""
    std = published_std("LinUCB-JDP", epsilon, DELTA, horizon=HORIZON, batch=BATCH)
    reports = _farthest_reports()
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        before = rng.normal(0.0, std, (runs, len(move)))  # all other reports are known
        after = before + reports[int(swapped)]
        return np.stack([before @ move, after @ move], axis=-1)

    return Target(name="", claim=Claim(epsilon=epsilon, delta=DELTA), draw=draw)


def printed_amplification(epsilon: float) -> Target:
    """Make the target of LinUCB-SDP-Amp: 20 shuffled reports, scored by the likelihood that one was replaced."""
    std = published_std("LinUCB-SDP-Amp", epsilon, DELTA, horizon=HORIZON, batch=BATCH)
    reports = _farthest_reports()
    length = float(np.linalg.norm(reports[0] - reports[1]))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        # along the line through both reports, which alone distinguishes them
        along = rng.normal(0.0, std, (runs, BATCH))
        along[:, 0] += 0.0 if swapped else length
        return np.asarray(special.logsumexp(along * length / std**2, axis=-1))[:, None]

    return Target(name="", claim=Claim(epsilon=epsilon, delta=DELTA), draw=draw)


def first_fit_target() -> Target:
    """Make the target of paper 003's first fit: its noise covers half of how far a replaced user moves the gradients.

    The fit's share is (epsilon/3, delta/3) at nominal epsilon 8; all steps together have the separation 2 sqrt(2 rho).
    """
    nominal, delta, horizon, norm, link = 8.0, 0.02, 5000, 2.0, "probit"  # Table 2, S = 2
    calls, _, _ = calls_as_run(
        epsilon=nominal,
        delta=delta,
        dim=3,
        horizon=horizon,
        parameter_bound=norm,
        kappa=PublishedGLM(dim=3, n_arms=20, link=link, norm=norm, rounds=horizon).kappa,
        link=link_of(link),
        failure=0.02,
    )
    share, tail = nominal / 3, delta / 3
    separation = 2 * math.sqrt(2 * calls * call_rho(share, tail, calls))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        return rng.normal(0.0 if swapped else separation, 1.0, (runs, 1))

    return Target(name="", claim=Claim(epsilon=share, delta=tail), draw=draw, mu=separation)


# Faults of one field, one seed, some users or some rewards, at epsilon = 1


PARTIAL_BUDGET = ApproxDP(epsilon=1.0, delta=1e-3)
_WORLD = LinearContextual(dim=2, n_arms=3)
_BATCH = 10


class RawVariance(NoisySumAnalyzer):
    """An analyzer with a fault: its variance is the sum without noise."""

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        state, estimate = super().analyze(state, view, source)
        return state, replace(estimate, variance=sum_plain_statistics(view.numbers, self.domain)[0].sum(axis=-1))


class FixedSeed(NoisySumAnalyzer):
    """An analyzer with a fault: its noise generator starts anew with every release."""

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        return super().analyze(state, view, FastNoise(np.random.default_rng(0)))


@dataclass(frozen=True, kw_only=True)
class FaultyServerGaussian(CentralGaussian):
    """A central sum with another analyzer, and a `share` of the stated noise."""

    server: type[NoisySumAnalyzer] = NoisySumAnalyzer
    share: float = 1.0

    @cached_property
    def analyzer(self) -> NoisySumAnalyzer:
        return self.server(domain=self.domain, mechanism=replace(self.mechanism, std=self.share * self.noise_std))


def target_with_server(server: type[NoisySumAnalyzer]) -> Target:
    """Make the target of a protocol with this analyzer."""
    honest = CentralGaussian.calibrate(domain=Ball(dim=2), budget=PARTIAL_BUDGET)
    return target_from_protocol(
        FaultyServerGaussian(domain=honest.domain, noise_std=honest.noise_std, delta=honest.delta, server=server)
    )


@dataclass(frozen=True, kw_only=True)
class HonestBatches(Policy[list[Floats]]):
    """A policy without faults, whose state is a list of released sums."""

    trusts = ("central",)
    privacy: Privacy = central(epsilon=1.0, delta=1e-3)
    horizon: int = 3 * _BATCH

    @cached_property
    def protocol(self) -> CentralGaussian:
        return CentralGaussian.calibrate(domain=LinearReport(features=2), budget=PARTIAL_BUDGET)

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> list[Floats]:
        return []

    def episode(self, state: list[Floats]) -> FixedLength | None:
        return FixedLength.batch(len(state), size=_BATCH, horizon=self.horizon)

    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        shape = contexts.shape[:-2]
        return Choice(actions=np.zeros(shape, dtype=np.int64), probabilities=np.ones(shape))

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        assert played.features is not None
        return LinearReport(features=2).statistic(played.features, played.rewards)

    def learn(self, state: list[Floats], episode: Any) -> Generator[SumQuery, Estimate, list[Floats]]:
        released = yield SumQuery(protocol=self.protocol)
        return [*state, released.total]


def _lengthen_reports(statistic: Statistic, some: Any, times: float) -> Statistic:
    values = np.array(statistic.values)
    values[some] *= times
    return statistic.domain.sealed(values, clipped=statistic.clipped)


class LongInTheMiddle(HonestBatches):
    """A fault: one position has reports 20 times too long; later batches have little noise."""

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        honest = super().report(query, played, coins)
        return _lengthen_reports(honest, _BATCH // 2, 20.0) if len(played.rewards) == _BATCH else honest

    def learn(self, state: list[Floats], episode: Any) -> Generator[SumQuery, Estimate, list[Floats]]:
        stated = self.protocol
        quiet = FaultyServerGaussian(domain=stated.domain, noise_std=stated.noise_std, delta=stated.delta, share=1 / 20)
        released = yield SumQuery(protocol=quiet if state else stated)
        return [*state, released.total]


class LongForSome(HonestBatches):
    """A fault: rewards in [.65, .75] make reports 50 times too long."""

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        some = (played.rewards >= 0.65) & (played.rewards <= 0.75)
        return _lengthen_reports(super().report(query, played, coins), some, 50.0)


class FailsForSome(HonestBatches):
    """A fault: the policy fails if a reward is in [.3, .4]."""

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        if np.any((played.rewards >= 0.3) & (played.rewards <= 0.4)):
            raise ArithmeticError("an unforeseen reward")
        return super().report(query, played, coins)


def batches_target(kind: type[HonestBatches]) -> Target:
    """Make the target of such a policy in a small environment."""
    return target_from_policy(kind(), _WORLD)


# GLM-JDP as printed


_CONSTANTS = GLMJDPConstants(
    share=0.4,
    steps=2,
    calls_o=4,
    calls_tau=4,
    regulariser_v=30.0,
    regulariser_h=30.0,
    ridge=1.0,
    threshold=0.01,
    elimination=9.0,
    bonus=1.0,
)


@dataclass(frozen=True, kw_only=True)
class PrintedGLMJDP(GLMJDP):
    """GLM-JDP as printed: criterion I, which reads a user's raw contexts, has theta_o fitted anew at once.

    Each fit is visible without noise, because devices get another theta.
    """

    def act(self, snapshot: Any, contexts: Floats, coins: Any) -> Any:
        choice = super().act(snapshot, contexts, coins)
        object.__setattr__(self, "fired", bool(choice.groups is not None and choice.groups[-1] == 0))
        return choice

    def refit(self, state: GLMJDPState) -> Generator[SumQuery, Estimate, GLMJDPState]:
        settled = yield from super().refit(state)
        if vars(self).get("fired") and settled.calls_o < self.used.calls_o:
            snapshot = self.matrices(settled.released)[0] / 3  # as if it had outgrown
            settled = yield from super().refit(replace(settled, v_o=snapshot))
        return settled


def count_later_queries(policy: GLMJDP, context: Floats, rng: np.random.Generator) -> int:
    """Return the number of queries after the first round, for a user with this arm."""
    state, desk, asked = policy.init(), RunnerState(), 0
    episode = policy.episode(state)
    assert isinstance(episode, FixedLength)
    contexts = np.tile(context, (1, 2, 1))
    choice = policy.act(policy.publish(state), policy.clip_features(contexts), NoRandomness())
    played = PlayedRounds(rewards=np.ones(1), features=context[None], arms=choice.actions, groups=choice.groups)
    desk = desk.keep(policy.execution.retained_groups, played)

    def answer(query: SumQuery) -> Estimate:
        nonlocal desk, asked
        asked += 1
        statistic = policy.report(query, desk.rows(query, played), NoRandomness())
        desk, estimate = desk.release(query, statistic, FastNoise(rng), path="messages")
        return estimate

    drive_learning(policy.learn(state, episode), answer)
    return asked


def refits_target(kind: type[GLMJDP]) -> Target:
    """Make the target in which the number of later queries reveals the first user's contexts."""
    policy = kind(
        dim=2,
        horizon=20,
        parameter_bound=2.0,
        link="logistic",
        constants=_CONSTANTS,
        privacy=central(epsilon=1.0, delta=1e-3),
    )

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        context = np.array([0.05, 0.0]) if swapped else np.array([1.0, 0.0])
        return np.array([[float(count_later_queries(policy, context, rng))] for _ in range(runs)])

    stated = policy.guarantee
    return Target(name="", claim=Claim(epsilon=stated.epsilon, delta=stated.delta), draw=draw, chunk=256)


# Faults of privacy software


BUDGET = ApproxDP(epsilon=4.0, delta=1e-3)
_USERS = 5


@dataclass(frozen=True, kw_only=True)
class UnderstatedGaussian(GaussianMechanism):
    """A mechanism with a fault: it draws `share` of the noise that it states."""

    share: float = 1.0

    def release(self, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0) -> NDArray[np.float64]:
        exact = self.reals(value)
        return np.asarray(exact + self.share * (super().release(value, source, rest=rest) - exact))


@dataclass(frozen=True, kw_only=True)
class AddOrRemove(Ball):
    """A ball whose sensitivity is its radius: right for leaving a user out, not for replacing one."""

    @property
    def sensitivity(self) -> float:
        return self.bound


def understated_noise(share: float) -> Target:
    """Make the target with less noise than stated."""
    mechanism = UnderstatedGaussian(std=1 / BUDGET.mu(), sensitivity=1.0, share=share)
    return target_from_mechanism(mechanism, epsilon=BUDGET.epsilon, delta=BUDGET.delta)


def forgotten_factor() -> Target:
    """Make the target of a sensitivity without its factor 2."""
    protocol = CentralGaussian.calibrate(domain=AddOrRemove(dim=2), budget=BUDGET)
    honest = replace(protocol, domain=Ball(dim=2))  # the same noise, with what neighbours really are
    return target_from_protocol(honest, epsilon=BUDGET.epsilon, delta=BUDGET.delta)


def _neighbour_sums() -> tuple[CentralGaussian, Floats]:
    """Return a private protocol and a batch's sums under both neighbours, (2, dim)."""
    protocol = CentralGaussian.calibrate(domain=Ball(dim=2), budget=BUDGET)
    return protocol, farthest_points(protocol.domain)


def reused_noise() -> Target:
    """Make the target of two batches with one draw, which their difference cancels."""
    protocol, sums = _neighbour_sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        noise = rng.normal(0.0, protocol.noise_std, (runs, 2))
        return np.concatenate([sums[int(swapped)] + noise, noise], axis=-1)  # the second batch is empty

    return _target(draw)


def renoised_batch() -> Target:
    """Make the target of a batch released twice with fresh noise, as after a crash."""
    protocol, sums = _neighbour_sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        value = np.broadcast_to(sums[int(swapped)], (runs, 2))
        twice = [protocol.mechanism.release(value, FastNoise(rng)) for _ in range(2)]
        return np.concatenate(twice, axis=-1)

    return _target(draw)


def closed_by_answers() -> Target:
    """Make the target of a batch whose length reveals who did not answer."""
    protocol, sums = _neighbour_sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        # the others answer with probability 0.9; the user does under one neighbour only
        others = rng.random((runs, 4 * _USERS)) < 0.9
        others[:, 0] = not swapped
        slots = np.argmax(np.cumsum(others, axis=1) >= _USERS, axis=1) + 1.0  # public: the batch's length
        value = np.broadcast_to(sums[0] * (not swapped), (runs, 2))
        return np.column_stack([protocol.mechanism.release(value, FastNoise(rng)), slots])

    return _target(draw)


def _target(draw: Callable[[bool, int, np.random.Generator], Floats]) -> Target:
    claim = Claim(epsilon=BUDGET.epsilon, delta=BUDGET.delta, mu=gdp.mu(BUDGET.epsilon, BUDGET.delta))
    return Target(name="", claim=claim, draw=draw)


KNOWN_FAULTS: dict[str, Callable[[], Target]] = {
    "half the noise": lambda: understated_noise(0.5),
    "20 % less noise": lambda: understated_noise(0.8),
    "a forgotten factor 2": forgotten_factor,
    "a reused draw": reused_noise,
    "a re-noised batch": renoised_batch,
    "a batch closed by who answered": closed_by_answers,
    "the printed refit rule of GLM-JDP": lambda: refits_target(PrintedGLMJDP),
    "paper 000, LDP, epsilon 1": lambda: printed_local_noise(1.0),
    "paper 000, LDP, epsilon 10": lambda: printed_local_noise(10.0),
    "paper 000, JDP, epsilon 1": lambda: reused_tree_noise(1.0),
    "paper 000, JDP, epsilon 10": lambda: reused_tree_noise(10.0),
    "paper 000, Amp, epsilon 1": lambda: printed_amplification(1.0),
    "paper 000, Amp, epsilon 10": lambda: printed_amplification(10.0),
    "paper 003, the optimiser's noise": first_fit_target,
    "floating-point Laplace": float_laplace,
    "the raw sum in another field": lambda: target_with_server(RawVariance),
    "noise with a fixed seed": lambda: target_with_server(FixedSeed),
    "long rows, less noise later": lambda: batches_target(LongInTheMiddle),
    "long reports for some rewards": lambda: batches_target(LongForSome),
    "an error for some rewards": lambda: batches_target(FailsForSome),
}


# The whole gallery


EPSILON, GALLERY_DELTA = 4.0, 1e-3  # of what is known to be good
ROWS = 90  # at least as many as there are
CONFIDENCES = {"bad": 0.95, "good": 1 - 0.05 / ROWS}
_SLOW = {"the printed refit rule of GLM-JDP": 512}  # runs, where one takes milliseconds
_MANY = {"epsilon 10": 400_000}  # runs, below which no count can show an epsilon of 10


def known_truths() -> dict[str, Callable[[], Target]]:
    """Return the targets that are known to be correct, by name."""
    made: dict[str, Callable[[], Target]] = {}
    for make, names in (
        (mechanism_target, MECHANISMS),
        (protocol_target, PROTOCOLS),
        (policy_target, targets.list_algorithms()),
    ):
        made |= {name: partial(make, name, epsilon=EPSILON, delta=GALLERY_DELTA) for name in names}
    return made


def gallery_targets() -> Iterator[tuple[str, str, Callable[[], Target]]]:
    """Yield (name, known, function that makes the target) of every row, in order."""
    for name, make in KNOWN_FAULTS.items():
        yield name, "bad", make
    for name, make in known_truths().items():
        yield name, "good", make


def trials_for(name: str, trials: int) -> int:
    """Return the number of runs of a row: more to show a large epsilon, fewer for slow ones."""
    if name in _SLOW:
        return min(trials, _SLOW[name])
    return max([trials, *(most for word, most in _MANY.items() if name.endswith(word))])


def run_gallery(
    *,
    trials: int = 20_000,
    seed: int = 0,
    select: Callable[[str, str], bool] = lambda name, known: True,
    jobs: int | None = None,
    executor: str | Executor | None = None,
    scheduler: str | None = None,
    progress: ProgressCallback = ignore_progress,
) -> AuditResult:
    """Audit all targets whose truth is known; `result.surprises` has the rows with a wrong verdict.

    Parameters
    ----------
    trials, seed : int
        The number of runs of a row, and the seed.
    select : callable
        (name, known) -> whether to audit this row.
    jobs, executor, scheduler
        As in `bd.experiments.run`; a row is a task. By default this process.
    progress : callable
        Called with the rows done, all rows, and a name.

    Returns
    -------
    AuditResult
        A row for each target.
    """
    working = choose_executor_or_here(executor, jobs=jobs, scheduler=scheduler)
    todo = [(name, known) for name, known, _ in gallery_targets() if select(name, known)]
    tasks = {each: {"name": each[0], "known": each[1], "trials": trials, "seed": seed} for each in todo}
    rows: dict[tuple[str, str], AuditRow] = {}
    progress(0, len(todo), "")
    with closing(working.call_all(audit_row, tasks)) as ending:
        for each, row in ending:
            rows[each] = row
            progress(len(rows), len(todo), each[0])
    return AuditResult(rows=tuple(rows[each] for each in todo))


def audit_row(*, name: str, known: str, trials: int, seed: int) -> AuditRow:
    """Audit one row, in any process."""
    (make,) = (make for other, truth, make in gallery_targets() if (other, truth) == (name, known))
    target = replace(make(), name=name, known=known)
    return attacked(target, trials=trials_for(name, trials), confidence=CONFIDENCES[known], seed=seed)
