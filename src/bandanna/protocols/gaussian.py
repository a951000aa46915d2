"""Gaussian noise in the central (`CentralGaussian`), local (`LocalGaussian`) and shuffle model (`ShuffleGaussian`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.linear_report import LinearReport, drop_isometry
from bandanna.device.noise import NoiseSource, ReleaseCost
from bandanna.device.randomizers import NoisyVector
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.mechanisms.noise import GaussianMechanism
from bandanna.numeric.exact_sums import LARGEST_SUM, sum_steps
from bandanna.privacy.budgets import ApproxDP, Budget
from bandanna.privacy.calibration import (
    calibrated_shuffled_std,
    gaussian_std,
    paper_gaussian_std,
    report_std,
    shuffled_report_std,
)
from bandanna.privacy.events import ClearEvent, Event, GaussianEvent, ShuffledGaussianEvent
from bandanna.privacy.prices import gaussian_price
from bandanna.protocols.base import BatchProtocol, Protocol, TrustedSumProtocol, check_domain, stated_delta
from bandanna.protocols.mixers import Analyzer, GatheringMixer, MixerState, check_enough_users, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_TAIL = 1e-280  # of discrete noise, per coordinate of a report: next to nothing, even times the largest e^epsilon


@dataclass(frozen=True, kw_only=True)
class GaussianProtocol(Protocol):
    """A protocol with Gaussian noise of std `noise_std`, on a sum or each report."""

    noise_std: float

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "noise_std")

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        return GaussianMechanism(std=self.noise_std, sensitivity=self.domain.sensitivity, dim=self.domain.dim)

    @property
    def event(self) -> Event:
        return self.mechanism.event


@stored_as("CentralGaussian")
@dataclass(frozen=True, kw_only=True)
class CentralGaussian(GaussianProtocol, TrustedSumProtocol):
    """sum_i x_i + N(0, std^2 I): a trusted server sums the statistics and adds the noise.

    Privacy: mu = sqrt(M) Delta_2 / std for M participations in separate batches.

    Parameters
    ----------
    noise_std
        Standard deviation of the noise.
    """

    name: ClassVar[str] = "central_gaussian"
    trust: ClassVar[str] = "central"
    hides_group_size: ClassVar[bool] = True

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> CentralGaussian:
        """Find the least noise; calibration="paper" gives the papers' printed noise."""
        std = calibrate_central_gaussian(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @cached_property
    def analyzer(self) -> NoisySumAnalyzer:
        return NoisySumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def std(self, users: int) -> float:
        return self.noise_std

    @cached_property
    def most_users(self) -> int:
        """Return the largest batch that the grid holds for any statistics: refusals must not depend on data."""
        return math.floor(LARGEST_SUM * (self.mechanism.step / self.domain.reach) * (1 - 1e-9))

    def check_users(self, users: int) -> None:
        if users > self.most_users:
            raise InvalidArgument("batch", users, f"at most {self.most_users} users with noise as fine as this")

    def check_horizon(self, horizon: int) -> None:
        """Refuse a horizon above `most_users`, before a group's private size is known."""
        if horizon > self.most_users:
            allowed = f"at most {self.most_users}, because a group of all users has no larger sum on this noise's grid"
            raise InvalidArgument("horizon", horizon, allowed)

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        noisy = self.mechanism.release(total, source)
        return Estimate(total=noisy, count=users, variance=self.mechanism.variance)


@dataclass(frozen=True, kw_only=True)
class GaussianReports(GaussianProtocol, BatchProtocol):
    """sum_i (x_i + N(0, std^2 I)): each device adds noise."""

    def draws(self, users: int) -> ReleaseCost:
        return ReleaseCost(gaussians=users * self.domain.dim, numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        return math.sqrt(validation.integer("users", users)) * self.noise_std

    @cached_property
    def device(self) -> NoisyVector:
        return NoisyVector(domain=self.domain, std=self.mechanism.std, grid=self.mechanism.step)

    @cached_property
    def analyzer(self) -> ReportSumAnalyzer:
        return ReportSumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Draw sum_i x_i + N(0, users std^2 I)."""
        variance = statistic.users * self.mechanism.variance
        noisy = source.gaussian(statistic.total(), std=math.sqrt(variance), grid=self.mechanism.step)
        return Estimate(total=noisy, count=statistic.users, variance=variance)


@stored_as("LocalGaussian")
@dataclass(frozen=True, kw_only=True)
class LocalGaussian(GaussianReports):
    """Noisy reports sent straight to the server.

    Privacy: each report is mu-GDP on its own, mu = sqrt(M) Delta_2 / std for M reports of one user.

    Parameters
    ----------
    noise_std
        Standard deviation of the noise on a report.
    """

    name: ClassVar[str] = "local_gaussian"
    trust: ClassVar[str] = "local"

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> LocalGaussian:
        """Find the least noise per report; calibration="paper" gives the printed noise on every entry."""
        if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
            domain = drop_isometry(domain)
        std = calibrate_local_gaussian(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the server", "every user's noisy report"),)

    @cached_property
    def mixer(self) -> GatheringMixer:
        return GatheringMixer(domain=self.domain, std=self.noise_std, grid=self.mechanism.step)


@stored_as("ShuffleGaussian")
@dataclass(frozen=True, kw_only=True)
class ShuffleGaussian(GaussianReports):
    """The local protocol with a shuffler that hides the order of the reports of a batch (P_Amp of paper 000).

    Privacy: the analyzer's view by amplification (`shuffle_gaussian_event`), the shuffler's by the local Gaussian
    mechanism. The binomial vector sum needs less noise at every setting.

    Parameters
    ----------
    noise_std
        Standard deviation of the noise on a report.
    batch
        Least number of users in a batch.
    """

    batch: int

    name: ClassVar[str] = "shuffle_gaussian"
    trust: ClassVar[str] = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.integer, "batch", least=2)

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, batch: int, participations: int = 1, calibration: str = "tight"
    ) -> ShuffleGaussian:
        """Find the least noise that the bound allows; calibration="paper" gives the printed noise."""
        if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
            domain = drop_isometry(domain)
        std = calibrate_shuffle_gaussian(domain, budget, batch, participations, calibration)
        delta = stated_delta(budget)
        return cls(domain=domain, batch=batch, noise_std=std, participations=participations, delta=delta)

    @cached_property
    def event(self) -> ShuffledGaussianEvent | ClearEvent:
        return shuffle_gaussian_event(self.mechanism.event, self.batch)

    @property
    def local_event(self) -> GaussianEvent:
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (
            ("the shuffler", "every user's noisy report"),
            ("the analyzer and the public", "the reports of a batch in random order"),
        )

    def std(self, users: int) -> float:
        check_enough_users(self.batch, users)
        return super().std(users)

    def check_users(self, users: int) -> None:
        check_enough_users(self.batch, users)

    @cached_property
    def mixer(self) -> SortingMixer:
        return SortingMixer(domain=self.domain, least=self.batch, std=self.noise_std, grid=self.mechanism.step)


# Mixer


@stored_as("SortingMixer")
@dataclass(frozen=True, kw_only=True)
class SortingMixer(GatheringMixer):
    """Forwards a batch's reports in sorted order, so that the view depends only on their set.

    A sorted batch and one in random order determine each other's distribution, so the shuffler needs no randomness.
    """

    def close(self, held: MixerState) -> MixerState:
        rows: Messages = super().close(held).numbers  # (..., users, dim)
        order = np.lexsort(np.moveaxis(rows, -1, 0)[::-1])  # (..., users), in each replicate separately
        return replace(held, numbers=np.take_along_axis(rows, order[..., None], axis=-2))


# Analyzers


@dataclass(frozen=True, kw_only=True)
class NoisySumAnalyzer(Analyzer):
    """Computes sum_i x_i + N(0, std^2 I), relative to the domain's public origin."""

    domain: Domain
    mechanism: GaussianMechanism

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        total, rest = sum_plain_statistics(view.numbers, self.domain)
        released = self.mechanism.release(total, source, rest=rest) + view.users * self.domain.origin
        return state, Estimate(total=released, count=view.users, variance=self.mechanism.variance)


@dataclass(frozen=True, kw_only=True)
class ReportSumAnalyzer(Analyzer):
    """Adds reports; grid steps are added as integers."""

    domain: Domain
    mechanism: GaussianMechanism

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        if view.numbers.dtype != np.int64:
            total = np.sum(view.numbers, axis=-2)
        else:
            high, rest = sum_steps(np.asarray(view.numbers, dtype=np.int64))
            steps = high * self.mechanism.step + rest * self.mechanism.step
            total = steps + view.numbers.shape[-2] * self.domain.origin
        variance = view.users * self.mechanism.variance
        return state, Estimate(total=np.asarray(total), count=view.users, variance=variance)


# Privacy


def calibrate_central_gaussian(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """Return std = sqrt(M) Delta_2 / mu(epsilon, delta) (Balle and Wang 2018)."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        return paper_gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)


def calibrate_local_gaussian(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """Return std = sqrt(M) Delta_2 / mu(epsilon, delta) per report; `paper`: [000, Prop. F.1], [001, Thm 4.4]."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        if isinstance(domain, LinearReport) and domain.reward_bound == 1.0:
            return report_std(budget=budget, participations=participations)
        return paper_gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)


def calibrate_shuffle_gaussian(
    domain: Domain, budget: Budget, batch: int, participations: int, calibration: str
) -> float:
    """Return the least std per report; `paper`: [000, Thms 3.2 and E.3], for the unit ball."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        if not (isinstance(domain, LinearReport) and domain.reward_bound == 1.0):
            raise InvalidArgument("domain", domain, "LinearReport with rewards in [-1, 1]: the paper's statistic")
        return shuffled_report_std(users=batch, budget=budget, participations=participations)
    std = calibrated_shuffled_std(
        sensitivity=domain.sensitivity, dim=domain.dim, users=batch, budget=budget, participations=participations
    )
    assert isinstance(budget, ApproxDP)
    beyond = participations * 1e4 * batch**2 * domain.dim * _TAIL * (1 + math.exp(budget.epsilon))  # all reports' tails
    if budget.delta < 1e6 * beyond:
        raise InvalidBudget("delta", budget.delta, f"at least {1e6 * beyond:.1g}: less is lost in the reports' tails")
    return std * (1 + 2.0**-13)  # room for the grid of the reports, whose rounding and discreteness cost below 1e-4


def shuffle_gaussian_event(report: GaussianEvent, batch: int) -> ShuffledGaussianEvent | ClearEvent:
    """Return the event of a batch of reports; the grid's cost is added to the sensitivity."""
    price = gaussian_price(report, _TAIL * report.dim)
    if math.isinf(price.mu):  # next to no noise: nothing is proven
        return ClearEvent()
    return ShuffledGaussianEvent(
        std=report.std, sensitivity=report.std * price.mu, users=batch, dim=report.dim, tail=price.tail
    )
