"""Gaussian noise in the central, the local and the shuffle model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
from bandanna.privacy.events import ClearEvent, GaussianEvent, ShuffledGaussianEvent
from bandanna.privacy.prices import gaussian_price
from bandanna.protocols.base import BatchProtocol, TrustedSumProtocol, check_domain, stated_delta
from bandanna.protocols.mixers import Analyzer, GatheringMixer, MixerState, check_enough_users, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

# Analyzer of the central Gaussian protocol: the server is trusted with the statistics and adds the noise.


@dataclass(frozen=True, kw_only=True)
class NoisySumAnalyzer(Analyzer):
    """sum_i x_i + N(0, std^2 I), noised relative to the domain's public origin."""

    domain: Domain
    mechanism: GaussianMechanism

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim)."""
        total, rest = sum_plain_statistics(view.numbers, self.domain)
        released = self.mechanism.release(total, source, rest=rest) + view.users * self.domain.origin
        return state, Estimate(total=released, count=view.users, variance=self.mechanism.variance)


def add_gaussian_noise(total: Floats, users: int, mechanism: GaussianMechanism, source: NoiseSource) -> Estimate:
    """A total plus its noise, (..., dim)."""
    return Estimate(total=mechanism.release(total, source), count=users, variance=mechanism.variance)


# Privacy of the central Gaussian protocol.


def calibrate_central_gaussian(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """std = sqrt(M) Delta_2 / mu(epsilon, delta), the analytic Gaussian mechanism (Balle and Wang 2018)."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        return paper_gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)


# Central model, one release: a trusted server sums the users' statistics and adds Gaussian noise.


@stored_as("CentralGaussian")
@dataclass(frozen=True, kw_only=True)
class CentralGaussian(TrustedSumProtocol):
    """sum_i x_i + N(0, std^2 I), added by the server.

    Privacy: mu = sqrt(M) Delta_2 / std for M participations in separate batches (see `privacy.calibrate`).
    """

    noise_std: float

    name: ClassVar[str] = "central_gaussian"
    trust: ClassVar[str] = "central"
    hides_group_size: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "noise_std")

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> CentralGaussian:
        """Least noise for the budget (`tight`), or the papers' printed one (`paper`)."""
        std = calibrate_central_gaussian(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        """Sampler and price of the noise."""
        return GaussianMechanism(std=self.noise_std, sensitivity=self.domain.sensitivity, dim=self.domain.dim)

    @property
    def event(self) -> GaussianEvent:
        """One Gaussian release."""
        return self.mechanism.event

    @cached_property
    def analyzer(self) -> NoisySumAnalyzer:
        """Sum and noise."""
        return NoisySumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def std(self, users: int) -> float:
        """The same for every batch size."""
        return self.noise_std

    @cached_property
    def most_users(self) -> int:
        """So few that their sum is on the grid whatever their statistics are: a refusal must tell nothing of them."""
        return math.floor(LARGEST_SUM * (self.mechanism.step / self.domain.reach) * (1 - 1e-9))

    def check_users(self, users: int) -> None:
        """At most so many."""
        if users > self.most_users:
            raise InvalidArgument("batch", users, f"at most {self.most_users} users with noise as fine as this")

    def check_horizon(self, horizon: int) -> None:
        """For sums over a group whose size is private: refuse before anything is known of it, by what is public."""
        if horizon > self.most_users:
            allowed = f"at most {self.most_users}: a group of all users is the largest that noise as fine as this takes"
            raise InvalidArgument("horizon", horizon, allowed)

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The sum and its noise."""
        return add_gaussian_noise(total, users, self.mechanism, source)


# Analyzer of the local Gaussian protocol: reports are summed, in any order.


@dataclass(frozen=True, kw_only=True)
class ReportSumAnalyzer(Analyzer):
    """sum_i (x_i + N(0, std^2 I)); steps of the grid are added as integers."""

    domain: Domain
    mechanism: GaussianMechanism

    def analyze(self, state: None, view: MixerState, source: NoiseSource) -> tuple[None, Estimate]:
        """(..., users, dim) -> (..., dim); the variance is users times that of a report."""
        variance = view.users * self.mechanism.variance
        return state, Estimate(total=self._total(view.numbers), count=view.users, variance=variance)

    def _total(self, reports: Messages) -> Floats:
        if reports.dtype != np.int64:
            return np.asarray(np.sum(reports, axis=-2))
        high, rest = sum_steps(reports.astype(np.int64))
        steps = high * self.mechanism.step + rest * self.mechanism.step
        return np.asarray(steps + reports.shape[-2] * self.domain.origin)


# Aggregate law of the local Gaussian protocol.


def sample_sum(total: NDArray[np.float64], users: int, mechanism: GaussianMechanism, source: NoiseSource) -> Estimate:
    """sum_i x_i + N(0, users std^2 I): a sum of independent Gaussians is one Gaussian; (..., dim)."""
    noisy = source.gaussian(total, std=math.sqrt(users * mechanism.variance), grid=mechanism.step)
    return Estimate(total=noisy, count=users, variance=users * mechanism.variance)


# Privacy of the local Gaussian protocol.


def calibrate_local_gaussian(domain: Domain, budget: Budget, participations: int, calibration: str) -> float:
    """std = sqrt(M) Delta_2 / mu(epsilon, delta) per report; `paper`: [000, Prop. F.1] or [001, Thm 4.4]."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        if isinstance(domain, LinearReport) and domain.reward_bound == 1.0:
            return report_std(budget=budget, participations=participations)
        return paper_gaussian_std(sensitivity=domain.sensitivity, budget=budget, participations=participations)
    return gaussian_std(sensitivity=domain.sensitivity, dim=domain.dim, budget=budget, participations=participations)


# Randomizer of the local Gaussian protocol.


def gaussian_device(domain: Domain, mechanism: GaussianMechanism) -> NoisyVector:
    """x_i + N(0, std^2 I), fresh for every user, on the grid of the mechanism."""
    return NoisyVector(domain=domain, std=mechanism.std, grid=mechanism.step)


# Local model: every device adds Gaussian noise to its own statistic; users trust it alone.


@dataclass(frozen=True, kw_only=True)
class GaussianReports(BatchProtocol):
    """sum_i (x_i + N(0, std^2 I)), every term noised on the device; who sees the terms is left open."""

    noise_std: float

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "noise_std")

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        """Sampler and price of the noise on one report."""
        return GaussianMechanism(std=self.noise_std, sensitivity=self.domain.sensitivity, dim=self.domain.dim)

    def draws(self, users: int) -> ReleaseCost:
        """Noise on every number of every report."""
        return ReleaseCost(gaussians=users * self.domain.dim, numbers=users * self.domain.dim)

    def std(self, users: int) -> float:
        """sqrt(users) times that of a report."""
        return math.sqrt(validation.integer("users", users)) * self.noise_std

    @cached_property
    def device(self) -> NoisyVector:
        """Statistic plus noise."""
        return gaussian_device(self.domain, self.mechanism)

    @cached_property
    def analyzer(self) -> ReportSumAnalyzer:
        """Sum of the reports."""
        return ReportSumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """One Gaussian for the whole batch."""
        return sample_sum(statistic.total(), statistic.users, self.mechanism, source)


@stored_as("LocalGaussian")
@dataclass(frozen=True, kw_only=True)
class LocalGaussian(GaussianReports):
    """Noisy reports sent straight to the server.

    Privacy: each report is mu-GDP on its own, mu = sqrt(M) Delta_2 / std for M reports of one user.
    """

    name: ClassVar[str] = "local_gaussian"
    trust: ClassVar[str] = "local"

    @classmethod
    def calibrate(
        cls, *, domain: Domain, budget: Budget, participations: int = 1, calibration: str = "tight"
    ) -> LocalGaussian:
        """Least noise per report for the budget (`tight`), or the papers' printed one on every entry (`paper`)."""
        domain = (
            drop_isometry(domain)
            if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper"
            else domain
        )
        std = calibrate_local_gaussian(domain, budget, participations, calibration)
        return cls(domain=domain, noise_std=std, participations=participations, delta=stated_delta(budget))

    @property
    def event(self) -> GaussianEvent:
        """One report."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is not trusted."""
        return (("the server", "every user's noisy report"),)

    @cached_property
    def mixer(self) -> GatheringMixer:
        """The server keeps the reports."""
        return GatheringMixer(domain=self.domain, std=self.noise_std, grid=self.mechanism.step)


# Privacy of the shuffled Gaussian protocol: amplification by shuffling, a Gaussian report among Gaussian reports.


_TAIL = 1e-280  # of discrete noise, per coordinate of a report: next to nothing, even times the largest e^epsilon


def calibrate_shuffle_gaussian(
    domain: Domain, budget: Budget, batch: int, participations: int, calibration: str
) -> float:
    """Least std per report; `paper`: [000, Thms 3.2 and E.3], for reports of features and rewards in the unit ball."""
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
    """A batch of reports; what the grid costs a report (rounding, discrete noise) is charged to its sensitivity."""
    price = gaussian_price(report, _TAIL * report.dim)
    if math.isinf(price.mu):  # next to no noise: nothing is proven
        return ClearEvent()
    return ShuffledGaussianEvent(
        std=report.std,
        sensitivity=report.std * price.mu,
        users=batch,
        dim=report.dim,
        tail=price.tail,
    )


# Shuffler of the shuffled Gaussian protocol: it forgets the order, and knows nothing else.
#
# A sorted batch says exactly as much as one in random order: both are made from the multiset of reports alone, and
# each
# from the other. So the shuffler needs no randomness, and none that could be used twice.


@stored_as("SortingMixer")
@dataclass(frozen=True, kw_only=True)
class SortingMixer(GatheringMixer):
    """Forwards the reports of a batch in an order that only they decide."""

    def close(self, held: MixerState) -> MixerState:
        """Sorted by the first number, then by the second, and so on."""
        return replace(super().close(held), numbers=sort_rows(held.numbers))


def sort_rows(reports: Messages) -> Messages:
    """Rows in lexicographic order, (..., users, dim), in every replicate by itself."""
    order = np.lexsort(np.moveaxis(reports, -1, 0)[::-1])  # (..., users)
    return np.take_along_axis(reports, order[..., None], axis=-2)


# Shuffle model by amplification (P_Amp of paper 000): noisy reports in random order hide among each other.


@stored_as("ShuffleGaussian")
@dataclass(frozen=True, kw_only=True)
class ShuffleGaussian(GaussianReports):
    """The local protocol with a shuffler: noisy reports of at least `batch` users, their order forgotten, then summed.

    Privacy: the analyzer's view by amplification (`privacy`), the shuffler's by the local Gaussian mechanism.
    Kept as a baseline: the binomial vector sum needs less noise at every setting.
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
        """Least noise per report that the amplification bound allows (`tight`), or the printed one (`paper`)."""
        domain = (
            drop_isometry(domain)
            if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper"
            else domain
        )
        std = calibrate_shuffle_gaussian(domain, budget, batch, participations, calibration)
        delta = stated_delta(budget)
        return cls(domain=domain, batch=batch, noise_std=std, participations=participations, delta=delta)

    @cached_property
    def event(self) -> ShuffledGaussianEvent | ClearEvent:
        """One shuffled batch."""
        return shuffle_gaussian_event(self.mechanism.event, self.batch)

    @property
    def local_event(self) -> GaussianEvent:
        """One report, as in the local model."""
        return self.mechanism.event

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The shuffler is trusted to forget who sent what."""
        return (
            ("the shuffler", "every user's noisy report"),
            ("the analyzer and everybody else", "the reports of a batch in random order"),
        )

    def std(self, users: int) -> float:
        """sqrt(users) times that of a report, for the calibrated batch or a larger one."""
        check_enough_users(self.batch, users)
        return super().std(users)

    def check_users(self, users: int) -> None:
        """The calibrated batch, or more."""
        check_enough_users(self.batch, users)

    @cached_property
    def mixer(self) -> SortingMixer:
        """Forgets who sent what."""
        return SortingMixer(domain=self.domain, least=self.batch, std=self.noise_std, grid=self.mechanism.step)
