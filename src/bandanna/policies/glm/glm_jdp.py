"""GLM-JDP."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import positive_inverse
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import APPROX, register_algorithm
from bandanna.policies.base import PlayedRounds, SumQuery
from bandanna.policies.glm.base import check_finite_budget, query_descent
from bandanna.policies.glm.estimation import project_onto_ball, project_onto_intersection
from bandanna.policies.glm.glm_jdp_privacy import RAISED, GLMJDPMechanisms, calibrate_glm_jdp
from bandanna.policies.glm.optimisers import NoisyGradient, compute_gradients, lemma_steps
from bandanna.policies.glm.rs_glinucb import (
    EXPLORED,
    REST,
    LeafDomain,
    RareSwitchingPolicy,
    RoundBlock,
    compute_norms,
    first_true,
    select_features,
)
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget
from bandanna.privacy.calibration import parts_mu
from bandanna.privacy.events import PRICINGS
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import FLOAT_BITS, stated_delta
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

if TYPE_CHECKING:
    from typing import Any

    from bandanna.policies.glm.base import GLMPolicy


# Constants of GLM-JDP: by theory, and tuned. Privacy holds for any of them.
#
# They belong to mu, where mu^2 is the sum of the squared prices of matrices and estimates (`parts_mu`).
#
# Theory (paper 003): with n_V and n_H bounds on the noise of V and H in norm for all rounds, M the self-
# concordance constant, z = `failure`:
#
#     lambda  = max(d log(T/z)/R^2, 6 n_V, 6 n_H),                               of both matrices and of the losses
#     N       = rho_estimates T^2 / (2 calls (d + log(1/z))), at most 500         steps of an estimate (Lemma U.4)
#     M_o     = d log(l_max/l_min + T/(d l_min)) / log(3/2),   M_tau the same with T L_mu/e,   l = lambda +- n
#     nu      = the excess loss of an estimate after the N steps that run, except with probability z/T
#               (`NoisyGradient.worst_excess`); below the cap of order S G sqrt(calls (d + log(T/z)) / rho_estimates)
#     a       = sqrt(lambda)/(2R) + (2R/sqrt lambda) (log(1/z) + d log 2 + (d/2) log(1 + T L_mu/(d lambda)))
#               + S sqrt lambda
#     gamma   = sqrt(l_max/lambda) (2 (1 + M S) a + sqrt(2 (1 + M S) nu_o))
#     beta    = sqrt(l_max/lambda) (4 a + 2 sqrt nu_tau)
#     criterion I at 1/(gamma^2 kappa M^2), never if M = 0,     elimination gamma sqrt(kappa)
#
# The cap is ours: uncapped, an estimate would take N T gradients, which is of order T^3. nu and so the widths are those
# of the capped number.


SHARE = 0.5  # of the squared price for the matrices, in all presets


@stored_as("GLMJDPConstants")
@dataclass(frozen=True, kw_only=True)
class GLMJDPConstants:
    """All constants of GLM-JDP.

    share                  of the squared price for the matrices; the estimates get the rest
    steps                  gradients in one estimate
    calls_o, calls_tau     estimates of each kind; when they are used up, that estimate is frozen
    regulariser_v, _h      lambda of V and of H
    ridge                  of the estimates' loss
    threshold              of criterion I; infinite: it never fires
    elimination            half-width of theta_o's bounds, in |x|_{V^{-1}}; infinite: nothing is eliminated
    bonus                  beta
    newton                 steps with the released matrix instead of the lemma's
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


def noise_norms(policy: GLMPolicy[Any], mu: float, mechanism: str, share: float) -> tuple[float, float]:
    """n_V and n_H: s (sqrt(2d) + sqrt(2 log(2T/z))) with s the std of the worst prefix, over all rounds (3.5)."""
    worst = math.sqrt(2) * factorise(mechanism, horizon=policy.horizon).unit_std() / (math.sqrt(share) * mu)
    log = math.log(2 * policy.horizon / policy.failure)
    norm = worst * (math.sqrt(2 * policy.dim) + math.sqrt(2 * log))
    return norm, norm * policy.model.slope_bound / math.e


def paper_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> GLMJDPConstants:
    """By theory, equal shares for matrices and estimates."""
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
    """M of 3.8: how often a noisy matrix can outgrow its snapshot twice over."""
    low, high = regulariser - norm, regulariser + norm
    return max(1, math.floor(dim * math.log(high / low + horizon * weight / (low * dim)) / math.log(1.5)))


def _radius(policy: GLMPolicy[Any], regulariser: float) -> float:
    """a: concentration by Faury et al. 2020, Theorem 1 (Lemma K.2), and the bias of the regulariser."""
    d, r, root = policy.dim, policy.model.reward_bound, math.sqrt(regulariser)
    volume = d / 2 * math.log(1 + policy.horizon * policy.model.slope_bound / (d * regulariser))
    log = math.log(1 / policy.failure) + d * math.log(2) + volume
    return root / (2 * r) + 2 * r / root * log + policy.parameter_bound * root


def tuned_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> GLMJDPConstants:
    """Ours, by trial on instances that are not the paper's (papers.md): nothing of them is proven but the privacy.

    Criterion I at 1/(lambda_V + 0.3 kappa): it fires until V exceeds the regulariser that the noise asks for by 0.3
    kappa in every direction, whatever lambda_V is.
    """
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


def greedy_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> GLMJDPConstants:
    """The tuned ones without criterion I and without elimination: for contexts that are diverse by themselves."""
    tuned = tuned_constants(policy, mu, mechanism)
    return replace(tuned, calls_o=1, threshold=math.inf, elimination=math.inf)


CONSTANTS = {
    "tuned": tuned_constants,
    "greedy": greedy_constants,
    "paper": paper_constants,
}


# What GLM-JDP is configured with, what it costs, and how its releases are read.


State = TypeVar("State")

FLOOR = 0.05  # a released matrix that is not positive definite is shifted to this part of its regulariser
_GROWTH = 2.0  # refit when a released matrix is not below twice its snapshot


@dataclass(frozen=True, kw_only=True)
class GLMJDPBase(RareSwitchingPolicy[State]):
    """Configuration, constants and price; released stacks as matrices."""

    trusts = ("central",)

    privacy: Privacy
    preset: str = "tuned"
    constants: GLMJDPConstants | None = None
    pricing: str = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite_budget(self.privacy, (ApproxDP, ZCDP), "a finite epsilon and delta, or rho", "RS-GLinUCB")
        validation.one_of("preset", self.preset, tuple(CONSTANTS))
        validation.one_of("pricing", self.pricing, PRICINGS)
        if self.constants is not None and not isinstance(self.constants, GLMJDPConstants):
            raise InvalidArgument("constants", self.constants, "GLMJDPConstants(...), or None for those of the preset")

    @property
    def budget(self) -> Budget:
        """Of one user."""
        assert self.privacy.budget is not None
        return self.privacy.budget

    @cached_property
    def used(self) -> GLMJDPConstants:
        """The constants that are used: given, tuned or by theory."""
        if self.constants is not None:
            return self.constants
        mu = parts_mu(self.budget, SHARE, weighted=True, joint=self.pricing == "joint")
        return CONSTANTS[self.preset](self, mu, self.privacy.mechanism)

    @cached_property
    def mechanisms(self) -> GLMJDPMechanisms:
        """Everything that adds noise."""
        found = calibrate_glm_jdp(
            link=self.model,
            dim=self.dim,
            horizon=self.horizon,
            parameter_bound=self.parameter_bound,
            budget=self.budget,
            mechanism=self.privacy.mechanism,
            share=self.used.share,
            steps=self.used.steps,
            calls=(self.used.calls_o, self.used.calls_tau),
            joint=self.pricing == "joint",
        )
        for estimate in (found.estimate_o, found.estimate_tau):
            estimate.protocol.check_horizon(self.horizon)  # how many explored is private: no size of a group may decide
        return found

    @cached_property
    def guarantee(self) -> Guarantee:
        """Joint differential privacy, computed for what runs."""
        return self.mechanisms.guarantee(stated_delta(self.budget))

    @property
    def regulariser(self) -> float:
        """lambda_V."""
        return self.used.regulariser_v

    @property
    def threshold(self) -> float:
        """Of criterion I."""
        return self.used.threshold

    @property
    def elimination(self) -> float:
        """Half-width of theta_o's bounds."""
        return self.used.elimination

    @property
    def bonus(self) -> float:
        """beta."""
        return self.used.bonus

    @property
    def stream(self) -> CentralContinual:
        """Of the leaves of all rounds."""
        return self.mechanisms.matrices

    @property
    def _bits_per_user(self) -> int:
        """x and the reward, for leaf and gradients; explored or not."""
        return FLOAT_BITS * (self.dim + 1) + 1

    @property
    def numbers_per_user(self) -> int:
        """x and the reward."""
        return self.dim + 1

    def matrices(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Released stacks (..., d(d+1)) as V and H, regularised: (..., d, d) each."""
        eye, unit = np.eye(self.dim), self.model.slope_bound / math.e
        v, h = self.mechanisms.leaves.unpack(stacked)
        return v + self.used.regulariser_v * eye, unit * h + self.used.regulariser_h * eye

    def v_inverse(self, stacked: Floats) -> tuple[Floats, Ints]:
        """V^{-1} of released stacks, and where V had to be shifted."""
        return positive_inverse(self.matrices(stacked)[0], floor=FLOOR * self.used.regulariser_v)

    def leaf_weights(self, theta_o: Floats, features: Floats) -> Floats:
        """w in units of L_mu/e, so that it is at most 1: (*R, d), (*R, n, d) -> (*R, n)."""
        return self.weights(theta_o, features) * math.e / self.model.slope_bound

    def outgrown(self, matrix: Floats, snapshot: Floats) -> NDArray[np.bool_]:
        """Whether matrix <= 2 snapshot fails: a pivot of the difference is not positive; (..., d, d) -> (...)."""
        gap = np.moveaxis(_GROWTH * snapshot - matrix, (-2, -1), (0, 1)).copy()  # (d, d, ...)
        broken = np.zeros(gap.shape[2:], dtype=bool)
        for k in range(self.dim):  # Cholesky pivots, all matrices at once
            broken |= ~(gap[k, k] > 0)
            pivot = np.where(broken, 1.0, gap[k, k])
            gap[k + 1 :, k + 1 :] -= gap[k + 1 :, k, None] * gap[None, k, k + 1 :] / pivot
        return broken


# GLM-JDP: generalised linear bandits under joint differential privacy (paper [003], Algorithm 2, repaired).
#
# Round t, with released matrices V, H and private estimates theta_o, theta_tau, for contexts chosen by anybody:
#
#     criterion I   max_x |x|^2_{V^{-1}} >= threshold: play the argmax; the leaf (x x^T, 0) goes into the stream
#     otherwise     eliminate with theta_o, play argmax <x, theta_tau> + beta |x|_{H_tau^{-1}}; the leaf (0, w x x^T)
#     release       V = lambda_V I + noisy prefix sum of the first parts,   H = lambda_H I + that of the second parts
#     refits        theta_o if V is not <= 2 V_o, theta_tau if H is not <= 2 H_tau, while their budgets of calls last
#
# Symbols: w = min(mu'(<x, theta_o>), L_mu)/e; G the residuals' bound; V_o, H_tau the matrices at the last refit.
#
# What the paper prints leaks: its criterion I reads the raw contexts of user t and, when it fires, calls the optimiser
# and advances a counter at once, so that "a call" against "no call" is seen by everybody with infinite divergence. Here
# criterion I decides only which arm user t gets and into which part the leaf goes. Both refits are decided from
# released matrices, so their times are post-processing.
#
# Privacy, for the replacement of user t's contexts and reward, unconditionally:
#
# * Leaves. A leaf is a block-diagonal positive semi-definite matrix of Frobenius norm at most 1, once its second part
# is
#   multiplied by e/L_mu. Two such matrices A, B have <A, B> >= 0, so |A - B| <= sqrt 2, whether or not criterion I
#   flips: one continual mechanism of sensitivity sqrt 2 releases both parts, at the price mu_matrix.
# * Gradients. User t's data are in the sums of theta_o or in those of theta_tau. If they stay there, these sums change
# by
#   at most 2G and the others not at all; if criterion I flips, both kinds change by at most G. With mu_o and mu_tau
#   the
#   prices of all calls of each kind, the square is mu_o^2, or mu_tau^2, or (mu_o^2 + mu_tau^2)/4: never above the
#   larger.
# * Everything that other users see is computed from these releases and their own data (billboard lemma). Releases are
#   adaptive and compose: mu^2 = mu_matrix^2 + max(mu_o^2, mu_tau^2) if worst cases added up. Leaf and gradients are of
#   the same x, so they do not (proofs.md 0.4): 0.78 of that sum is paid at a `share` of 1/2, whatever the points
#   are at which gradients are taken. `GLMJDPMechanisms` states the three cases as events; `guarantee` is the
#   accountant's number for the worst of them.
#
# Steps, calls and step sizes are public; so are thresholds and widths, on which privacy does not depend
# (`GLMJDPConstants`) as long as they, kappa and S among them, are not computed from people's data.


@stored_as("GLMJDPState")
@dataclass(frozen=True, kw_only=True)
class GLMJDPState:
    """Released numbers and what follows from them: the stack after every round, and as it was at the last refits."""

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
    """What a device decides with."""

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
class GLMJDP(GLMJDPBase[GLMJDPState]):
    """Joint differential privacy for contexts and rewards with a trusted server, by one composed budget.

    privacy    bd.central(epsilon=..., delta=...) or bd.central(rho=...); its `mechanism` is that of the continual
               release: "blt", or "tree" as in the paper
    preset     "tuned": constants and Newton steps of ours, disclosed in papers.md; "greedy": the same without
               criterion I; "paper": constants by theory and the gradient steps of Lemma U.4
    constants  all of them at once, in place of a preset's
    pricing    "joint", or "separate": as if worst cases of leaf and gradients could meet, with more noise
    """

    execution = replace(
        RareSwitchingPolicy.execution, noise_stream="refit noise", stream_noise="noise", player="blocks"
    )

    def publish(self, state: GLMJDPState) -> GLMJDPSnapshot:
        """The inverses that decisions need."""
        return GLMJDPSnapshot(
            v_inverse=self.v_inverse(state.released)[0],
            h_inverse=state.h_inverse,
            theta_o=state.theta_o,
            theta_tau=state.theta_tau,
        )

    def act(self, snapshot: GLMJDPSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """Criterion I, or the index around theta_tau; which of them is the device's secret."""
        return self.decided(contexts, snapshot.v_inverse, snapshot.theta_o, snapshot.theta_tau, snapshot.h_inverse)

    def report(self, ask: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        """The leaf, with the public theta_o; or the gradient at theta."""
        domain, features = ask.protocol.domain, played.features
        assert features is not None
        if isinstance(domain, LeafDomain):
            assert played.groups is not None
            weights = self.leaf_weights(ask.at, self.clip_features(features))
            return domain.statistic(features, weights, played.groups == EXPLORED)
        assert isinstance(domain, Ball)
        return compute_gradients(self.model, domain, ask.at, features, played.rewards)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GLMJDPState:
        """Nothing released."""
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
        """Rates of [003]."""
        return contextual_bounds.find_glm_jdp_bounds(setting)

    def _run_counts(self, state: GLMJDPState) -> dict[str, Ints]:
        """Calls of both estimates; who explored is not in the state."""
        return {"switches": state.calls_tau, "refits of theta_o": state.calls_o, "repairs": state.repairs}

    def _theta(self, snapshot: GLMJDPSnapshot) -> Floats:
        """theta_tau."""
        return snapshot.theta_tau

    def make_round_query(self, state: GLMJDPState) -> SumQuery:
        """The leaf."""
        return SumQuery(protocol=self.stream, at=state.theta_o, part=self.mechanisms.leaf_part)

    def noted(self, state: GLMJDPState, released: Floats) -> GLMJDPState:
        """One more release."""
        repairs = state.repairs + self.v_inverse(state.released)[1]
        return replace(state, rounds=state.rounds + 1, released=released, repairs=repairs)

    def _outgrown(self, state: GLMJDPState, stacked: Floats) -> NDArray[np.bool_]:
        """Whether V, H of stacks (*R, n, dim) have outgrown their snapshots, with calls left: (*R, n, 2)."""
        v, h = self.matrices(stacked)
        left_o, left_tau = state.calls_o < self.used.calls_o, state.calls_tau < self.used.calls_tau
        return np.stack(
            [
                self.outgrown(v, state.v_o[..., None, :, :]) & left_o[..., None],
                self.outgrown(h, state.h_tau[..., None, :, :]) & left_tau[..., None],
            ],
            axis=-1,
        )

    def due(self, state: GLMJDPState) -> NDArray[np.bool_]:
        """A released matrix has outgrown its snapshot."""
        return np.asarray(np.any(self._outgrown(state, state.released[..., None, :]), axis=(-2, -1)))

    def settled(self, state: GLMJDPState) -> Generator[SumQuery, Estimate, GLMJDPState]:
        """Refits, decided from what is released, from everybody so far."""
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

    def _definite(self, matrix: Floats, regulariser: float) -> Floats:
        """Shifted to be positive definite, if it has to be."""
        return np.asarray(np.linalg.inv(positive_inverse(matrix, floor=FLOOR * regulariser)[0]), dtype=float)

    def _estimate(
        self, state: GLMJDPState, whose: str, start: Floats, bound: Floats
    ) -> Generator[SumQuery, Estimate, Floats]:
        """theta_o or theta_tau of one run; `bound`: a released matrix that bounds the Hessian.

        theta_tau lies in {|theta - theta_o|_V <= `elimination`} beside |theta| <= S, once there is a theta_o.
        """
        s, rest = self.parameter_bound, whose == "rest"
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
        return (yield from query_descent(points, optimiser.protocol, of=whose, step=step, part=part))

    def ahead(
        self, state: GLMJDPState, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None
    ) -> RoundBlock[GLMJDPState]:
        """Up to the first explored round, which comes alone, or to the first release that has outgrown."""
        assert totals is not None
        index, place = np.arange(len(contexts)), np.arange(contexts.shape[1])
        inverse, repaired = self.v_inverse(totals[:, :-1])
        norms = compute_norms(contexts, inverse)
        explore = valid & (norms.max(axis=2) >= self.threshold)
        actions = self.choose(contexts, norms, state.theta_o, state.theta_tau, state.h_inverse)
        first = explore[:, 0]
        actions[first, 0] = np.argmax(norms[first, 0], axis=1)
        x, explored = select_features(contexts, actions), first[:, None] & (place == 0)
        leaves = self.mechanisms.leaves.of(x, self.leaf_weights(state.theta_o, x), explored)
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
