"""G-optimal phased elimination: GOPE, AdaC-GOPE (noise at the intermediate level) and AdaC-GOPE-early (on the sums).

Phase l = 1, 2, ...: D_l = s_r 2^-l, d_l = failure/(K l (l+1)), pi_l a G-optimal design on the active arms, of span r,

    c_l = 8 g s_r^2 / D_l^2 log(4/d_l) + 2 k s / D_l sqrt(f(r, d_l))                                       [004, (4)]
    f(r, p) = r + 2 sqrt(r log(2/p)) + 2 log(2/p)
    play a exactly ceil(c_l pi_l(a)) times,   V = sum_a T(a) a a^T,   theta = V^{-1} sum_t a_t r_t + noise
    drop a if max_b <theta, b - a> > 2 D_l

noise = "intermediate": V^{-1/2} N, N ~ N(0, (s g_V)^2 I), g_V = max_{a played} |a|_{V^{-1}};  k = g       [004, Alg. 2]
noise = "beginning":    N(0, s^2) on the sum of the rewards of every arm of the support;            [004, app. E-C, H]
                        k = max_b sqrt(sum_a (b^T V(pi)^{-1} a)^2), never below g

Symbols: g = max_b |b|^2_{V(pi)^{-1}} (r at the optimum), s_r `reward_std` (sub-Gaussian, w/2 unless told), w the
range's width, s noise per unit: rho-zCDP is s^2 = w^2/(2 rho). Then |<theta - theta*, b>| <= D_l for every arm, with
probability 1 - d_l each.
Privacy: a reward moves V^{-1/2} sum a r by at most w g_V, and one arm's sum by at most w; each phase releases its own
rewards once (`reward_noise`).
References: Azize and Basu 2024 [004], Algorithm 2, appendices E and H; Lattimore and Szepesvari 2020, chapter 22.
Deviations: g_V of the arms really played instead of the printed bound d/c_l; no round is skipped; the variant with
noise in the beginning has phases of the length that its own noise needs; any range, any span.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Box, all_finite, reals
from bandanna.design import Design, optimal_design, span_coordinates
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.reward_noise import RewardNoise, checked_sums, reward_box, sum_sensitivity

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Active arms in the coordinates of their span, and their design: the same until an arm is dropped."""

    coordinates: Floats  # (k, r)
    design: Design
    early: float  # k of noise in the beginning


@dataclass(frozen=True, kw_only=True)
class State:
    """One run: the phase, all arms (K, d), the places of those that are left, and their geometry (None: no choice)."""

    phase: int
    arms: Floats
    active: NDArray[np.int64]
    geometry: Geometry | None


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Play `arms` (places) so often, one after the other; one that is not `released` lasts to the end of the run."""

    arms: NDArray[np.int64]
    plays: NDArray[np.int64]
    released: bool = True


@dataclass(frozen=True, kw_only=True)
class GOPE:
    """Linear bandit with fixed arms in R^`dim`, over `horizon` rounds.

    budget        None (GOPE), `ZCDP(rho=...)`, `ApproxDP(...)` or `RenyiDP(...)`
    noise         "intermediate" (AdaC-GOPE) or "beginning" (AdaC-GOPE-early)
    reward_range  rewards are clipped into it; the noise scales with its width
    failure       probability with which a confidence bound may fail
    reward_std    sub-Gaussian parameter of the rewards, half the range's width by default
    """

    dim: int
    horizon: int
    budget: Budget | None = None
    noise: str = "intermediate"
    reward_range: tuple[float, float] = (-1.0, 1.0)
    failure: float = 1e-3
    reward_std: float | None = None

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", "horizon")
        require.one_of("noise", self.noise, ("intermediate", "beginning"))
        require.store(self, require.chance, "failure")
        if self.reward_std is not None:
            require.store(self, require.positive, "reward_std")
        pure = isinstance(self.budget, PureDP) or (isinstance(self.budget, ApproxDP) and self.budget.delta == 0.0)
        if pure and self.mechanism.noisy:
            raise InvalidBudget("budget", self.budget, "a budget for Gaussian noise: ZCDP, RenyiDP, ApproxDP")
        _ = self.mechanism

    @cached_property
    def domain(self) -> Box:
        """The declared range."""
        return reward_box(self.reward_range)

    @property
    def _early(self) -> bool:
        return self.noise == "beginning"

    @cached_property
    def mechanism(self) -> RewardNoise:
        """Noise on V^{-1/2} sum a r / g_V, (d,), or on the sums of at most d(d+1)/2 arms: both move by w at most."""
        dim = self.dim * (self.dim + 1) // 2 if self._early else self.dim
        return RewardNoise(budget=self.budget, sensitivity=sum_sensitivity(self.domain, self.horizon), dim=dim)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward."""
        return self.mechanism.guarantee

    @property
    def subgaussian(self) -> float:
        """s_r."""
        return self.domain.sensitivity / 2 if self.reward_std is None else self.reward_std

    def threshold(self, phase: int) -> float:
        """D_l."""
        return self.subgaussian * 2.0**-phase

    def init(self, arms: ArrayLike) -> State:
        """All arms, (K, d); they are public."""
        rows = reals("arms", arms)
        if rows.ndim != 2 or rows.shape[1] != self.dim or not len(rows):
            raise InvalidArgument("arms: shape", rows.shape, f"(K, {self.dim}), K at least 1")
        all_finite("arms", rows)
        active = np.arange(len(rows))
        return State(phase=1, arms=rows, active=active, geometry=_geometry(rows, active))

    def length(self, state: State) -> float:
        """c_l [004, (4)]."""
        geometry = state.geometry
        assert geometry is not None
        rank, g = geometry.design.rank, geometry.design.g
        share = self.failure / (len(state.arms) * state.phase * (state.phase + 1))  # d_l
        log = math.log(2 / share)
        chi = rank + 2 * math.sqrt(rank * log) + 2 * log  # f(r, d_l)
        far = geometry.early if self._early else g  # k
        learning = 8 * g * self.subgaussian**2 / self.threshold(state.phase) ** 2 * math.log(4 / share)
        return learning + 2 * far * self.mechanism.std / self.threshold(state.phase) * math.sqrt(chi)

    def next(self, state: State) -> Phase:
        """The design's arms, ceil(c_l pi(a)) times each; where nothing is left to decide, the first arm to the end."""
        if state.geometry is None:
            return Phase(arms=state.active[:1], plays=np.array([self.horizon]), released=False)
        length = min(self.length(state), 4.0 * self.horizon + 4)  # a phase beyond the horizon is cut short anyway
        design = state.geometry.design
        return Phase(arms=state.active[design.support], plays=design.plays(length))

    def learn(self, state: State, phase: Phase, totals: Floats, source: NoiseSource) -> State:
        """Release the phase: sums of the clipped rewards of its arms, (s,); then drop what is surely not best."""
        assert state.geometry is not None
        z, support = state.geometry.coordinates, state.geometry.design.support  # (k, r), (s,)
        exact = checked_sums(totals, phase.plays, self.domain)
        played = z[support]
        root = np.linalg.cholesky((played * phase.plays[:, None]).T @ played)  # V = L L^T
        if self._early:
            exact = self._padded(exact, source)[: len(support)]  # noise on the sums
        half = np.linalg.solve(root, played.T @ exact)  # V^{-1/2} sum a r, up to a rotation
        if not self._early:
            moved = np.linalg.solve(root, played.T)  # (r, s): what one unit of reward moves
            g = float(np.sqrt(np.max(np.einsum("ij,ij->j", moved, moved))))  # g_V
            half = g * self._padded(half / g, source)[: len(half)]
        values = z @ np.linalg.solve(root.T, half)  # <theta, b> of every active arm
        keep = np.max(values) - values <= 2 * self.threshold(state.phase)
        active = state.active[keep]
        same = len(active) == len(state.active)
        geometry = state.geometry if same else _geometry(state.arms, active)
        return State(phase=state.phase + 1, arms=state.arms, active=active, geometry=geometry)

    def _padded(self, values: Floats, source: NoiseSource) -> Floats:
        """One release of the mechanism, whose dimension is the largest that can occur."""
        full = np.zeros(self.mechanism.dim)
        full[: len(values)] = values
        return self.mechanism.release(full, source)


def _geometry(arms: Floats, active: NDArray[np.int64]) -> Geometry | None:
    """None where nothing is left to decide: one arm, or arms that are all equal."""
    left = arms[active]
    if np.all(left == left[0]):
        return None
    z, design = span_coordinates(left), optimal_design(left)
    held = z[design.support]
    inverse = np.linalg.inv((held * design.weights[:, None]).T @ held)  # V(pi)^{-1}
    early = float(np.sqrt(np.max(np.sum((z @ inverse @ held.T) ** 2, axis=1))))
    return Geometry(coordinates=z, design=design, early=early)
