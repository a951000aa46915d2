"""GLM-JDP: the policy, its constants, its reports and its price."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Ball, Estimate, Statistic, check_all_finite, clip_norm
from bandanna.errors import CalibrationError, InvalidArgument
from bandanna.numeric.linalg import positive_inverse, upper_triangle
from bandanna.numeric.rng import DeviceRandomness
from bandanna.numeric.search import find_least
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import APPROX, register_algorithm
from bandanna.policies.base import PlayedRounds, SumQuery
from bandanna.policies.glm.base import check_finite_budget, query_descent
from bandanna.policies.glm.estimation import project_onto_ball, project_onto_intersection
from bandanna.policies.glm.optimisers import NoisyGradient, compute_gradients, lemma_steps
from bandanna.policies.glm.rs_glinucb import (
    EXPLORED,
    REST,
    RareSwitchingPolicy,
    RoundBlock,
    compute_norms,
    first_true,
    select_features,
)
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget
from bandanna.privacy.calibration import parts_mu
from bandanna.privacy.events import PRICINGS, CompositionEvent, Event, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import Guarantee, compute_guarantee, find_worst_guarantee
from bandanna.protocols.base import FLOAT_BITS, stated_delta
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

SHARE = 0.5  # of the squared price for the matrices, in all presets
FLOOR = 0.05  # a released matrix that is not positive definite is shifted to this part of its regulariser
RAISED = 1.01  # the noise is at most so many times the ideal noise
_GROWTH = 2.0  # refit when a released matrix is not below twice its snapshot
_OBSERVERS = (
    ("the trusted server", "every user's contexts, arm and reward"),
    ("the public", "noisy matrices and estimates, and each user the arm chosen for them"),
)


@stored_as("GLMJDPState")
@dataclass(frozen=True, kw_only=True)
class GLMJDPState:
    """The released stack of V and H, their snapshots at the last refits, and the estimates: all public."""

    rounds: Ints  # (*R)
    released: Floats  # (*R, d(d+1))
    v_o: Floats  # (*R, d, d)
    h_tau: Floats  # (*R, d, d)
    h_inverse: Floats  # (*R, d, d): of H_tau
    theta_o: Floats  # (*R, d)
    theta_tau: Floats  # (*R, d)
    calls_o: Ints  # (*R)
    calls_tau: Ints  # (*R)
    repairs: Ints  # (*R): rounds whose V had to be shifted


@stored_as("GLMJDPSnapshot")
@dataclass(frozen=True, kw_only=True)
class GLMJDPSnapshot:
    """All that a device needs to choose an arm."""

    v_inverse: Floats  # (*R, d, d)
    h_inverse: Floats  # (*R, d, d)
    theta_o: Floats  # (*R, d)
    theta_tau: Floats  # (*R, d)


@register_algorithm(
    "GLM-JDP",
    paper="003",
    trust="central",
    guarantee="(epsilon, delta), rho-zCDP",
    protects="contexts and rewards",
    budgets=(APPROX, ("rho",)),
    options=("mechanism",),
)
@stored_as("GLMJDP")
@dataclass(frozen=True, kw_only=True)
class GLMJDP(RareSwitchingPolicy[GLMJDPState]):
    """Generalised linear bandit with joint differential privacy for contexts and rewards, for any contexts.

    1. The server publishes V^{-1}, H_tau^{-1}, theta_o and theta_tau, all from releases.
    2. Criterion I, max_x |x|^2_{V^{-1}} >= threshold: the device plays the argmax. Otherwise it eliminates arms with
       theta_o and plays the argmax of <x, theta_tau> + beta |x|_{H_tau^{-1}}.
    3. The device reports the leaf (x x^T, 0), or (0, w x x^T) without exploration, w = min(mu'(<x, theta_o>), L_mu)/e;
       and gradients of the loss at the points of step 5.
    4. The server queries the running sum of all leaves: V - lambda_V I and H - lambda_H I.
    5. If V is not <= 2 V_o, the server fits theta_o again from noisy gradients of explored rounds; if H is not
       <= 2 H_tau, theta_tau from those of the others, while calls are left.

    Privacy: refits are decided from released matrices; [003], Algorithm 2, as printed decides from raw contexts, which
    leaks. The accountant prices a replaced user who explored in both worlds, in neither, or in exactly one, and states
    the worst (docs/appendix/proofs.md, I). Steps, calls, thresholds and widths must be public: kappa and S may not be
    computed from users' data. Further parameters: `GLMPolicy`.

    Parameters
    ----------
    privacy
        `bd.central(epsilon=..., delta=...)` or `bd.central(rho=...)`. Its `mechanism` is that of the continual
        release: "blt", or "tree" as in the paper.
    preset
        "tuned": our constants, with Newton steps (docs/appendix/proofs.md, I). "greedy": the same without criterion I.
        "paper": constants by theory and the gradient steps of Lemma U.4.
    constants
        All constants at once, in place of a preset's.
    pricing
        "joint", or "separate": as if the worst cases of leaf and gradients could meet, with more noise.
    """

    trusts = ("central",)
    execution = replace(
        RareSwitchingPolicy.execution, noise_stream="refit noise", stream_noise="noise", player="blocks"
    )

    privacy: Privacy
    preset: str = "tuned"
    constants: GLMJDPConstants | None = None
    pricing: str = "joint"

    def publish(self, state: GLMJDPState) -> GLMJDPSnapshot:
        return GLMJDPSnapshot(
            v_inverse=self.v_inverse(state.released)[0],
            h_inverse=state.h_inverse,
            theta_o=state.theta_o,
            theta_tau=state.theta_tau,
        )

    def act(self, snapshot: GLMJDPSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return self.decide(contexts, snapshot.v_inverse, snapshot.theta_o, snapshot.theta_tau, snapshot.h_inverse)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        domain, features = query.protocol.domain, played.features
        assert features is not None
        if isinstance(domain, LeafDomain):
            assert played.groups is not None
            weights = self.leaf_weights(query.at, self.clip_features(features))
            return domain.statistic(features, weights, played.groups == EXPLORED)
        assert isinstance(domain, Ball)
        return compute_gradients(self.model, domain, query.at, features, played.rewards)

    def make_round_query(self, state: GLMJDPState) -> SumQuery:
        return SumQuery(protocol=self.stream, at=state.theta_o, part=self.mechanisms.leaf_part)

    def record_round(self, state: GLMJDPState, released: Floats) -> GLMJDPState:
        repairs = state.repairs + self.v_inverse(state.released)[1]
        return replace(state, rounds=state.rounds + 1, released=released, repairs=repairs)

    def needs_refit(self, state: GLMJDPState) -> Bools:
        return np.asarray(np.any(self._outgrown(state, state.released[..., None, :]), axis=(-2, -1)))

    def refit(self, state: GLMJDPState) -> Generator[SumQuery, Estimate, GLMJDPState]:
        (again_o, again_tau), used = self._outgrown(state, state.released[None])[0], self.used
        v, h = self.matrices(state.released)
        if again_o:
            state = replace(state, v_o=v)
        if again_tau:
            inverse = positive_inverse(h, floor=FLOOR * used.regulariser_h)[0]
            state = replace(state, h_tau=h, h_inverse=inverse)
        if again_o:
            bound = self._definite(state.v_o * self.model.slope_bound, used.regulariser_v)
            theta = yield from self._estimate(state, "explored", state.theta_o, bound)
            state = replace(state, theta_o=theta, calls_o=state.calls_o + 1)
        if again_tau:
            bound = self._definite(state.h_tau * math.e, used.regulariser_h)
            theta = yield from self._estimate(state, "rest", state.theta_tau, bound)
            state = replace(state, theta_tau=theta, calls_tau=state.calls_tau + 1)
        return state

    def _estimate(
        self, state: GLMJDPState, group: str, start: Floats, bound: Floats
    ) -> Generator[SumQuery, Estimate, Floats]:
        """Fit theta_o or theta_tau of one run; `bound` is a released matrix that bounds the Hessian."""
        s, rest = self.parameter_bound, group == "rest"
        optimiser = self.mechanisms.estimate_tau if rest else self.mechanisms.estimate_o
        near = self._definite(state.v_o, self.used.regulariser_v) if rest and state.calls_o else None

        def project(theta: Floats) -> Floats:
            if near is None:
                return project_onto_ball(theta, s)
            return project_onto_intersection(
                theta, ball=s, centre=state.theta_o, matrix=near, radius=self.elimination, sweeps=20
            )

        points = optimiser.descend(
            start,
            count=int(state.rounds),
            ridge=self.used.ridge,
            matrix=bound + self.used.ridge * np.eye(self.dim) if self.used.newton else None,
            project=project,
        )
        part, step = self.mechanisms.gradient_part, 1 + self.used.steps * rest
        return (yield from query_descent(points, optimiser.protocol, group=group, step=step, part=part))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite_budget(self.privacy, (ApproxDP, ZCDP), "a finite epsilon and delta, or rho", "RS-GLinUCB")
        validation.one_of("preset", self.preset, tuple(CONSTANTS))
        validation.one_of("pricing", self.pricing, PRICINGS)
        if self.constants is not None and not isinstance(self.constants, GLMJDPConstants):
            raise InvalidArgument("constants", self.constants, "GLMJDPConstants(...), or None for those of the preset")

    @property
    def _budget(self) -> Budget:
        assert self.privacy.budget is not None
        return self.privacy.budget

    @cached_property
    def used(self) -> GLMJDPConstants:
        if self.constants is not None:
            return self.constants
        mu = parts_mu(self._budget, SHARE, weighted=True, joint=self.pricing == "joint")
        return CONSTANTS[self.preset](self, mu, self.privacy.mechanism)

    @cached_property
    def mechanisms(self) -> GLMJDPMechanisms:
        found = calibrate_glm_jdp(self)
        for estimate in (found.estimate_o, found.estimate_tau):
            estimate.protocol.check_horizon(self.horizon)  # how many explored is private: no size of a group may decide
        return found

    @cached_property
    def guarantee(self) -> Guarantee:
        return self.mechanisms.guarantee(stated_delta(self._budget))

    @property
    def threshold(self) -> float:
        return self.used.threshold

    @property
    def elimination(self) -> float:
        return self.used.elimination

    @property
    def bonus(self) -> float:
        return self.used.bonus

    @property
    def stream(self) -> CentralContinual:
        return self.mechanisms.matrices

    @property
    def _bits_per_user(self) -> int:
        return FLOAT_BITS * (self.dim + 1) + 1  # x and the reward, for leaf and gradients; explored or not

    @property
    def numbers_per_user(self) -> int:
        return self.dim + 1

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GLMJDPState:
        stack, nothing = np.zeros((*replicates, self.stream.domain.dim)), np.zeros((*replicates, self.dim))
        v, h = self.matrices(stack)
        none = np.zeros(replicates, dtype=np.int64)
        return GLMJDPState(
            rounds=none,
            released=stack,
            v_o=v,
            h_tau=h,
            h_inverse=positive_inverse(h, floor=1.0)[0],
            theta_o=nothing,
            theta_tau=nothing,
            calls_o=none,
            calls_tau=none,
            repairs=none,
        )

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return contextual_bounds.find_glm_jdp_bounds(setting)

    def _run_counts(self, state: GLMJDPState) -> dict[str, Ints]:
        return {"switches": state.calls_tau, "refits of theta_o": state.calls_o, "repairs": state.repairs}

    def _theta(self, snapshot: GLMJDPSnapshot) -> Floats:
        return snapshot.theta_tau

    def matrices(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Return regularised V and H (..., d, d) from released stacks (..., d(d+1))."""
        eye, unit = np.eye(self.dim), self.model.slope_bound / math.e
        v, h = self.mechanisms.leaves.unpack(stacked)
        return v + self.used.regulariser_v * eye, unit * h + self.used.regulariser_h * eye

    def v_inverse(self, stacked: Floats) -> tuple[Floats, Ints]:
        return positive_inverse(self.matrices(stacked)[0], floor=FLOOR * self.used.regulariser_v)

    def leaf_weights(self, theta_o: Floats, features: Floats) -> Floats:
        """Return w in units of L_mu/e, at most 1: (*R, d), (*R, n, d) -> (*R, n)."""
        return self.weights(theta_o, features) * math.e / self.model.slope_bound

    def _exceeds_twice(self, matrix: Floats, snapshot: Floats) -> Bools:
        """Return whether a pivot of 2 snapshot - matrix is not positive."""
        gap = np.moveaxis(_GROWTH * snapshot - matrix, (-2, -1), (0, 1)).copy()  # (d, d, ...)
        broken = np.zeros(gap.shape[2:], dtype=bool)
        for k in range(self.dim):  # Cholesky pivots, all matrices at once
            broken |= ~(gap[k, k] > 0)
            pivot = np.where(broken, 1.0, gap[k, k])
            gap[k + 1 :, k + 1 :] -= gap[k + 1 :, k, None] * gap[None, k, k + 1 :] / pivot
        return broken

    def _outgrown(self, state: GLMJDPState, stacked: Floats) -> Bools:
        v, h = self.matrices(stacked)
        left_o, left_tau = state.calls_o < self.used.calls_o, state.calls_tau < self.used.calls_tau
        return np.stack(
            [
                self._exceeds_twice(v, state.v_o[..., None, :, :]) & left_o[..., None],
                self._exceeds_twice(h, state.h_tau[..., None, :, :]) & left_tau[..., None],
            ],
            axis=-1,
        )

    def _definite(self, matrix: Floats, regulariser: float) -> Floats:
        return np.asarray(np.linalg.inv(positive_inverse(matrix, floor=FLOOR * regulariser)[0]), dtype=float)

    def decide_block(
        self, state: GLMJDPState, contexts: Floats, valid: Bools, totals: Floats | None
    ) -> RoundBlock[GLMJDPState]:
        assert totals is not None
        index, place = np.arange(len(contexts)), np.arange(contexts.shape[1])
        inverse, repaired = self.v_inverse(totals[:, :-1])
        norms = compute_norms(contexts, inverse)
        explore = valid & (norms.max(axis=2) >= self.threshold)
        actions = self.choose(contexts, norms, state.theta_o, state.theta_tau, state.h_inverse)
        first = explore[:, 0]
        actions[first, 0] = np.argmax(norms[first, 0], axis=1)
        x, explored = select_features(contexts, actions), first[:, None] & (place == 0)
        leaves = self.mechanisms.leaves.stack(x, self.leaf_weights(state.theta_o, x), explored)
        added = np.cumsum(leaves, axis=1)  # (s, B, dim)
        released = totals[:, 1:] + added
        outgrown = np.any(self._outgrown(state, released), axis=2)
        taken = np.where(first, 1, np.minimum(first_true(explore), valid.sum(axis=1)))
        taken = np.minimum(taken, first_true(outgrown) + 1)
        last = taken - 1
        after = replace(
            state,
            rounds=state.rounds + taken,
            released=released[index, last],
            repairs=state.repairs + np.sum(repaired * (place < taken[:, None]), axis=1),
        )
        groups = np.where(explored, EXPLORED, REST)
        due = outgrown[index, last]
        return RoundBlock(actions=actions, groups=groups, taken=taken, state=after, due=due, added=added[index, last])


# Constants. Privacy holds for any of them.


@stored_as("GLMJDPConstants")
@dataclass(frozen=True, kw_only=True)
class GLMJDPConstants:
    """All constants of GLM-JDP.

    Parameters
    ----------
    share
        Share of the squared price for the matrices; the estimates get the rest.
    steps
        Gradients in one estimate.
    calls_o, calls_tau
        Estimates of each kind. When they are used up, that estimate is frozen.
    regulariser_v, regulariser_h
        lambda of V and of H.
    ridge
        Ridge of the estimates' loss.
    threshold
        Threshold of criterion I; infinite: never met.
    elimination
        Half-width of theta_o's bounds, in |x|_{V^{-1}}; infinite: no elimination.
    bonus
        beta.
    newton
        Newton steps with the released matrix instead of the lemma's.
    """

    share: float
    steps: int
    calls_o: int
    calls_tau: int
    regulariser_v: float
    regulariser_h: float
    ridge: float
    threshold: float
    elimination: float
    bonus: float
    newton: bool = True

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.open_probability, "share")
        validation.set_validated(self, validation.integer, "steps", "calls_o", "calls_tau")
        validation.set_validated(self, validation.positive, "regulariser_v", "regulariser_h", "ridge")
        validation.set_validated(self, validation.positive, "threshold", "elimination", "bonus", infinite=True)


def noise_norms(policy: GLMJDP, mu: float, mechanism: str, share: float) -> tuple[float, float]:
    """Return n_V and n_H, which the noise of V and H exceeds in norm in any round with probability at most z.

    n = s (sqrt(2d) + sqrt(2 log(2T/z))), z = `failure`, with s the std of the worst prefix [003, 3.5].
    """
    worst = math.sqrt(2) * factorise(mechanism, horizon=policy.horizon).unit_std() / (math.sqrt(share) * mu)
    log = math.log(2 * policy.horizon / policy.failure)
    norm = worst * (math.sqrt(2 * policy.dim) + math.sqrt(2 * log))
    return norm, norm * policy.model.slope_bound / math.e


def paper_constants(policy: GLMJDP, mu: float, mechanism: str) -> GLMJDPConstants:
    """Return the constants by theory, with M the self-concordance constant and l = lambda +- n.

        lambda  = max(d log(T/z)/R^2, 6 n_V, 6 n_H),                               of both matrices and of the losses
        N       = rho_estimates T^2 / (2 calls (d + log(1/z))), at most 500         steps of an estimate (Lemma U.4)
        M_o     = d log(l_max/l_min + T/(d l_min)) / log(3/2),   M_tau the same with T L_mu/e
        nu      = the excess loss of an estimate after N steps, except with probability z/T (`worst_excess`)
        a       = sqrt(lambda)/(2R) + (2R/sqrt lambda) (log(1/z) + d log 2 + (d/2) log(1 + T L_mu/(d lambda)))
                  + S sqrt lambda
        gamma   = sqrt(l_max/lambda) (2 (1 + M S) a + sqrt(2 (1 + M S) nu_o))
        beta    = sqrt(l_max/lambda) (4 a + 2 sqrt nu_tau)

    Criterion I is at 1/(gamma^2 kappa M^2), never if M = 0; elimination is gamma sqrt(kappa). The cap of N is ours.
    """
    link, d, s, horizon = policy.model, policy.dim, policy.parameter_bound, policy.horizon
    concordance = link.concordance(s)
    price = math.sqrt(1 - SHARE) * mu  # of the estimates
    norms = noise_norms(policy, mu, mechanism, SHARE)
    weights = (1.0, link.slope_bound / math.e)
    regulariser = max(d * policy.log_term / link.reward_bound**2, *(6 * norm for norm in norms))
    calls = [_bound_calls(d, horizon, regulariser, norm, weight) for norm, weight in zip(norms, weights, strict=True)]
    steps = lemma_steps(rho=price**2 / 2 / max(calls), count=horizon, dim=d, failure=policy.failure)
    estimates = [
        NoisyGradient.priced(link=link, dim=d, parameter_bound=s, steps=steps, mu=price / RAISED, calls=count)
        for count in calls
    ]
    failure = policy.failure / horizon
    losses = [each.worst_excess(horizon=horizon, ridge=regulariser, failure=failure) for each in estimates]
    radius = _radius(policy, regulariser)
    wider = [math.sqrt((regulariser + norm) / regulariser) for norm in norms]
    curved = 2 * (1 + concordance * s)
    gamma = wider[0] * (curved * radius + math.sqrt(curved * losses[0]))
    return GLMJDPConstants(
        share=SHARE,
        steps=steps,
        calls_o=calls[0],
        calls_tau=calls[1],
        regulariser_v=regulariser,
        regulariser_h=regulariser,
        ridge=regulariser,
        threshold=1 / (gamma**2 * policy.curvature * concordance**2) if concordance > 0 else math.inf,
        elimination=gamma * math.sqrt(policy.curvature),
        bonus=wider[1] * (4 * radius + 2 * math.sqrt(losses[1])),
        newton=False,
    )


def _bound_calls(dim: int, horizon: int, regulariser: float, norm: float, weight: float) -> int:
    low, high = regulariser - norm, regulariser + norm
    return max(1, math.floor(dim * math.log(high / low + horizon * weight / (low * dim)) / math.log(1.5)))


def _radius(policy: GLMJDP, regulariser: float) -> float:
    """Return a (Faury et al. 2020, Theorem 1; Lemma K.2)."""
    d, r, root = policy.dim, policy.model.reward_bound, math.sqrt(regulariser)
    volume = d / 2 * math.log(1 + policy.horizon * policy.model.slope_bound / (d * regulariser))
    log = math.log(1 / policy.failure) + d * math.log(2) + volume
    return root / (2 * r) + 2 * r / root * log + policy.parameter_bound * root


def tuned_constants(policy: GLMJDP, mu: float, mechanism: str) -> GLMJDPConstants:
    """Return our constants, found by trial on two instances that are not the paper's."""
    norms = noise_norms(policy, mu, mechanism, SHARE)
    return GLMJDPConstants(
        share=SHARE,
        steps=4,
        calls_o=3,
        calls_tau=6,
        regulariser_v=norms[0],
        regulariser_h=norms[1],
        ridge=1.0,
        threshold=1 / (norms[0] + 0.3 * policy.curvature),
        elimination=2 * math.sqrt(policy.curvature),
        bonus=1.0,
    )


def greedy_constants(policy: GLMJDP, mu: float, mechanism: str) -> GLMJDPConstants:
    """Return the tuned constants without criterion I and elimination, for diverse contexts."""
    tuned = tuned_constants(policy, mu, mechanism)
    return replace(tuned, calls_o=1, threshold=math.inf, elimination=math.inf)


CONSTANTS = {"tuned": tuned_constants, "greedy": greedy_constants, "paper": paper_constants}


# Reports


@stored_as("Leaves")
@dataclass(frozen=True, kw_only=True)
class LeafDomain(Ball):
    """Leaves (x x^T, 0) or (0, w x x^T), 0 <= w <= 1: stacked upper triangles, off-diagonal entries times sqrt 2.

    The stacking is an isometry. Two leaves have <A, B> >= 0, so |A - B| <= sqrt 2, whichever blocks they are in.
    """

    dim: int = 0  # derived from `size`
    size: int

    def __post_init__(self) -> None:
        size = validation.integer("size", self.size)
        object.__setattr__(self, "dim", size * (size + 1))
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2) * self.bound

    @cached_property
    def _scale(self) -> Floats:
        rows, columns = upper_triangle(self.size)
        return np.where(rows == columns, 1.0, math.sqrt(2))

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], Floats]:
        """Return each entry's place in a block, and its inverse scaling: (d, d)."""
        rows, columns = upper_triangle(self.size)
        place = np.zeros((self.size, self.size), dtype=np.intp)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return place, np.where(np.eye(self.size, dtype=bool), 1.0, math.sqrt(0.5))

    def project(self, values: Floats) -> Floats:
        parts = []
        for block in self.unpack(values):
            eigenvalues, vectors = np.linalg.eigh(block)
            positive = (vectors * np.maximum(eigenvalues, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            parts.append(positive[..., *upper_triangle(self.size)] * self._scale)
        return clip_norm(np.concatenate(parts, axis=-1), self.bound)

    def unpack(self, stacked: Floats) -> tuple[Floats, Floats]:
        place, unscaled = self._places
        half = self.dim // 2
        return stacked[..., :half][..., place] * unscaled, stacked[..., half:][..., place] * unscaled

    def stack(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Floats:
        """Return leaves of |x| <= 1 (..., d) and w (...), in the first block if explored."""
        rows, columns = upper_triangle(self.size)
        outer = features[..., rows] * features[..., columns] * self._scale
        relative, flags = np.clip(weights, 0.0, 1.0)[..., None], explored[..., None]
        return np.concatenate([np.where(flags, outer, 0.0), np.where(flags, 0.0, relative * outer)], axis=-1)

    def statistic(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Statistic:
        """Return users' leaves (..., users, d), clipped before they are formed, and counted."""
        check_all_finite("features", features)
        check_all_finite("weights", weights)
        x = clip_norm(features, 1.0)
        moved = np.any(np.abs(x - features) > 1e-9, axis=-1)
        return self.sealed(self.stack(x, weights, explored), clipped=np.sum(moved, axis=-1, dtype=np.int64))


# Price


@dataclass(frozen=True, kw_only=True)
class GLMJDPMechanisms:
    """Everything that adds noise in GLM-JDP."""

    matrices: CentralContinual  # of leaves (x x^T, (e/L_mu) w x x^T)
    estimate_o: NoisyGradient
    estimate_tau: NoisyGradient
    joint: bool = True  # leaf and gradients are of the same x, and priced so

    @property
    def leaf_part(self) -> str | None:
        return "weighted" if self.joint else None

    @property
    def gradient_part(self) -> str | None:
        return "vector" if self.joint else None

    @property
    def leaves(self) -> LeafDomain:
        assert isinstance(self.matrices.domain, LeafDomain)
        return self.matrices.domain

    @property
    def lives(self) -> tuple[CompositionEvent, ...]:
        """Return the prices of a replaced user, by exploration in both worlds."""
        shared: Event = SumQuery(protocol=self.matrices, part=self.leaf_part).event()
        whole = [
            RepetitionEvent(
                event=SumQuery(protocol=each.protocol, part=self.gradient_part).event(), times=each.event.times
            )
            for each in (self.estimate_o, self.estimate_tau)
        ]
        halves = self.estimate_o.half_event, self.estimate_tau.half_event
        return (
            *(CompositionEvent(events=(shared, each)) for each in whole),
            CompositionEvent(events=(shared, *halves)),
        )

    def satisfies(self, budget: Budget) -> bool:
        return all(accountant.satisfies(life, budget) for life in self.lives)

    def guarantee(self, delta: float) -> Guarantee:
        protects = "contexts and rewards"
        return find_worst_guarantee(
            [
                compute_guarantee(life, delta=delta, trust="central", protects=protects, observers=_OBSERVERS)
                for life in self.lives
            ]
        )


def calibrate_glm_jdp(policy: GLMJDP) -> GLMJDPMechanisms:
    """Return the least noise: mu_matrix^2 = share m^2, mu_o^2 = mu_tau^2 = (1 - share) m^2, raised by what grids cost.

    m^2 is mu^2, divided by the most that these shares cost together if priced jointly.
    """
    used, joint, budget = policy.used, policy.pricing == "joint", policy._budget
    mu = parts_mu(budget, used.share, weighted=True, joint=joint)
    factors, domain = factorise(policy.privacy.mechanism, horizon=policy.horizon), LeafDomain(size=policy.dim)
    std = domain.sensitivity * factors.sensitivity() / (math.sqrt(used.share) * mu)

    def mechanisms(raised: float) -> GLMJDPMechanisms:
        estimates = [
            NoisyGradient.priced(
                link=policy.model,
                dim=policy.dim,
                parameter_bound=policy.parameter_bound,
                steps=used.steps,
                mu=math.sqrt(1 - used.share) * mu / raised,
                calls=count,
            )
            for count in (used.calls_o, used.calls_tau)
        ]
        matrices = CentralContinual(domain=domain, factorisation=factors, noise_std=raised * std)
        return GLMJDPMechanisms(matrices=matrices, estimate_o=estimates[0], estimate_tau=estimates[1], joint=joint)

    if not mechanisms(RAISED).satisfies(budget):
        raise CalibrationError(f"no noise within 1 % of the ideal meets {budget}")
    return mechanisms(find_least(lambda raised: mechanisms(raised).satisfies(budget), 1.0, RAISED, relative=1e-6))
