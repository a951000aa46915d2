"""RS-OFUL and AdaC-OFUL."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandanna import validation
from bandanna.device.action_selection import Choice, make_certain_choice
from bandanna.device.domain import Estimate, Statistic, check_all_finite, clip_norm
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.linalg import first_best
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies.algorithm import ANY_BUDGET, ANY_BUDGET_WORDS, register_algorithm
from bandanna.policies.base import Execution, PlayedRounds, PublicStoppingPolicy, StoppedByPublicData, SumQuery
from bandanna.policies.finite.base import DirectionRewardDomain, RewardDomain, make_reward_domain, reward_guarantee
from bandanna.policies.linear.confidence import vector_quantile
from bandanna.policies.linear.linucb import OptimisticSnapshot, score_contexts
from bandanna.policies.theory import contextual
from bandanna.policies.theory.base import BoundCalls, RunSetting
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@stored_as("OFULState")
@dataclass(frozen=True, kw_only=True)
class OFULState:
    """One run, all of it public: `gram` V of all rounds so far, `vector` of all releases."""

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
class OFUL(PublicStoppingPolicy[OFULState]):
    """Linear contextual bandit in R^`dim` over `horizon` rounds that changes its mind only when V has grown.

    1. The server publishes the estimate, V^{-1} and the radius as of the last switch (`publish`).
    2. Each device plays the first arm with the largest index <x, theta> + radius |x|_{V^{-1}} (`act`).
    3. The episode ends when det V > (1 + C) det V_tau, V_tau that of the last switch (`stopping_round`); until then V
       grows by the public features (`advance_public`).
    4. Each device reports x r, both clipped (`report`).
    5. The server queries the sum of the episode and switches (`learn`).

    privacy          `bd.none()` (RS-OFUL), or `bd.central(...)` for the rewards (AdaC-OFUL); contexts are public
    reward_range     rewards are clipped into it; the noise scales with its width
    feature_bound    features are clipped to this norm
    growth           C: switch when the determinant has grown by 1 + C
    width            multiplier of the radius, 1 is the theorem; no matter to privacy
    confidence       "exact", or "paper" with `eigenvalue`, its lambda_0
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
        """As of the last switch."""
        return state.snapshot

    def act(self, snapshot: OptimisticSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """The first arm with the largest index, of every round: (rounds, K, d)."""
        return make_certain_choice(first_best(score_contexts(snapshot, clip_norm(contexts, self.feature_bound))))

    def stopping_round(self, state: OFULState, features: Floats) -> int | None:
        """After how many of these rounds, (n, d), the policy switches; None if it does not. V only grows: bisection."""
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
        """V after more rounds of the running episode, (n, d)."""
        check_all_finite("features", features)
        x = clip_norm(features, self.feature_bound)
        return replace(state, gram=state.gram + x.T @ x, rounds=state.rounds + len(x))

    def report(self, ask: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        """x r, both clipped."""
        domain = ask.protocol.domain
        assert played.features is not None
        assert isinstance(domain, DirectionRewardDomain)
        check_all_finite("features", played.features)
        reported = domain.report(played, clip_norm(played.features, self.feature_bound))
        long = np.einsum("ij,ij->i", played.features, played.features) > self.feature_bound**2 * (1 + 1e-9)
        return replace(reported, clipped=np.asarray(np.count_nonzero(long | self.domain.outside(played.rewards))))

    def learn(self, state: OFULState, episode: StoppedByPublicData) -> Generator[SumQuery, Estimate, OFULState]:
        """Switch: release the episode's sum, once, and publish a new snapshot."""
        released = yield self.ask
        vector, log_det, switches = state.vector + released.total, _log_det(state.gram), state.switches + 1
        snapshot = self._snapshot(state.gram, vector, log_det, switches=switches, rounds=state.rounds)
        return replace(state, vector=vector, log_det=log_det, switches=switches, snapshot=snapshot)

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", "horizon")
        validation.set_validated(self, validation.positive, "feature_bound", "parameter_bound", "ridge", "growth")
        if self.reward_std is not None:
            validation.set_validated(self, validation.positive, "reward_std")
        validation.set_validated(self, validation.non_negative, "width")
        validation.set_validated(self, validation.open_probability, "failure")
        validation.one_of("confidence", self.confidence, ("exact", "paper"))
        if self.confidence == "paper" and self.eigenvalue is None:
            raise InvalidArgument("eigenvalue", None, 'lambda_0, for confidence="paper"')
        self._check_trust_model()
        if self.privacy.pure and self.privacy.noisy:
            raise InvalidBudget(
                "privacy", self.privacy.budget, "a budget for Gaussian noise: rho, epsilon and delta > 0"
            )
        _ = self.ask

    @cached_property
    def domain(self) -> RewardDomain:
        """The declared range."""
        return make_reward_domain(self.reward_range)

    @cached_property
    def ask(self) -> SumQuery:
        """An episode's sum of x r, with x public: one reward moves it by at most w L."""
        domain = DirectionRewardDomain(dim=self.dim, rewards=self.domain, bound=self.feature_bound)
        return SumQuery(protocol=protocol_for(self.privacy, domain, self.horizon))

    @property
    def protocol(self) -> BatchProtocol:
        """How an episode's sum is released."""
        assert isinstance(self.ask.protocol, BatchProtocol)
        return self.ask.protocol

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward; contexts are public."""
        stated = reward_guarantee(self.protocol)
        public = (("everybody", "every user's features"),) if self.privacy.noisy else ()
        return replace(stated, observers=(*stated.observers, *public))

    @property
    def _bits_per_user(self) -> int:
        """x and r."""
        return FLOAT_BITS * (self.dim + 1)

    @property
    def subgaussian(self) -> float:
        """s_r."""
        return self.domain.width / 2 if self.reward_std is None else self.reward_std

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> OFULState:
        """Nothing known."""
        gram, nothing = self.ridge * np.eye(self.dim), np.zeros(self.dim)
        log_det = self.dim * math.log(self.ridge)
        first = self._snapshot(gram, nothing, log_det, switches=0, rounds=0)
        return OFULState(gram=gram, vector=nothing, log_det=log_det, switches=0, rounds=0, snapshot=first)

    def episode(self, state: OFULState) -> StoppedByPublicData:
        """Until V has grown."""
        return StoppedByPublicData(number=state.switches, users=self.horizon - state.rounds)

    def best(self, snapshot: OptimisticSnapshot, contexts: Floats) -> Ints:
        """The largest <x, theta>."""
        return self.act(replace(snapshot, radius=0.0), contexts, NoRandomness()).actions

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        """Of [004], appendix F."""
        return contextual.find_oful_bounds(setting)

    def _run_counts(self, state: OFULState) -> dict[str, Ints]:
        """How often it changed its mind."""
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
        """The least eigenvalue of V; "paper": lambda + lambda_0 t/4 - 8 log((t+3) d/a) - 2 sqrt(t log(..))."""
        if self.confidence == "exact" or self.eigenvalue is None:
            return max(self.ridge, float(np.linalg.eigvalsh(gram)[0]))
        log = math.log((rounds + 3) * self.dim / self.failure)
        return self.ridge + max(0.0, self.eigenvalue * rounds / 4 - 8 * log - 2 * math.sqrt(rounds * log))  # Lemma 12


def _log_det(matrix: Floats) -> float:
    return float(np.linalg.slogdet(matrix)[1])
