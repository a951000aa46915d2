"""AdaC-OFUL-JDP: rarely switching OFUL whose contexts are private too.

The Gram matrix is released as a continual sum over public batches of B rounds, the vector as in AdaC-OFUL, once per
episode; an episode ends after a batch at which the *released* matrix has grown, never by the raw one:

    V_m = lambda_0 I + released Gram after batch m;      switch when det V_m > (1 + C) det V at the last switch; then
    theta = V_m^{-1} (sum_{s <= m B} x_s r_s + Y_1 + ... + Y_l),   Y_j ~ N(0, s^2 I) once per episode
    beta = s_r sqrt(2 log(3/a) + d log(1 + t/(d l_min))) + S sqrt(l_max) + sqrt(l) s q_l / sqrt(l_min)

Symbols: Sigma bounds the matrix noise in norm for all batches except with probability a/3 (exact quantile, union),
lambda_0 = max(`ridge`, 2 Sigma), l_min = lambda_0 - Sigma, l_max = lambda_0 + Sigma; C `growth`, a `failure`, q_l chi
quantile at a/(3 l (l+1)), S `parameter_bound`, s_r `reward_std`.
Privacy: one user's (x, r) is in one batch of the matrix's stream and in one episode's vector. Both are Gaussian, so
their prices add: mu^2 = mu_matrix^2 + mu_vector^2, `share` of it for the matrix. Episodes follow from releases alone.
Joint DP: everybody's own action depends on the own context; all others see releases only.
References: the sketch in section V of Azize and Basu 2024 [004]; Shariff and Sheffet 2018 (joint DP).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.accounting.events import CompositionEvent
from bandanna.accounting.guarantee import Guarantee, guarantee_of
from bandanna.core import require
from bandanna.core.domain import Box, all_finite, clip_norm
from bandanna.core.linalg import first_best, positive_inverse
from bandanna.core.shapes import SymmetricMatrix
from bandanna.core.sums import add, exact_sum
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.confidence import matrix_quantile, vector_quantile
from bandanna.policies.linucb import Snapshot, scores
from bandanna.policies.reward_noise import RewardNoise, reward_box
from bandanna.protocols.base import stated_delta
from bandanna.protocols.central_continual import CentralContinual

Floats = NDArray[np.float64]

_SIGHT = (
    ("the trusted server", "every user's features and reward"),
    ("everybody else", "noisy matrices and vectors, and the own action"),
)


@dataclass(frozen=True, kw_only=True)
class Outer(SymmetricMatrix):
    """Matrices x x^T with |x|^2 <= `bound`: they differ by at most sqrt 2 bound in Frobenius norm, not 2 bound."""

    @property
    def sensitivity(self) -> float:
        """|x x^T - y y^T|^2 = |x|^4 + |y|^4 - 2 <x, y>^2 <= 2 bound^2."""
        return math.sqrt(2) * self.bound

    def project(self, values: Floats) -> Floats:
        """The nearest matrix of this form: the largest eigenvalue alone, cut off at 0 and at the bound."""
        eigenvalues, vectors = np.linalg.eigh(self.unpack(values))
        top = np.clip(eigenvalues[..., -1], 0.0, self.bound)[..., None, None]
        return self.pack(top * vectors[..., :, -1:] * np.swapaxes(vectors[..., :, -1:], -1, -2))


@dataclass(frozen=True, kw_only=True)
class State:
    """One run. `stream`, `pending`, `rest` are the server's; `released` (Gram), `vector`, `snapshot` are public."""

    stream: Any
    released: Floats  # (d, d)
    vector: Floats  # (d,)
    pending: Floats  # (d,): the exact sum of x r of the episode that is running
    rest: Floats  # (d,): what that sum has beyond its floats
    log_det: float
    batches: int
    switches: int
    repairs: int
    snapshot: Snapshot


@dataclass(frozen=True, kw_only=True)
class OFULJDP:
    """Linear contextual bandit in R^`dim` over `horizon` rounds; features (norm at most 1) and rewards are private.

    budget        `ZCDP(rho=...)`, `ApproxDP(...)` or `RenyiDP(...)` for both together
    batch         rounds between two releases of the matrix, sqrt(horizon) by default
    share         the matrix's part of the budget, in units of mu^2 (rho)
    reward_range  rewards are clipped into it; the noise on the vector scales with its largest absolute value
    """

    dim: int
    horizon: int
    budget: Budget
    batch: int | None = None
    share: float = 0.5
    reward_range: tuple[float, float] = (-1.0, 1.0)
    parameter_bound: float = 1.0
    reward_std: float | None = None
    ridge: float = 1.0
    growth: float = 1.0
    failure: float = 1e-3
    width: float = 1.0

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", "horizon")
        size = round(math.sqrt(self.horizon)) if self.batch is None else require.whole("batch", self.batch)
        object.__setattr__(self, "batch", max(1, min(size, self.horizon)))
        require.store(self, require.positive, "parameter_bound", "ridge", "growth")
        if self.reward_std is not None:
            require.store(self, require.positive, "reward_std")
        require.store(self, require.non_negative, "width")
        require.store(self, require.chance, "failure", "share")
        if isinstance(self.budget, PureDP) or not isinstance(self.budget, Budget) or math.isinf(self.budget.mu()):
            raise InvalidBudget("budget", self.budget, "a finite budget for Gaussian noise: ZCDP, ApproxDP, RenyiDP")

    @cached_property
    def domain(self) -> Box:
        """The declared range."""
        return reward_box(self.reward_range)

    @cached_property
    def _parts(self) -> tuple[CentralContinual, RewardNoise]:
        """Matrix and vector, with the budget's mu^2 split between them; a little less where their tails need room."""
        assert self.batch is not None
        steps, largest = max(1, self.horizon // self.batch), max(abs(self.domain.low), abs(self.domain.high))
        for less in (0.0, 1e-5, 1e-4, 1e-3, 1e-2):
            rho = (1 - less) * self.budget.mu() ** 2 / 2
            matrix = CentralContinual.calibrate(
                domain=Outer(size=self.dim), budget=ZCDP(rho=self.share * rho), horizon=steps
            )
            # replacing (x, r) moves an episode's sum of x r by at most 2 max |r|
            noise = RewardNoise(budget=ZCDP(rho=(1 - self.share) * rho), sensitivity=2 * largest, dim=self.dim)
            if accountant.satisfies(CompositionEvent(events=(matrix.event, noise.event)), self.budget):
                return matrix, noise
        raise CalibrationError(f"no noise for matrix and vector meets {self.budget}")

    @property
    def matrix(self) -> CentralContinual:
        """Running sums of x x^T over the public batches."""
        return self._parts[0]

    @property
    def noise(self) -> RewardNoise:
        """Noise on an episode's sum of x r."""
        return self._parts[1]

    @cached_property
    def guarantee(self) -> Guarantee:
        """Joint differential privacy of features and reward: the matrix's stream and one vector, composed."""
        delta = stated_delta(self.budget) if isinstance(self.budget, ApproxDP) else 1e-6
        both = CompositionEvent(events=(self.matrix.event, self.noise.event))
        protects = "a user's features and reward"
        return guarantee_of(both, delta=delta, trust="central", protects=protects, composed=False, observers=_SIGHT)

    @property
    def subgaussian(self) -> float:
        """s_r."""
        return self.domain.sensitivity / 2 if self.reward_std is None else self.reward_std

    @cached_property
    def matrix_bound(self) -> float:
        """Sigma."""
        stds = self.matrix.prefix_std()
        return float(np.max(stds)) * matrix_quantile(self.dim, self.failure / 3 / len(stds))

    @cached_property
    def regulariser(self) -> float:
        """lambda_0."""
        return max(self.ridge, 2 * self.matrix_bound)

    def init(self) -> State:
        """Nothing known."""
        _ = self.guarantee
        nothing, matrix = np.zeros(self.dim), np.zeros((self.dim, self.dim))
        first, _ = self._snapshot(matrix, nothing, switches=0, rounds=0)
        return State(
            stream=self.matrix.begin(),
            released=matrix,
            vector=nothing,
            pending=nothing,
            rest=nothing,
            log_det=self.dim * math.log(self.regulariser),
            batches=0,
            switches=0,
            repairs=0,
            snapshot=first,
        )

    def act(self, state: State, contexts: Floats) -> NDArray[np.int64]:
        """The first arm with the largest index, of every round: (rounds, K, d) -> (rounds,)."""
        return first_best(scores(state.snapshot, clip_norm(contexts, 1.0)))

    def learn(self, state: State, features: Floats, rewards: Floats, source: NoiseSource) -> tuple[State, int]:
        """One public batch, (B, d) and (B,): release the matrix; if *it* has grown, the vector too. And clips."""
        if features.shape != (self.batch, self.dim) or rewards.shape != (self.batch,):
            allowed = f"({self.batch}, {self.dim}) and ({self.batch},): batches are public"
            raise InvalidArgument("features, rewards: shapes", (features.shape, rewards.shape), allowed)
        all_finite("features", features)
        all_finite("rewards", rewards)
        x, y = clip_norm(features, 1.0), self.domain.project(rewards)
        long = np.einsum("ij,ij->i", features, features) > 1 + 1e-9
        clipped = int(np.count_nonzero(long | (np.abs(rewards - y) > 1e-9)))
        outer = self.matrix.domain
        assert isinstance(outer, Outer)
        rows = outer.sealed(outer.pack(x[:, :, None] * x[:, None, :]), clipped=np.zeros((), dtype=np.int64))
        stream, estimate = self.matrix.release(state.stream, rows, source)
        pending, rest = add((state.pending, state.rest), exact_sum(x * y[:, None], self.domain.bound_of_entries))
        grown = replace(
            state,
            stream=stream,
            released=outer.unpack(estimate.total),
            pending=pending,
            rest=rest,
            batches=state.batches + 1,
        )
        return (self._switched(grown, source) if self._due(grown) else grown), clipped

    def _due(self, state: State) -> bool:
        """det V_m > (1 + C) det V, of released matrices."""
        sign, log_det = np.linalg.slogdet(self.regulariser * np.eye(self.dim) + state.released)
        return bool(sign > 0 and log_det > state.log_det + math.log1p(self.growth))

    def _switched(self, state: State, source: NoiseSource) -> State:
        assert self.batch is not None
        vector = state.vector + self.noise.release(state.pending, source, rest=state.rest)
        switches, rounds = state.switches + 1, state.batches * self.batch
        snapshot, repaired = self._snapshot(state.released, vector, switches=switches, rounds=rounds)
        return replace(
            state,
            vector=vector,
            pending=np.zeros(self.dim),
            rest=np.zeros(self.dim),
            log_det=float(np.linalg.slogdet(self.regulariser * np.eye(self.dim) + state.released)[1]),
            switches=switches,
            repairs=state.repairs + repaired,
            snapshot=snapshot,
        )

    def _snapshot(self, gram: Floats, vector: Floats, *, switches: int, rounds: int) -> tuple[Snapshot, int]:
        smallest, largest = self.regulariser - self.matrix_bound, self.regulariser + self.matrix_bound
        inverse, repaired = positive_inverse(self.regulariser * np.eye(self.dim) + gram, floor=1e-3 * self.regulariser)
        grown = self.dim * math.log1p(rounds / (self.dim * smallest))
        radius = self.subgaussian * math.sqrt(2 * math.log(3 / self.failure) + grown)
        radius += self.parameter_bound * math.sqrt(largest)
        if switches:
            quantile = vector_quantile(self.dim, self.failure / (3 * switches * (switches + 1)))  # q_l
            radius += math.sqrt(switches) * self.noise.std * quantile / math.sqrt(smallest)
        return Snapshot(theta=inverse @ vector, inverse=inverse, radius=self.width * radius), int(repaired)
