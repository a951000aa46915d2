"""Faults of one field, one seed, some people or some rewards: whoever looks at one person's total alone misses them.

Each of them states the price of the noise that its protocol was calibrated for, epsilon = 1.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.audit.policies import of_policy
from bandanna.audit.protocols import of_protocol
from bandanna.audit.targets import Target
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.domain import Ball, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.report import LinearReport
from bandanna.device.choice import Choice
from bandanna.device.noise import NoiseSource
from bandanna.environments import LinearContextual
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Frozen, Played, Policy
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.central_gaussian.analyzer import NoisySum
from bandanna.protocols.roles import Held, exact_total
from bandanna.protocols.trust import Privacy, central

BUDGET = ApproxDP(epsilon=1.0, delta=1e-3)
_WORLD = LinearContextual(dim=2, n_arms=3)
_BATCH = 10


class RawVariance(NoisySum):
    """Shows the sum without noise where the variance belongs."""

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """As usual, but for the variance."""
        state, estimate = super().analyze(state, view, source)
        return state, replace(estimate, variance=exact_total(view.numbers, self.domain)[0].sum(axis=-1))


class FixedSeed(NoisySum):
    """Draws the right noise from a generator that begins anew with every release."""

    def analyze(self, state: None, view: Held, source: NoiseSource) -> tuple[None, Estimate]:
        """As usual, from a source of its own."""
        return super().analyze(state, view, FastNoise(np.random.default_rng(0)))


@dataclass(frozen=True, kw_only=True)
class Served(CentralGaussian):
    """A central sum by another server, with a `share` of the noise that is stated."""

    server: type[NoisySum] = NoisySum
    share: float = 1.0

    @cached_property
    def analyzer(self) -> NoisySum:
        """The other server."""
        return self.server(domain=self.domain, mechanism=replace(self.mechanism, std=self.share * self.noise_std))


def served(server: type[NoisySum]) -> Target:
    """A protocol with such a server."""
    honest = CentralGaussian.calibrate(domain=Ball(dim=2), budget=BUDGET)
    return of_protocol(Served(domain=honest.domain, noise_std=honest.noise_std, delta=honest.delta, server=server))


@dataclass(frozen=True, kw_only=True)
class Batches(Policy[list[Floats]]):
    """An honest policy: the state is a list of released sums, and the first arm is as good as any."""

    trusts = ("central",)
    privacy: Privacy = central(epsilon=1.0, delta=1e-3)
    horizon: int = 3 * _BATCH

    @cached_property
    def protocol(self) -> CentralGaussian:
        """Of a batch."""
        return CentralGaussian.calibrate(domain=LinearReport(features=2), budget=BUDGET)

    @property
    def guarantee(self) -> Guarantee:
        """Of one batch: a person is in one."""
        return self.protocol.guarantee

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> list[Floats]:
        """Nothing."""
        return []

    def episode(self, state: list[Floats]) -> Frozen | None:
        """The next batch."""
        return Frozen.batch(len(state), size=_BATCH, horizon=self.horizon)

    def act(self, snapshot: Any, contexts: Floats, coins: Coins) -> Choice:
        """The first arm."""
        shape = contexts.shape[:-2]
        return Choice(actions=np.zeros(shape, dtype=np.int64), probabilities=np.ones(shape))

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """Features and rewards, clipped."""
        assert played.features is not None
        return LinearReport(features=2).statistic(played.features, played.rewards)

    def learn(self, state: list[Floats], episode: Any) -> Generator[Ask, Estimate, list[Floats]]:
        """One ask."""
        released = yield Ask(protocol=self.protocol)
        return [*state, released.total]


def _longer(statistic: Statistic, some: Any, times: float) -> Statistic:
    """Some reports made longer after they were clipped."""
    values = np.array(statistic.values)
    values[some] *= times
    return statistic.domain.sealed(values, clipped=statistic.clipped)


class LongInTheMiddle(Batches):
    """A position of every batch has reports 20 times too long, and later batches a twentieth of the noise."""

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """As usual, but for that position."""
        honest = super().report(ask, played, coins)
        return _longer(honest, _BATCH // 2, 20.0) if len(played.rewards) == _BATCH else honest

    def learn(self, state: list[Floats], episode: Any) -> Generator[Ask, Estimate, list[Floats]]:
        """One ask, quietly."""
        stated = self.protocol
        quiet = Served(domain=stated.domain, noise_std=stated.noise_std, delta=stated.delta, share=1 / 20)
        released = yield Ask(protocol=quiet if state else stated)
        return [*state, released.total]


class LongForSome(Batches):
    """Rewards in [.65, .75] make reports that are 50 times too long."""

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """As usual, but for these."""
        some = (played.rewards >= 0.65) & (played.rewards <= 0.75)
        return _longer(super().report(ask, played, coins), some, 50.0)


class FailsForSome(Batches):
    """Cannot go on if somebody's reward is in [.3, .4]."""

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """As usual, or not at all."""
        if np.any((played.rewards >= 0.3) & (played.rewards <= 0.4)):
            raise ArithmeticError("a reward that nobody has thought of")
        return super().report(ask, played, coins)


def of_batches(kind: type[Batches]) -> Target:
    """Such a policy in a small world."""
    return of_policy(kind(), _WORLD)
