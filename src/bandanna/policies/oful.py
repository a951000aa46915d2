"""Rarely switching OFUL for contexts that are public: RS-OFUL, and AdaC-OFUL whose rewards are private.

    V_t = lambda I + sum_{s <= t} x_s x_s^T;   switch when det V_t > (1 + C) det V_tau, tau the last switch; then
    theta = V_t^{-1} (sum_{s <= t} x_s r_s + Y_1 + ... + Y_l),   Y_m ~ N(0, s^2 I) once per episode       [004, Alg. 3]
    action = argmax_x <x, theta> + beta |x|_{V_tau^{-1}}
    beta = s_r sqrt(2 log(2/a) + log(det V/lambda^d)) + S sqrt(lambda) + sqrt(l) s q_l / sqrt(lambda_min(V))
                                                                                                        [004, app. F]

Symbols: C `growth`, lambda `ridge`, a `failure`, S `parameter_bound`, s_r `reward_std` (sub-Gaussian, w/2 unless told),
q_l the chi quantile of d coordinates at a/(2 l (l+1)), s noise: an episode's sum moves by at most w L when one reward
is replaced (w width of the range, L `feature_bound`), so rho-zCDP is s^2 = (w L)^2/(2 rho). V is public.
Privacy: episodes end by a rule on V alone; each releases its own rewards once (`reward_noise`). Nothing is forgotten:
the sum of all releases so far is used.
References: Azize and Basu 2024 [004], Algorithm 3 and appendix F; Abbasi-Yadkori, Pal and Szepesvari 2011 (RS-OFUL).
Deviations: V is known, so its smallest eigenvalue is used where the paper bounds it by lambda + lambda_0 t/4 - ...,
which is negative for small t; `confidence="paper"` uses the larger of that bound and lambda. Any range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import Budget
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Box, all_finite, clip_norm
from bandanna.core.linalg import first_best
from bandanna.core.sums import add, exact_sum
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.laplace import Laplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.confidence import vector_quantile
from bandanna.policies.linucb import Snapshot, scores
from bandanna.policies.reward_noise import RewardNoise, reward_box, sum_sensitivity

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class State:
    """One run. Public: `gram` V, `vector` (all releases), `snapshot`; `pending`, `rest` are the server's until due."""

    gram: Floats  # (d, d)
    vector: Floats  # (d,)
    pending: Floats  # (d,): the exact sum of x r of the episode that is running
    rest: Floats  # (d,): what that sum has beyond its floats
    log_det: float  # of V at the last switch
    switches: int
    rounds: int
    snapshot: Snapshot


@dataclass(frozen=True, kw_only=True)
class OFUL:
    """Linear contextual bandit in R^`dim` over `horizon` rounds that changes its mind only when V has grown.

    budget           None (RS-OFUL), or a budget for the rewards (AdaC-OFUL); contexts are public
    reward_range     rewards are clipped into it; the noise scales with its width
    feature_bound    features are clipped to this norm
    growth           C: switch when the determinant has grown by 1 + C
    width            multiplier of the radius, 1 is the theorem; no matter to privacy
    confidence       "exact", or "paper" with `eigenvalue`, its lambda_0
    """

    dim: int
    horizon: int
    budget: Budget | None = None
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

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", "horizon")
        require.store(self, require.positive, "feature_bound", "parameter_bound", "ridge", "growth")
        if self.reward_std is not None:
            require.store(self, require.positive, "reward_std")
        require.store(self, require.non_negative, "width")
        require.store(self, require.chance, "failure")
        require.one_of("confidence", self.confidence, ("exact", "paper"))
        if self.confidence == "paper" and self.eigenvalue is None:
            raise InvalidArgument("eigenvalue", None, 'lambda_0, for confidence="paper"')
        _ = self.noise

    @cached_property
    def domain(self) -> Box:
        """The declared range."""
        return reward_box(self.reward_range)

    @cached_property
    def noise(self) -> RewardNoise:
        """Noise on an episode's sum of x r, with x public: one reward moves it by at most w |x|."""
        moved = sum_sensitivity(self.domain, users=1) * self.feature_bound  # products are rounded, their sums are not
        noise = RewardNoise(budget=self.budget, sensitivity=moved, dim=self.dim)
        if isinstance(noise.mechanism, Laplace):
            raise InvalidArgument("budget", self.budget, "a budget for Gaussian noise: ZCDP, RenyiDP, ApproxDP")
        return noise

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward; contexts are public."""
        stated = self.noise.guarantee
        public = (("everybody", "every user's features"),) if self.noise.noisy else ()
        return replace(stated, observers=(*stated.observers, *public))

    @property
    def subgaussian(self) -> float:
        """s_r."""
        return self.domain.sensitivity / 2 if self.reward_std is None else self.reward_std

    def init(self) -> State:
        """Nothing known."""
        gram = self.ridge * np.eye(self.dim)
        nothing = np.zeros(self.dim)
        log_det = self.dim * math.log(self.ridge)
        first = self._snapshot(gram, nothing, log_det, switches=0, rounds=0)
        empty = {"vector": nothing, "pending": nothing, "rest": nothing}
        return State(gram=gram, log_det=log_det, switches=0, rounds=0, snapshot=first, **empty)

    def act(self, state: State, contexts: Floats) -> NDArray[np.int64]:
        """The first arm with the largest index, of every round: (rounds, K, d) -> (rounds,)."""
        return first_best(scores(state.snapshot, clip_norm(contexts, self.feature_bound)))

    def crossing(self, state: State, features: Floats) -> int | None:
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

    def absorb(self, state: State, features: Floats, rewards: Floats) -> tuple[State, int]:
        """Rounds of the running episode, (n, d) and (n,); how many features and rewards had to be clipped."""
        all_finite("features", features)
        all_finite("rewards", rewards)
        x, y = clip_norm(features, self.feature_bound), self.domain.project(rewards)
        norms = np.einsum("ij,ij->i", features, features)
        long = norms > self.feature_bound**2 * (1 + 1e-9)
        clipped = int(np.count_nonzero(long | (np.abs(rewards - y) > 1e-9)))
        largest = self.feature_bound * self.domain.bound_of_entries
        pending, rest = add((state.pending, state.rest), exact_sum(x * y[:, None], largest))
        gram, rounds = state.gram + x.T @ x, state.rounds + len(x)
        return replace(state, gram=gram, pending=pending, rest=rest, rounds=rounds), clipped

    def learn(self, state: State, source: NoiseSource) -> State:
        """Switch: release the episode's sum, once, and publish a new snapshot."""
        vector = state.vector + self.noise.release(state.pending, source, rest=state.rest)
        log_det, switches = _log_det(state.gram), state.switches + 1
        snapshot = self._snapshot(state.gram, vector, log_det, switches=switches, rounds=state.rounds)
        return replace(
            state,
            vector=vector,
            pending=np.zeros(self.dim),
            rest=np.zeros(self.dim),
            log_det=log_det,
            switches=switches,
            snapshot=snapshot,
        )

    def _snapshot(self, gram: Floats, vector: Floats, log_det: float, *, switches: int, rounds: int) -> Snapshot:
        inverse: Floats = np.asarray(np.linalg.inv(gram), dtype=float)
        grown = max(0.0, log_det - self.dim * math.log(self.ridge))  # log(det V / lambda^d)
        radius = self.subgaussian * math.sqrt(2 * math.log(2 / self.failure) + grown)  # Lemma 11 of [004]
        radius += self.parameter_bound * math.sqrt(self.ridge)
        if switches and self.noise.noisy:
            quantile = vector_quantile(self.dim, self.failure / (2 * switches * (switches + 1)))  # q_l
            radius += math.sqrt(switches) * self.noise.std * quantile / math.sqrt(self._smallest(gram, rounds))
        return Snapshot(theta=inverse @ vector, inverse=inverse, radius=self.width * radius)

    def _smallest(self, gram: Floats, rounds: int) -> float:
        """The least eigenvalue of V; "paper": lambda + lambda_0 t/4 - 8 log((t+3) d/a) - 2 sqrt(t log(..))."""
        if self.confidence == "exact" or self.eigenvalue is None:
            return max(self.ridge, float(np.linalg.eigvalsh(gram)[0]))
        log = math.log((rounds + 3) * self.dim / self.failure)
        return self.ridge + max(0.0, self.eigenvalue * rounds / 4 - 8 * log - 2 * math.sqrt(rounds * log))  # Lemma 12


def _log_det(matrix: Floats) -> float:
    return float(np.linalg.slogdet(matrix)[1])
