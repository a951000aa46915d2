"""GLM-JDP: generalised linear bandits under joint differential privacy (paper [003], Algorithm 2, repaired).

Round t, with released matrices V, H and private estimates theta_o, theta_tau, for contexts chosen by anybody:

    criterion I   max_x |x|^2_{V^{-1}} >= threshold: play the argmax; the leaf (x x^T, 0) goes into the stream
    otherwise     eliminate with theta_o, play argmax <x, theta_tau> + beta |x|_{H_tau^{-1}}; the leaf (0, w x x^T)
    release       V = lambda_V I + noisy prefix sum of the first parts,   H = lambda_H I + that of the second parts
    refits        theta_o if V is not <= 2 V_o, theta_tau if H is not <= 2 H_tau, while their budgets of calls last

Symbols: w = min(mu'(<x, theta_o>), L_mu)/e; G the residuals' bound; V_o, H_tau the matrices at the last refit.

What the paper prints leaks: its criterion I reads the raw contexts of user t and, when it fires, calls the optimiser
and advances a counter at once, so that "a call" against "no call" is seen by everybody with infinite divergence. Here
criterion I decides only which arm user t gets and into which part the leaf goes. Both refits are decided from released
matrices, so their times are post-processing.

Privacy, for the replacement of user t's contexts and reward, unconditionally:

* Leaves. A leaf is a block-diagonal positive semi-definite matrix of Frobenius norm at most 1, once its second part is
  multiplied by e/L_mu. Two such matrices A, B have <A, B> >= 0, so |A - B| <= sqrt 2, whether or not criterion I
  flips: one continual mechanism of sensitivity sqrt 2 releases both parts, at the price mu_matrix.
* Gradients. User t's data are in the sums of theta_o or in those of theta_tau. If they stay there, these sums change by
  at most 2G and the others not at all; if criterion I flips, both kinds change by at most G. With mu_o and mu_tau the
  prices of all calls of each kind, the square is mu_o^2, or mu_tau^2, or (mu_o^2 + mu_tau^2)/4: never above the larger.
* Everything that other users see is computed from these releases and their own data (billboard lemma). Releases are
  adaptive and compose: mu^2 = mu_matrix^2 + max(mu_o^2, mu_tau^2) if worst cases added up. Leaf and gradients are of
  the same x, so they do not (calibration.md 0.4): 0.78 of that sum is paid at a `share` of 1/2, whatever the points
  are at which gradients are taken. `mechanisms.lives` states the three cases as events; `guarantee` is the
  accountant's number for the worst of them.

Steps, calls and step sizes are public; so are thresholds and widths, on which privacy does not depend
(`jdp_constants`) as long as they, kappa and S among them, are not computed from people's data.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import Ball, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import positive_inverse
from bandanna.device.choice import Choice
from bandanna.glm.descent import gradients
from bandanna.glm.projections import onto_ball, onto_both
from bandanna.policies.base import Ask, Played
from bandanna.policies.glm.gradient_asks import asked
from bandanna.policies.glm.jdp_rules import FLOOR, JDPRules
from bandanna.policies.glm.leaves import Leaves
from bandanna.policies.glm.rarely_switching import EXPLORED, REST, Ahead, chosen, first_true, norms_of
from bandanna.policies.named import APPROX, algorithm
from bandanna.storage.declared import stored_as
from bandanna.theory import generalised
from bandanna.theory.settings import Found, Setting


@stored_as("GLMJDPState")
@dataclass(frozen=True, kw_only=True)
class JDPState:
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
class JDPSnapshot:
    """What a device decides with."""

    v_inverse: Floats  # (*R, d, d)
    h_inverse: Floats  # (*R, d, d)
    theta_o: Floats  # (*R, d)
    theta_tau: Floats  # (*R, d)


@algorithm(
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
class GLMJDP(JDPRules[JDPState]):
    """Joint differential privacy for contexts and rewards with a trusted server, by one composed budget.

    privacy    bd.central(epsilon=..., delta=...) or bd.central(rho=...); its `mechanism` is that of the continual
               release: "blt", or "tree" as in the paper
    preset     "tuned": constants and Newton steps of ours, disclosed in docs/glm.md; "greedy": the same without
               criterion I; "paper": constants by theory and the gradient steps of Lemma U.4
    constants  all of them at once, in place of a preset's
    pricing    "joint", or "separate": as if worst cases of leaf and gradients could meet, with more noise
    """

    noise_stream = "refit noise"
    stream_noise = "noise"
    player = "blocks"

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> JDPState:
        """Nothing released."""
        stack, nothing = np.zeros((*replicates, self.stream.domain.dim)), np.zeros((*replicates, self.dim))
        v, h = self.matrices(stack)
        none = np.zeros(replicates, dtype=np.int64)
        return JDPState(
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
    def bounds(cls, setting: Setting) -> Found:
        """Rates of [003]."""
        return generalised.of_glm_jdp(setting)

    def counts(self, state: JDPState) -> dict[str, Ints]:
        """Calls of both estimates; who explored is not in the state."""
        return {"switches": state.calls_tau, "refits of theta_o": state.calls_o, "repairs": state.repairs}

    def publish(self, state: JDPState) -> JDPSnapshot:
        """The inverses that decisions need."""
        return JDPSnapshot(
            v_inverse=self.v_inverse(state.released)[0],
            h_inverse=state.h_inverse,
            theta_o=state.theta_o,
            theta_tau=state.theta_tau,
        )

    def theta(self, snapshot: JDPSnapshot) -> Floats:
        """theta_tau."""
        return snapshot.theta_tau

    def act(self, snapshot: JDPSnapshot, contexts: Floats, coins: Coins) -> Choice:
        """Criterion I, or the index around theta_tau; which of them is the device's secret."""
        return self.decided(contexts, snapshot.v_inverse, snapshot.theta_o, snapshot.theta_tau, snapshot.h_inverse)

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """The leaf, with the public theta_o; or the gradient at theta."""
        domain, features = ask.protocol.domain, played.features
        assert features is not None
        if isinstance(domain, Leaves):
            assert played.groups is not None
            weights = self.leaf_weights(ask.at, self.seen(features))
            return domain.statistic(features, weights, played.groups == EXPLORED)
        assert isinstance(domain, Ball)
        return gradients(self.model, domain, ask.at, features, played.rewards)

    def round_ask(self, state: JDPState) -> Ask:
        """The leaf."""
        return Ask(protocol=self.stream, at=state.theta_o, part=self.mechanisms.leaf_part)

    def noted(self, state: JDPState, released: Floats) -> JDPState:
        """One more release."""
        repairs = state.repairs + self.v_inverse(state.released)[1]
        return replace(state, rounds=state.rounds + 1, released=released, repairs=repairs)

    def _outgrown(self, state: JDPState, stacked: Floats) -> NDArray[np.bool_]:
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

    def due(self, state: JDPState) -> NDArray[np.bool_]:
        """A released matrix has outgrown its snapshot."""
        return np.asarray(np.any(self._outgrown(state, state.released[..., None, :]), axis=(-2, -1)))

    def settled(self, state: JDPState) -> Generator[Ask, Estimate, JDPState]:
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

    def _estimate(self, state: JDPState, whose: str, start: Floats, bound: Floats) -> Generator[Ask, Estimate, Floats]:
        """theta_o or theta_tau of one run; `bound`: a released matrix that bounds the Hessian.

        theta_tau lies in {|theta - theta_o|_V <= `elimination`} beside |theta| <= S, once there is a theta_o.
        """
        s, rest = self.parameter_bound, whose == "rest"
        optimiser = self.mechanisms.estimate_tau if rest else self.mechanisms.estimate_o
        near = self._definite(state.v_o, self.used.regulariser_v) if rest and state.calls_o else None

        def project(theta: Floats) -> Floats:
            if near is None:
                return onto_ball(theta, s)
            return onto_both(theta, ball=s, centre=state.theta_o, matrix=near, radius=self.elimination, sweeps=20)

        points = optimiser.descend(
            start,
            count=int(state.rounds),
            ridge=self.used.ridge,
            matrix=bound + self.used.ridge * np.eye(self.dim) if self.used.newton else None,
            project=project,
        )
        part, step = self.mechanisms.gradient_part, 1 + self.used.steps * rest
        return (yield from asked(points, optimiser.protocol, of=whose, step=step, part=part))

    def ahead(
        self, state: JDPState, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None
    ) -> Ahead[JDPState]:
        """Up to the first explored round, which comes alone, or to the first release that has outgrown."""
        assert totals is not None
        index, place = np.arange(len(contexts)), np.arange(contexts.shape[1])
        inverse, repaired = self.v_inverse(totals[:, :-1])
        norms = norms_of(contexts, inverse)
        explore = valid & (norms.max(axis=2) >= self.threshold)
        actions = self.choose(contexts, norms, state.theta_o, state.theta_tau, state.h_inverse)
        first = explore[:, 0]
        actions[first, 0] = np.argmax(norms[first, 0], axis=1)
        x, explored = chosen(contexts, actions), first[:, None] & (place == 0)
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
        return Ahead(actions=actions, groups=groups, taken=taken, state=after, due=due, added=added[index, last])
