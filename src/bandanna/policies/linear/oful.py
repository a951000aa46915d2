"""Linear bandits that renew their estimate rarely: RS-OFUL, AdaC-OFUL and AdaC-OFUL-JDP."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.device.action_selection import Choice, make_certain_choice
from bandanna.device.domain import (
    Ball,
    Estimate,
    Statistic,
    SymmetricMatrix,
    check_all_finite,
    clip_norm,
)
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.numeric.linalg import first_best, positive_inverse
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import ANY_BUDGET, ANY_BUDGET_WORDS, register_algorithm
from bandanna.policies.base import (
    Execution,
    FixedLength,
    PlayedRounds,
    Policy,
    PublicStoppingPolicy,
    State,
    StoppedByPublicData,
    SumQuery,
)
from bandanna.policies.finite.base import DirectionRewardDomain, RewardDomain, make_reward_domain, reward_guarantee
from bandanna.policies.linear.confidence import matrix_quantile, vector_quantile
from bandanna.policies.linear.linucb import OptimisticSnapshot, score_contexts
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.privacy.calibration import parts_mu
from bandanna.privacy.events import PRICINGS, CompositionEvent
from bandanna.privacy.guarantee import Guarantee, compute_guarantee
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol, stated_delta
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import check_budget_size, protocol_for
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_OBSERVERS = (
    ("the trusted server", "every user's features and reward"),
    ("the public", "noisy matrices and vectors, and each user the arm chosen for them"),
)


class RareSwitchingLinearPolicy(Policy[State]):
    """Base of both policies, optimistic and linear with an estimate as of the last switch."""

    dim: int
    horizon: int
    reward_range: tuple[float, float]
    reward_std: float | None

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", "horizon")
        validation.set_validated(self, validation.positive, "parameter_bound", "ridge", "growth")
        if self.reward_std is not None:
            validation.set_validated(self, validation.positive, "reward_std")
        validation.set_validated(self, validation.non_negative, "width")
        validation.set_validated(self, validation.open_probability, "failure")
        self._check_privacy_model()

    @cached_property
    def domain(self) -> RewardDomain:
        return make_reward_domain(self.reward_range)

    @property
    def subgaussian(self) -> float:
        """Sub-Gaussian constant s_r of rewards: `reward_std`, or half the range's width."""
        return self.domain.width / 2 if self.reward_std is None else self.reward_std

    def best(self, snapshot: OptimisticSnapshot, contexts: Floats) -> Ints:
        return self.act(replace(snapshot, radius=0.0), contexts, NoRandomness()).actions

    def _count_clipped(self, features: Floats, rewards: Floats, bound: float) -> Any:
        long = np.einsum("ij,ij->i", features, features) > bound**2 * (1 + 1e-9)
        return np.asarray(np.count_nonzero(long | self.domain.outside(rewards)))


@stored_as("OFULState")
@dataclass(frozen=True, kw_only=True)
class OFULState:
    """One run, all public: `gram` V of all rounds so far, `vector` the sum of all releases."""

    gram: Floats  # (d, d)
    vector: Floats  # (d,)
    log_det: float  # of V at the last switch
    switches: int
    rounds: int
    snapshot: OptimisticSnapshot


@register_algorithm("RS-OFUL", paper="004")
@register_algorithm("AdaC-OFUL", paper="004", trust="central", guarantee=ANY_BUDGET_WORDS, budgets=ANY_BUDGET)
@stored_as("OFUL")
@dataclass(frozen=True, kw_only=True)
class OFUL(RareSwitchingLinearPolicy[OFULState], PublicStoppingPolicy[OFULState]):
    """Optimistic linear bandit with public contexts that switches to a new estimate only when V has grown.

    1. The server publishes the estimate, V^{-1} and the radius as of the last switch (`publish`).
    2. Each device plays the first arm with the largest index <x, theta> + radius |x|_{V^{-1}} (`act`).
    3. The episode ends when det V > (1 + C) det V_tau, V_tau that of the last switch (`stopping_round`); until then V
       grows by the public features (`advance_public`).
    4. Each device reports x r, both clipped (`report`).
    5. The server queries the sum of the episode and switches (`learn`).

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of rounds.
    privacy
        `bd.none()` (RS-OFUL), or `bd.central(...)` for the rewards (AdaC-OFUL).
    reward_range
        Rewards are clipped into it. The noise scales with its width.
    feature_bound, parameter_bound
        Features are clipped to the first norm; the second bounds |theta|.
    reward_std
        Sub-Gaussian constant of the rewards. None: half the range's width.
    ridge
        V begins at ridge I.
    growth
        C in step 3.
    failure
        Failure probability of the confidence set.
    width
        Factor of the radius; 1 is the theorem. Privacy does not depend on it.
    confidence, eigenvalue
        "exact", or "paper" with its lambda_0.
    """

    trusts = ("none", "central")
    execution = Execution(noise_stream="oful", player="until")
    _devices_agree = True  # users of an episode who see the same arms take the same one

    dim: int
    horizon: int
    privacy: Privacy
    reward_range: tuple[float, float] = (-1.0, 1.0)
    feature_bound: float = 1.0
    parameter_bound: float = 1.0
    reward_std: float | None = None
    ridge: float = 1.0
    growth: float = 1.0
    failure: float = 1e-3
    width: float = 1.0
    confidence: str = "exact"
    eigenvalue: float | None = None

    def publish(self, state: OFULState) -> OptimisticSnapshot:
        return state.snapshot

    def act(self, snapshot: OptimisticSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return make_certain_choice(first_best(score_contexts(snapshot, clip_norm(contexts, self.feature_bound))))

    def stopping_round(self, state: OFULState, features: Floats) -> int | None:
        x = clip_norm(features, self.feature_bound)
        limit = state.log_det + math.log1p(self.growth)
        if not _log_det(state.gram + x.T @ x) > limit:
            return None
        low, high, below = 0, len(x), state.gram  # V after `low` rounds
        while high - low > 1:
            middle = (low + high) // 2
            gram = below + x[low:middle].T @ x[low:middle]
            if _log_det(gram) > limit:  # det V > (1 + C) det V_tau
                high = middle
            else:
                low, below = middle, gram
        return high

    def advance_public(self, state: OFULState, features: Floats) -> OFULState:
        check_all_finite("features", features)
        x = clip_norm(features, self.feature_bound)
        return replace(state, gram=state.gram + x.T @ x, rounds=state.rounds + len(x))

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        domain = query.protocol.domain
        assert played.features is not None
        assert isinstance(domain, DirectionRewardDomain)
        check_all_finite("features", played.features)
        reported = domain.report(played, clip_norm(played.features, self.feature_bound))
        return replace(reported, clipped=self._count_clipped(played.features, played.rewards, self.feature_bound))

    def learn(self, state: OFULState, episode: StoppedByPublicData) -> Generator[SumQuery, Estimate, OFULState]:
        released = yield self.query
        vector, log_det, switches = state.vector + released.total, _log_det(state.gram), state.switches + 1
        snapshot = self._snapshot(state.gram, vector, log_det, switches=switches, rounds=state.rounds)
        return replace(state, vector=vector, log_det=log_det, switches=switches, snapshot=snapshot)

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "feature_bound")
        validation.one_of("confidence", self.confidence, ("exact", "paper"))
        if self.confidence == "paper" and self.eigenvalue is None:
            raise InvalidArgument("eigenvalue", None, 'a number > 0 with confidence="paper"', "It is lambda_0")
        if self.privacy.pure and self.privacy.noisy:
            raise InvalidBudget(
                "privacy", self.privacy.budget, "rho, or epsilon and delta > 0", "The noise is Gaussian"
            )
        _ = self.query

    @cached_property
    def query(self) -> SumQuery:
        """Query of an episode's sum of x r, with x public: one reward moves it by at most w L."""
        domain = DirectionRewardDomain(dim=self.dim, rewards=self.domain, bound=self.feature_bound)
        return SumQuery(protocol=protocol_for(self.privacy, domain, self.horizon))

    @property
    def protocol(self) -> BatchProtocol:
        assert isinstance(self.query.protocol, BatchProtocol)
        return self.query.protocol

    @cached_property
    def guarantee(self) -> Guarantee:
        stated = reward_guarantee(self.protocol)
        public = (("everybody", "every user's features"),) if self.privacy.noisy else ()
        return replace(stated, observers=(*stated.observers, *public))

    @property
    def _bits_per_user(self) -> int:
        return FLOAT_BITS * (self.dim + 1)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> OFULState:
        gram, nothing = self.ridge * np.eye(self.dim), np.zeros(self.dim)
        log_det = self.dim * math.log(self.ridge)
        first = self._snapshot(gram, nothing, log_det, switches=0, rounds=0)
        return OFULState(gram=gram, vector=nothing, log_det=log_det, switches=0, rounds=0, snapshot=first)

    def episode(self, state: OFULState) -> StoppedByPublicData:
        return StoppedByPublicData(number=state.switches, users=self.horizon - state.rounds)

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return contextual_bounds.find_oful_bounds(setting)

    def _run_counts(self, state: OFULState) -> dict[str, Ints]:
        return {"switches": np.asarray(state.switches)}

    def _snapshot(
        self, gram: Floats, vector: Floats, log_det: float, *, switches: int, rounds: int
    ) -> OptimisticSnapshot:
        inverse: Floats = np.asarray(np.linalg.inv(gram), dtype=float)
        grown = max(0.0, log_det - self.dim * math.log(self.ridge))  # log(det V / lambda^d)
        radius = self.subgaussian * math.sqrt(2 * math.log(2 / self.failure) + grown)  # Lemma 11 of [004]
        radius += self.parameter_bound * math.sqrt(self.ridge)
        if switches and self.privacy.noisy:
            quantile = vector_quantile(self.dim, self.failure / (2 * switches * (switches + 1)))  # q_l
            radius += math.sqrt(switches) * self.protocol.std(1) * quantile / math.sqrt(self._smallest(gram, rounds))
        return OptimisticSnapshot(theta=inverse @ vector, inverse=inverse, radius=self.width * radius)

    def _smallest(self, gram: Floats, rounds: int) -> float:
        """Return the least eigenvalue of V; "paper": lambda + lambda_0 t/4 - 8 log((t+3) d/a) - 2 sqrt(t log(..))."""
        if self.confidence == "exact" or self.eigenvalue is None:
            return max(self.ridge, float(np.linalg.eigvalsh(gram)[0]))
        log = math.log((rounds + 3) * self.dim / self.failure)
        return self.ridge + max(0.0, self.eigenvalue * rounds / 4 - 8 * log - 2 * math.sqrt(rounds * log))  # Lemma 12


def _log_det(matrix: Floats) -> float:
    return float(np.linalg.slogdet(matrix)[1])


@stored_as("Outer")
@dataclass(frozen=True, kw_only=True)
class RankOneDomain(SymmetricMatrix):
    """Matrices x x^T with |x|^2 <= `bound`: they differ by at most sqrt 2 bound in Frobenius norm."""

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.bound

    def project(self, values: Floats) -> Floats:
        eigenvalues, vectors = np.linalg.eigh(self.unpack(values))
        top = np.clip(eigenvalues[..., -1], 0.0, self.bound)[..., None, None]
        return self.pack(top * vectors[..., :, -1:] * np.swapaxes(vectors[..., :, -1:], -1, -2))


@stored_as("OFULJDPState")
@dataclass(frozen=True, kw_only=True)
class OFULJDPState:
    """One run: the released Gram matrix and vector, and what follows from them."""

    released: Floats  # (d, d)
    vector: Floats  # (d,)
    log_det: float
    batches: int
    switches: int
    repairs: int
    snapshot: OptimisticSnapshot


@register_algorithm(
    "AdaC-OFUL-JDP",
    paper="004",
    trust="central",
    guarantee=f"joint {ANY_BUDGET_WORDS}",
    protects="contexts and rewards",
    budgets=ANY_BUDGET,
)
@stored_as("OFULJDP")
@dataclass(frozen=True, kw_only=True)
class OFULJDP(RareSwitchingLinearPolicy[OFULJDPState]):
    """Optimistic linear bandit whose features (norm at most 1) and rewards are private.

    1. The server publishes the estimate, the inverse matrix and the radius as of the last switch (`publish`).
    2. Each device of a batch plays the first arm with the largest index (`act`).
    3. Each device reports x x^T and x r, both clipped (`report`).
    4. The server queries the matrix of all rounds. If its determinant has grown by the factor 1 + C, it queries the
       vector of the rounds since the last switch too, and switches (`learn`).

    Parameters
    ----------
    privacy
        `bd.central(...)` with a budget for Gaussian noise, for both together.
    batch
        Rounds between two releases of the matrix; sqrt(horizon) by default.
    share
        The matrix's part of the budget, in units of mu^2 (rho).
    pricing
        "joint", or "separate": the sum of both worst cases, with more noise.
    reward_range
        Rewards are clipped into it. The vector's noise scales with its largest absolute value.
    dim, horizon, parameter_bound, reward_std, ridge, growth, failure, width
        As those of `OFUL`.
    """

    trusts = ("central",)
    execution = Execution(retained_groups=("since the last switch",), has_several_queries=True, noise_stream="oful")

    dim: int
    horizon: int
    privacy: Privacy
    batch: int | None = None
    share: float = 0.5
    reward_range: tuple[float, float] = (-1.0, 1.0)
    parameter_bound: float = 1.0
    reward_std: float | None = None
    ridge: float = 1.0
    growth: float = 1.0
    failure: float = 1e-3
    width: float = 1.0
    pricing: str = "joint"

    def publish(self, state: OFULJDPState) -> OptimisticSnapshot:
        return state.snapshot

    def act(self, snapshot: OptimisticSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return make_certain_choice(first_best(score_contexts(snapshot, clip_norm(contexts, 1.0))))

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        assert played.features is not None
        check_all_finite("features", played.features)
        x, rewards = clip_norm(played.features, 1.0), self.domain.report(played)
        domain = query.protocol.domain
        values = domain.pack(x[:, :, None] * x[:, None, :]) if isinstance(domain, RankOneDomain) else x * rewards.values
        return domain.sealed(values, clipped=self._count_clipped(played.features, played.rewards, 1.0))

    def learn(self, state: OFULJDPState, episode: FixedLength) -> Generator[SumQuery, Estimate, OFULJDPState]:
        gram = (yield self._queries[0]).total
        outer = self.matrix.domain
        assert isinstance(outer, RankOneDomain)
        grown = replace(state, released=outer.unpack(gram), batches=state.batches + 1)
        sign, log_det = np.linalg.slogdet(self.regulariser * np.eye(self.dim) + grown.released)
        if not (sign > 0 and log_det > state.log_det + math.log1p(self.growth)):  # det V_m > (1 + C) det V
            return grown
        vector = state.vector + (yield self._queries[1]).total
        switches, rounds = state.switches + 1, grown.batches * episode.users
        snapshot, repaired = self._snapshot(grown.released, vector, switches=switches, rounds=rounds)
        return replace(
            grown,
            vector=vector,
            log_det=float(log_det),
            switches=switches,
            repairs=state.repairs + repaired,
            snapshot=snapshot,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        size = round(math.sqrt(self.horizon)) if self.batch is None else validation.integer("batch", self.batch)
        object.__setattr__(self, "batch", max(1, min(size, self.horizon)))
        validation.set_validated(self, validation.open_probability, "share")
        validation.one_of("pricing", self.pricing, PRICINGS)
        if self.privacy.pure or not self.privacy.noisy:
            allowed = "rho, or a finite epsilon and delta > 0"
            raise InvalidBudget("privacy", self.privacy.budget, allowed, "The noise is Gaussian")
        if self.privacy.participations != 1:
            hint = "Several reports of one user could be in one vector"
            raise InvalidArgument("participations", self.privacy.participations, "1", hint)
        check_budget_size(self.privacy)

    @cached_property
    def _queries(self) -> tuple[SumQuery, SumQuery]:
        """Queries of matrix and vector, which share the budget's mu^2, less some room for their tails."""
        assert self.batch is not None
        assert self.privacy.budget is not None
        steps, budget = max(1, self.horizon // self.batch), self.privacy.budget
        ball = Ball(dim=self.dim, bound=self.domain.largest_entry)  # x r
        joint = self.pricing == "joint"
        mu = parts_mu(budget, self.share, weighted=False, joint=joint)
        for less in (0.0, 1e-5, 1e-4, 1e-3, 1e-2):
            rho = (1 - less) * mu**2 / 2
            matrix = CentralContinual.calibrate(
                domain=RankOneDomain(size=self.dim), budget=ZCDP(rho=self.share * rho), horizon=steps
            )
            vector = CentralGaussian.calibrate(domain=ball, budget=ZCDP(rho=(1 - self.share) * rho))
            queries = (
                SumQuery(protocol=matrix, part="matrix" if joint else None),
                SumQuery(
                    protocol=vector,
                    part="vector" if joint else None,
                    group=self.execution.retained_groups[0],
                    last=True,
                    step=1,
                ),
            )
            if accountant.satisfies(_compose_queries(queries), budget):
                vector.check_horizon(self.horizon)  # how many are in an episode's sum may be private
                return queries
        raise CalibrationError(f"no noise for matrix and vector meets {budget}")

    @property
    def matrix(self) -> CentralContinual:
        assert isinstance(self._queries[0].protocol, CentralContinual)
        return self._queries[0].protocol

    @property
    def vector(self) -> CentralGaussian:
        assert isinstance(self._queries[1].protocol, CentralGaussian)
        return self._queries[1].protocol

    @cached_property
    def guarantee(self) -> Guarantee:
        budget = self.privacy.budget
        delta = stated_delta(budget) if isinstance(budget, ApproxDP) else 1e-6
        protects, both = "a user's features and reward", _compose_queries(self._queries)
        return compute_guarantee(
            both, delta=delta, trust="central", protects=protects, composed=False, observers=_OBSERVERS
        )

    @cached_property
    def matrix_bound(self) -> float:
        """Sigma, which bounds the matrix's noise."""
        stds = self.matrix.prefix_std()
        return float(stds.max()) * matrix_quantile(self.dim, self.failure / 3 / len(stds))

    @cached_property
    def regulariser(self) -> float:
        return max(self.ridge, 2 * self.matrix_bound)

    @property
    def _bits_per_user(self) -> int:
        return FLOAT_BITS * (self.dim + self.matrix.domain.dim)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> OFULJDPState:
        nothing, matrix = np.zeros(self.dim), np.zeros((self.dim, self.dim))
        first, _ = self._snapshot(matrix, nothing, switches=0, rounds=0)
        log_det = self.dim * math.log(self.regulariser)
        return OFULJDPState(
            released=matrix, vector=nothing, log_det=log_det, batches=0, switches=0, repairs=0, snapshot=first
        )

    def episode(self, state: OFULJDPState) -> FixedLength | None:
        assert self.batch is not None
        return FixedLength.batch(state.batches, size=self.batch, horizon=self.horizon)

    def next_episode(self, episode: FixedLength) -> FixedLength | None:
        assert self.batch is not None
        return FixedLength.batch(episode.number + 1, size=self.batch, horizon=self.horizon)

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return contextual_bounds.find_oful_joint_bounds(setting)

    def _run_counts(self, state: OFULJDPState) -> dict[str, Ints]:
        return {"switches": np.asarray(state.switches), "repairs": np.asarray(state.repairs)}

    def _snapshot(self, gram: Floats, vector: Floats, *, switches: int, rounds: int) -> tuple[OptimisticSnapshot, int]:
        smallest, largest = self.regulariser - self.matrix_bound, self.regulariser + self.matrix_bound
        inverse, repaired = positive_inverse(self.regulariser * np.eye(self.dim) + gram, floor=1e-3 * self.regulariser)
        grown = self.dim * math.log1p(rounds / (self.dim * smallest))
        radius = self.subgaussian * math.sqrt(2 * math.log(3 / self.failure) + grown)
        radius += self.parameter_bound * math.sqrt(largest)
        if switches:
            quantile = vector_quantile(self.dim, self.failure / (3 * switches * (switches + 1)))  # q_l
            radius += math.sqrt(switches) * self.vector.std(1) * quantile / math.sqrt(smallest)
        return OptimisticSnapshot(theta=inverse @ vector, inverse=inverse, radius=self.width * radius), int(repaired)


def _compose_queries(queries: tuple[SumQuery, SumQuery]) -> CompositionEvent:
    return CompositionEvent(events=tuple(query.event() for query in queries))
