"""Successive elimination with private means: DP-SE (a trusted server, Laplace) and SDP-SE (shuffled bits).

Epoch e = 1, 2, ...: with D = 2^-e and L = log(8 K e^2 / b), active arms are played in turn, R times each,

    R = ceil(max(32 L / D^2, 8 Q / D)),  mean_a = (sum of R rewards + noise_a) / R,  drop a if max - mean_a > 2 (h + c),
    h = sqrt(L / (2R)),  c = Q / R,

for rewards in [0, 1] (any range is scaled to that). Q bounds the noise of a sum except with probability b/(4 K e^2):
Laplace of scale l: Q = l L'; L' = log(4 K e^2 / b); sub-Gaussian of standard deviation s: Q = s sqrt(2 L).
Symbols: b `failure`. Then h and c are at most D/8, so arms with gaps above D are gone and the best arm stays, with
probability 1 - b.
Privacy: an arm of an epoch is one batch of fresh users, and its sum is released once; which batches there are depends
on earlier releases only.
 * DP-SE: Laplace noise on the sum, pure epsilon (Gaussian for other budgets).
 * SDP-SE: the device rounds its reward to a bit at random and sends it among fair bits (`ShuffleBits`, exact noise);
   an epsilon above 100 gets the bits of 100.
References: Sajed and Sheffet 2019 (DP-SE); Tenenbaum, Kaplan, Mansour and Stemmer 2021 (shuffled elimination).
Deviations: an epoch that the end cuts short releases nothing; SDP-SE's noise is computed for every batch size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.bits import bit_event, bit_noise, bit_noise_of_std
from bandanna.accounting.guarantee import Guarantee, worst_of
from bandanna.core import require
from bandanna.core.shapes import Bits
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.mechanisms.laplace import Laplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import FiniteArmed
from bandanna.policies.reward_noise import PROTECTS, RewardNoise, checked_sums, sum_sensitivity
from bandanna.protocols.shuffle_bits import ShuffleBits

Floats = NDArray[np.float64]

_SLACK = (1.001, 1.002, 1.005, 1.01, 1.02, 1.05)  # noise a little above the central one, tried in turn
_LARGEST = 100.0  # bits for a larger epsilon are those for this one: a tenth of a reward of noise, on a whole batch


@dataclass(frozen=True, kw_only=True)
class State:
    """One run: the epoch, and which arms are left."""

    epoch: int
    active: NDArray[np.bool_]  # (K,)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Play these arms in turn, `users` times each; an epoch that is not `released` lasts to the end of the run."""

    arms: NDArray[np.int64]  # (k,)
    users: int
    released: bool = True


@dataclass(frozen=True, kw_only=True)
class Elimination(FiniteArmed):
    """Finite-armed successive elimination over `horizon` rounds.

    budget        None, `PureDP(...)` or another budget; with `shuffled`, `ApproxDP(...)`
    shuffled      the shuffle model: nobody but a shuffler is trusted
    reward_range  rewards are clipped into it; the noise scales with its width
    failure       b above, 1/T by default
    """

    budget: Budget | None = None
    shuffled: bool = False
    failure: float | None = None
    protocols: dict[int, ShuffleBits] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.failure is not None:
            require.store(self, require.chance, "failure")
        bits = isinstance(self.budget, ApproxDP) and self.budget.delta > 0 and math.isfinite(self.budget.epsilon)
        if self.shuffled and not bits:
            raise InvalidBudget("budget", self.budget, "ApproxDP(finite epsilon, delta > 0) in the shuffle model")
        _ = self.noise

    @cached_property
    def noise(self) -> RewardNoise:
        """The trusted server's noise on a batch's sum, in units of the range; none in the shuffle model."""
        unit = sum_sensitivity(self.domain, self.horizon) / self.domain.sensitivity  # 1, and rounding
        return RewardNoise(budget=None if self.shuffled else self.budget, sensitivity=unit)

    def _log(self, factor: float, epoch: int) -> float:
        failure = min(1 / self.horizon, 0.5) if self.failure is None else self.failure
        return math.log(factor * self.n_arms * epoch**2 / failure)

    def _noise_quantile(self, epoch: int, std: float) -> float:
        """Q: the noise of a sum stays below it in size, except with probability b/(4 K e^2)."""
        if isinstance(self.noise.mechanism, Laplace):
            return self.noise.mechanism.scale * self._log(4, epoch)
        return std * math.sqrt(2 * self._log(8, epoch))

    def users(self, epoch: int) -> int:
        """R_e: how often an epoch plays every active arm."""
        gap, noise = 2.0**-epoch, self._noise_quantile(epoch, self._planned_std)
        return max(2, math.ceil(max(32 * self._log(8, epoch) / gap**2, 8 * noise / gap)))

    @cached_property
    def _shuffle_budget(self) -> ApproxDP:
        """Shuffle model: what the bits are made for."""
        assert isinstance(self.budget, ApproxDP)
        return replace(self.budget, epsilon=min(self.budget.epsilon, _LARGEST))

    @cached_property
    def _planned_std(self) -> float:
        """Noise of a sum that lengths are planned for; in the shuffle model, what calibration hardly ever exceeds."""
        return _SLACK[-1] / self._shuffle_budget.mu() if self.shuffled else self.noise.std

    def protocol(self, users: int) -> ShuffleBits:
        """Shuffle model: the protocol of a batch of this size, calibrated once."""
        if users not in self.protocols:
            self.protocols[users] = _shuffled_bits(self._shuffle_budget, users)
        return self.protocols[users]

    def width(self, epoch: int) -> float:
        """h + c."""
        users = self.users(epoch)
        std = self.protocol(users).std(users) if self.shuffled else self.noise.std
        return math.sqrt(self._log(8, epoch) / (2 * users)) + self._noise_quantile(epoch, std) / users

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes that a run can complete: epoch e begins after at least two batches of every epoch before."""
        found: list[int] = []
        begun = 0
        while self.n_arms > 1 and begun + (users := self.users(len(found) + 1)) <= self.horizon:
            found.append(users)
            begun += 2 * users
        return tuple(found)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward; in the shuffle model, of every number the worst over all batch sizes."""
        if not self.shuffled:
            return self.noise.guarantee
        sizes = self.sizes or (max(2, self.users(1)),)
        return replace(worst_of([self.protocol(size).guarantee for size in sizes]), protects=PROTECTS)

    def init(self) -> State:
        """All arms, nothing released."""
        return State(epoch=1, active=np.ones(self.n_arms, dtype=bool))

    def next(self, state: State) -> Epoch:
        """All active arms; the last one that is left, to the end."""
        arms = np.flatnonzero(state.active)
        if len(arms) == 1:
            return Epoch(arms=arms, users=self.horizon, released=False)
        return Epoch(arms=arms, users=self.users(state.epoch))

    def learn(
        self, state: State, totals: Floats, source: NoiseSource, *, bits: Sequence[NDArray[np.bool_]] | None = None
    ) -> State:
        """Release the batches of the epoch that `next` named, one per active arm: sums of clipped rewards, (k,).

        In the shuffle model: numbers of ones, or with `bits`, (users,) each, every message instead of their law.
        """
        epoch = self.next(state)
        if np.shape(totals) != (k := len(epoch.arms),) or (bits is not None and len(bits) != k):
            raise InvalidArgument("totals: shape", np.shape(totals), f"({k},): one batch for every active arm")
        if bits is not None:
            released = np.array([self._messages(each, epoch.users, source) for each in bits])
        elif self.shuffled:
            ones = checked_sums(totals, epoch.users, Bits())
            released = np.array([self._law(round(each), epoch.users, source) for each in ones])
        else:
            exact = checked_sums(totals, epoch.users, self.domain)
            unit = (exact - epoch.users * self.domain.low) / self.domain.sensitivity
            released = self.noise.release(unit[:, None], source)[:, 0]
        means = released / epoch.users
        keep = np.max(means) - means <= 2 * self.width(state.epoch)  # the elimination rule
        return State(epoch=state.epoch + 1, active=np.isin(np.arange(self.n_arms), epoch.arms[keep]))

    def _messages(self, bits: NDArray[np.bool_], users: int, source: NoiseSource) -> float:
        estimate = self.protocol(users).release(bits[:, None].astype(float), source, path="messages")
        return float(estimate.total[0])

    def _law(self, ones: int, users: int, source: NoiseSource) -> float:
        counts, nothing = np.array([users - ones, ones]), np.zeros((), dtype=np.int64)
        grouped = Bits().sealed(np.array([[0.0], [1.0]]), clipped=nothing, counts=counts)
        return float(self.protocol(users).release(grouped, source, path="law").total[0])


def _shuffled_bits(budget: ApproxDP, users: int) -> ShuffleBits:
    """Few fair bits for a batch: the first noise, from the central one upwards, that meets the budget exactly."""
    for slack in _SLACK:
        try:
            noise = bit_noise_of_std(slack / budget.mu(), users=users)
        except CalibrationError:
            continue
        if accountant.satisfies(bit_event(noise), budget):
            return ShuffleBits(noise=noise, delta=budget.delta)
    return ShuffleBits(noise=bit_noise(users=users, budget=budget), delta=budget.delta)
