"""The algorithms GOPE and AdaC-GOPE."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna import validation
from bandanna.device.domain import Estimate, Statistic, check_all_finite, read_real_array
from bandanna.errors import InvalidArgument, InvalidBudget, ValueSummary
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import regret_bounds
from bandanna.policies.algorithm import ANY_BUDGET, ANY_BUDGET_WORDS, register_algorithm
from bandanna.policies.base import AssignedArms, Execution, PlayedRounds, Policy, SumQuery
from bandanna.policies.design import Design, find_cached_design, optimal_design
from bandanna.policies.finite.base import DirectionRewardDomain, RewardDomain, make_reward_domain, reward_guarantee
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@stored_as("GOPEGeometry")
@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Active arms in coordinates of their span, and their design."""

    coordinates: Floats  # (k, r)
    design: Design
    early: float  # k of noise in the beginning


@stored_as("GOPEState")
@dataclass(frozen=True, kw_only=True)
class GOPEState:
    """One run: the phase, all arms (K, d), the places of those left, and their geometry (None: no choice)."""

    phase: int
    arms: Floats
    active: Ints
    geometry: Geometry | None


@register_algorithm("GOPE", paper="004")
@register_algorithm("AdaC-GOPE", paper="004", trust="central", guarantee=ANY_BUDGET_WORDS, budgets=ANY_BUDGET)
@register_algorithm(
    "AdaC-GOPE-early", paper="004", trust="central", guarantee=ANY_BUDGET_WORDS, budgets=ANY_BUDGET, noise="beginning"
)
@stored_as("GOPE")
@dataclass(frozen=True, kw_only=True)
class GOPE(Policy[GOPEState]):
    """G-optimal design elimination for a linear bandit with fixed arms in R^`dim` (GOPE, AdaC-GOPE).

    1. The server plays a G-optimal design pi of the active arms, ceil(c pi(a)) times arm a (`episode`; c is `length`).
    2. Each device reports its reward times the public direction of its arm (`report`).
    3. The server queries the sum of the phase, solves for theta, and drops the arms whose value is more than
       2 `threshold(phase)` below the largest (`learn`).

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of rounds.
    privacy
        `bd.none()` (GOPE), or `bd.central(...)` with a budget for Gaussian noise.
    noise
        "intermediate" (AdaC-GOPE) or "beginning" (AdaC-GOPE-early).
    reward_range
        Rewards are clipped into it. The noise scales with its width.
    failure
        Probability with which a confidence bound may fail.
    reward_std
        Sub-Gaussian parameter of the rewards; half the range's width by default.
    """

    trusts = ("none", "central")
    execution = Execution(player="assigned", noise_stream="phase noise")

    dim: int
    horizon: int
    privacy: Privacy
    noise: str = "intermediate"
    reward_range: tuple[float, float] = (-1.0, 1.0)
    failure: float = 1e-3
    reward_std: float | None = None

    def episode(self, state: GOPEState) -> AssignedArms:
        number = state.phase - 1
        if state.geometry is None:
            return AssignedArms(number=number, arms=state.active[:1], plays=np.array([self.horizon]), released=False)
        length = min(self.length(state), 4.0 * self.horizon + 4)  # a phase beyond the horizon is cut short anyway
        design = state.geometry.design
        return AssignedArms(number=number, arms=state.active[design.support], plays=design.plays(length))

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        domain = query.protocol.domain
        assert isinstance(domain, DirectionRewardDomain)
        return domain.report(played, query.at[played.arms])

    def learn(self, state: GOPEState, episode: AssignedArms) -> Generator[SumQuery, Estimate, GOPEState]:
        assert state.geometry is not None
        z = state.geometry.coordinates  # (k, r)
        played = z[state.geometry.design.support]  # (s, r)
        root = np.linalg.cholesky((played * episode.plays[:, None]).T @ played)  # V = L L^T
        moved = np.linalg.solve(root, played.T)  # (r, s): V^{-1/2} a, up to a rotation
        g = float(np.sqrt(np.max(np.einsum("ij,ij->j", moved, moved)))) * (1 + 1e-12)  # g_V, and rounding
        directions = np.eye(len(played)) if self._early else moved.T / g  # (s, s) or (s, r)
        table = np.zeros((len(state.arms), self.protocol.domain.dim))  # by arm; the dimension is the largest there is
        table[episode.arms, : directions.shape[1]] = directions
        released = yield SumQuery(protocol=self.protocol, at=table)
        half = released.total[: directions.shape[1]]
        half = moved @ half if self._early else g * half  # V^{-1/2} sum a r
        values = z @ np.linalg.solve(root.T, half)  # <theta, b> of every active arm
        keep = values.max() - values <= 2 * self.threshold(state.phase)
        active = state.active[keep]
        same = len(active) == len(state.active)
        geometry = state.geometry if same else _geometry(state.arms, active)
        return GOPEState(phase=state.phase + 1, arms=state.arms, active=active, geometry=geometry)

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", "horizon")
        validation.one_of("noise", self.noise, ("intermediate", "beginning"))
        validation.set_validated(self, validation.open_probability, "failure")
        if self.reward_std is not None:
            validation.set_validated(self, validation.positive, "reward_std")
        self._check_privacy_model()
        if self.privacy.pure and self.privacy.noisy:
            raise InvalidBudget(
                "privacy", self.privacy.budget, "rho, or epsilon and delta > 0", "The noise is Gaussian"
            )
        _ = self.protocol

    @cached_property
    def domain(self) -> RewardDomain:
        return make_reward_domain(self.reward_range)

    @property
    def _early(self) -> bool:
        return self.noise == "beginning"

    @cached_property
    def protocol(self) -> BatchProtocol:
        """Protocol of V^{-1/2} sum a r / g_V, (d,), or of the sums of at most d(d+1)/2 arms."""
        dim = self.dim * (self.dim + 1) // 2 if self._early else self.dim
        return protocol_for(self.privacy, DirectionRewardDomain(dim=dim, rewards=self.domain), self.horizon)

    @cached_property
    def guarantee(self) -> Guarantee:
        return reward_guarantee(self.protocol)

    @property
    def subgaussian(self) -> float:
        return self.domain.width / 2 if self.reward_std is None else self.reward_std

    def threshold(self, phase: int) -> float:
        return self.subgaussian * 2.0**-phase

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GOPEState:
        rows = read_real_array("arms", np.zeros((0, self.dim)) if arms is None else arms)
        if rows.ndim != 2 or rows.shape[1] != self.dim or not len(rows):
            raise InvalidArgument("arms", ValueSummary.of(rows), f"an array of shape (K, {self.dim}) with K >= 1")
        check_all_finite("arms", rows)
        active = np.arange(len(rows))
        return GOPEState(phase=1, arms=rows, active=active, geometry=_geometry(rows, active))

    def length(self, state: GOPEState) -> float:
        """Return c_l [004, (4)]."""
        geometry = state.geometry
        assert geometry is not None
        rank, g = geometry.design.rank, geometry.design.g
        share = self.failure / (len(state.arms) * state.phase * (state.phase + 1))  # d_l
        log = math.log(2 / share)
        chi = rank + 2 * math.sqrt(rank * log) + 2 * log  # f(r, d_l)
        far = geometry.early if self._early else g  # k
        learning = 8 * g * self.subgaussian**2 / self.threshold(state.phase) ** 2 * math.log(4 / share)
        return learning + 2 * far * self.protocol.std(1) / self.threshold(state.phase) * math.sqrt(chi)

    def best(self, snapshot: GOPEState, contexts: Floats) -> Ints:
        return np.full(len(contexts), snapshot.active[0])

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return regret_bounds.find_gope_bounds(setting)

    def _run_counts(self, state: GOPEState) -> dict[str, Ints]:
        return {"phases": np.asarray(state.phase - 1), "arms left": np.asarray(len(state.active))}


def _geometry(arms: Floats, active: Ints) -> Geometry | None:
    """Return the geometry of the active arms; None if they are equal."""
    left = arms[active]
    if np.all(left == left[0]):
        return None
    design = find_cached_design(optimal_design, left)
    z, held = design.coordinates, design.coordinates[design.support]
    inverse = np.linalg.inv((held * design.weights[:, None]).T @ held)  # V(pi)^{-1}
    early = float(np.sqrt(np.max(np.sum((z @ inverse @ held.T) ** 2, axis=1))))
    return Geometry(coordinates=z, design=design, early=early)
