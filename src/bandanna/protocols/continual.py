"""Continual release in the central model: noisy sums of all users after every step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource, ReleaseCost
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.continual import BLTBlocks, ContinualGaussian, State
from bandanna.numeric import exact_sums
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import continual_std, paper_gaussian_std
from bandanna.privacy.events import ContinualEvent
from bandanna.privacy.factorisation import BLT, BinaryTree, Factorisation, factorise
from bandanna.privacy.prices import fine_grid
from bandanna.protocols.base import StreamProtocol, TrustedServerProtocol, check_domain, check_path, stated_delta
from bandanna.protocols.mixers import Analyzer, MixerState, sum_plain_statistics
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_STEPS = 32  # L, in a block of a BLT's noise


@stored_as("CentralContinualState")
@dataclass(frozen=True, kw_only=True)
class ContinualState:
    """The stream's raw sums, which stay with the server, and its users."""

    stream: State
    count: int


@stored_as("CentralContinual")
@dataclass(frozen=True, kw_only=True)
class CentralContinual(TrustedServerProtocol, StreamProtocol):
    """Noisy prefix sums of a stream of batch sums, through a factorisation A = B C of the prefix-sum matrix.

    Privacy: mu = Delta_2 |C|_M0 / std for all prefixes together, for M0 participations in different steps. |C|_M0 is
    the largest norm of a sum of M0 columns.

    Parameters
    ----------
    factorisation
        B and C, for a number of steps.
    noise_std
        Standard deviation of the Gaussians z in A x + B z.
    """

    factorisation: Factorisation
    noise_std: float

    name: ClassVar[str] = "central_continual"
    trust: ClassVar[str] = "central"
    composed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "noise_std")

    @classmethod
    def calibrate(
        cls,
        *,
        domain: Domain,
        budget: Budget,
        horizon: int,
        mechanism: str = "blt",
        participations: int = 1,
        calibration: str = "tight",
    ) -> CentralContinual:
        """Find the least noise for `horizon` steps; mechanism="blt" or "tree"."""
        factors, std = calibrate_continual(domain, budget, horizon, mechanism, participations, calibration)
        return cls(
            domain=domain,
            factorisation=factors,
            noise_std=std,
            participations=participations,
            delta=stated_delta(budget),
        )

    @cached_property
    def mechanism(self) -> ContinualGaussian:
        return ContinualGaussian(
            factorisation=self.factorisation,
            std=self.noise_std,
            sensitivity=self.domain.sensitivity,
            dim=self.domain.dim,
            participations=self.participations,
        )

    @cached_property
    def event(self) -> ContinualEvent:
        change = self.participations * self.domain.sensitivity * self.factorisation.sensitivity()
        return ContinualEvent(
            factorisation=self.factorisation,
            std=self.noise_std,
            sensitivity=self.domain.sensitivity,
            participations=self.participations,
            dim=self.domain.dim,
            grid=fine_grid(self.noise_std, change, self.domain.dim * self.factorisation.releases(self.participations)),
        )

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the trusted server", "every user's statistic"), ("the public", "all noisy prefix sums"))

    @cached_property
    def analyzer(self) -> PrefixSumAnalyzer:
        return PrefixSumAnalyzer(domain=self.domain, mechanism=self.mechanism)

    def draws(self, users: int) -> ReleaseCost:
        blocks = self.factorisation.levels if isinstance(self.factorisation, BinaryTree) else 1
        return ReleaseCost(gaussians=blocks * self.domain.dim, numbers=users * self.domain.dim)

    def std(self) -> float:
        """Return the std per coordinate of the worst prefix."""
        return self.noise_std * self.factorisation.error()

    def prefix_std(self) -> Floats:
        return np.asarray(np.sqrt(self.mechanism.variances))

    def begin(self, replicates: tuple[int, ...] = ()) -> ContinualState:
        return self.analyzer.begin(replicates)

    def parted(self, state: ContinualState) -> tuple[MixerState, ContinualState]:
        """Return an empty mixer state, because a step is released at once."""
        return self.mixer.empty(state.stream.total.shape[:-1]), state

    def joined(self, held: MixerState, analyzed: ContinualState) -> ContinualState:
        return analyzed

    def check_users(self, state: ContinualState, users: int) -> None:
        if not isinstance(state, ContinualState):
            raise InvalidArgument("state", type(state).__name__, "what begin() or the last release returned")

    def law(self, state: ContinualState, statistic: Statistic, source: NoiseSource) -> tuple[ContinualState, Estimate]:
        total = statistic.total() - statistic.users * self.domain.origin
        return self.analyzer.step(state, total, statistic.users, source)

    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """Release steps of one user each, or draw all noise at once."""
        check_path(path, source)
        values = self.admit(statistics, clip=clip).rows()
        if values.shape[-2] > self.factorisation.horizon:
            allowed = f"at most the horizon {self.factorisation.horizon}: the noise is priced for no more steps"
            raise InvalidArgument("steps", values.shape[-2], allowed)
        if path == "law":
            return np.asarray(np.cumsum(values, axis=-2) + sample_prefix_noise(values.shape, self.mechanism, source))
        stream, estimates, origin = self.mechanism.begin(values.shape[:-2]), [], self.domain.origin
        for step in range(values.shape[-2]):
            stream, prefix = self.mechanism.step(stream, values[..., step, :] - origin, source)
            estimates.append(prefix + (step + 1) * origin)
        return np.stack(estimates, axis=-2)


# Analyzer


@dataclass(frozen=True, kw_only=True)
class PrefixSumAnalyzer(Analyzer):
    """Adds a step's sum to the stream of statistics, relative to the domain's public origin.

    Sums are exact, because rounding errors could reveal a user. path="law" uses plain sums (`step`).
    """

    domain: Domain
    mechanism: ContinualGaussian

    def begin(self, replicates: tuple[int, ...] = ()) -> ContinualState:
        return ContinualState(stream=self.mechanism.begin(replicates), count=0)

    def analyze(self, state: ContinualState, view: MixerState, source: NoiseSource) -> tuple[ContinualState, Estimate]:
        total, rest = sum_plain_statistics(view.numbers, self.domain)
        return self.step(state, total, view.users, source, rest=rest)

    def step(
        self, state: ContinualState, total: ArrayLike, users: int, source: NoiseSource, *, rest: ArrayLike = 0.0
    ) -> tuple[ContinualState, Estimate]:
        """Add the sum of a step, relative to the origin."""
        stream, prefix = self.mechanism.step(state.stream, total, source, rest=rest)
        count = state.count + users
        variance = float(self.mechanism.variances[stream.step - 1])
        estimate = Estimate(total=prefix + count * self.domain.origin, count=count, variance=variance)
        return ContinualState(stream=stream, count=count), estimate


# Law


def sample_prefix_noise(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    """Draw B z alone, shape (..., steps, dim), for simulation, in O(steps) without a loop over steps.

    z_i ~ N(0, std^2 I); B z is a sum of decaying sums for a BLT, of blocks for a tree.
    """
    factors = mechanism.factorisation
    if isinstance(factors, BLT):
        return _multiply_blt(_draw_prefix_noise(shape, mechanism, source), factors)
    if isinstance(factors, BinaryTree):
        return _draw_tree_noise(shape, mechanism, source)
    raise InvalidArgument("factorisation", factors.name, "a BLT or a tree")


def _draw_prefix_noise(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    return source.gaussian(np.broadcast_to(0.0, shape), std=mechanism.std, grid=mechanism.spacing)


def _multiply_blt(z: Floats, factors: BLT) -> Floats:
    from scipy import signal  # here, since it is slow to load, and only simulations of streams need it

    by = BLTBlocks.of(factors, _STEPS)
    rows = np.swapaxes(z, -2, -1)  # (..., dim, steps)
    steps = rows.shape[-1]
    if steps % _STEPS:
        rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -steps % _STEPS)])
    blocks = rows.reshape(*rows.shape[:-1], rows.shape[-1] // _STEPS, _STEPS)
    left = blocks @ by.left.T
    before = [  # s_i
        signal.lfilter([0.0, 1.0], [1.0, -decay], own, axis=-1)
        for decay, own in zip(by.decay, np.moveaxis(left, -1, 0), strict=True)
    ]
    summed = blocks @ by.within.T
    summed += np.stack(before, axis=-1) @ by.after.T
    return np.swapaxes(summed.reshape(rows.shape)[..., :steps], -2, -1)


def _draw_tree_noise(shape: tuple[int, ...], mechanism: ContinualGaussian, source: NoiseSource) -> Floats:
    steps = shape[-2]
    levels = steps.bit_length()
    own = [_draw_prefix_noise((*shape[:-2], steps >> level, shape[-1]), mechanism, source) for level in range(levels)]
    return exact_sums.compute_prefixes(own, (2,) * (levels - 1))


# Privacy


def calibrate_continual(
    domain: Domain, budget: Budget, horizon: int, mechanism: str, participations: int, calibration: str
) -> tuple[Factorisation, float]:
    """Return std = Delta_2 |C|_M0 / mu(epsilon, delta); `paper`: binary tree, classical formula [000, E.7]."""
    check_domain(domain)
    if validation.one_of("calibration", calibration, ("tight", "paper")) == "paper":
        tree = factorise("tree", horizon=horizon)
        change = participations * domain.sensitivity * tree.sensitivity()
        return tree, paper_gaussian_std(sensitivity=change, budget=budget)
    factors = factorise(mechanism, horizon=horizon)
    std = continual_std(
        factorisation=factors,
        sensitivity=domain.sensitivity,
        dim=domain.dim,
        budget=budget,
        participations=participations,
    )
    return factors, std
