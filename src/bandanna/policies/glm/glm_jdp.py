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
  adaptive and compose: mu^2 = mu_matrix^2 + max(mu_o^2, mu_tau^2). `mechanisms.lives` states the three cases as
  events; `guarantee` is the accountant's number for the worst of them.

Steps, calls and step sizes are public; so are thresholds and widths, on which privacy does not depend
(`jdp_constants`) as long as they, kappa and S among them, are not computed from people's data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import Budget
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.linalg import upper
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.glm.noisy_gradient import NoisyGradient
from bandanna.glm.projections import onto_ball, onto_both
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.glm.base import Floats
from bandanna.policies.glm.jdp_constants import CONSTANTS, Constants
from bandanna.policies.glm.jdp_privacy import JDPMechanisms, calibrate
from bandanna.policies.glm.rarely_switching import RarelySwitching
from bandanna.protocols.base import stated_delta

_GROWTH = 2.0  # refit when a released matrix is not below twice its snapshot


@dataclass(frozen=True, kw_only=True)
class GLMJDP(RarelySwitching):
    """Joint differential privacy for contexts and rewards with a trusted server, by one composed budget.

    budget     ApproxDP(epsilon=..., delta=...) or ZCDP(rho=...)
    mechanism  of the continual release: "blt", or "tree" as in the paper
    preset     "tuned": constants and Newton steps of ours, disclosed in docs/glm.md; "greedy": the same without
               criterion I; "paper": constants by theory and the gradient steps of Lemma U.4
    constants  all of them at once, in place of a preset's
    """

    budget: Budget
    mechanism: str = "blt"
    preset: str = "tuned"
    constants: Constants | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.budget, Budget) or math.isinf(getattr(self.budget, "epsilon", 0.0)):
            raise InvalidBudget("budget", self.budget, "a finite ApproxDP or ZCDP; RS-GLinUCB is without privacy")
        require.one_of("mechanism", self.mechanism, ("blt", "tree", "honaker"))
        require.one_of("preset", self.preset, tuple(CONSTANTS))
        if self.constants is not None and not isinstance(self.constants, Constants):
            raise InvalidArgument("constants", self.constants, "Constants(...), or None for those of the preset")

    @cached_property
    def used(self) -> Constants:
        """The constants that are used: given, tuned or by theory."""
        if self.constants is not None:
            return self.constants
        return CONSTANTS[self.preset](self, self.budget, self.mechanism)

    @cached_property
    def mechanisms(self) -> JDPMechanisms:
        """Everything that adds noise."""
        return calibrate(
            link=self.model,
            dim=self.dim,
            horizon=self.horizon,
            parameter_bound=self.parameter_bound,
            budget=self.budget,
            mechanism=self.mechanism,
            share=self.used.share,
            steps=self.used.steps,
            calls=(self.used.calls_o, self.used.calls_tau),
        )

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

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], Floats]:
        """Where in one part of the stack each entry of the matrix stands, and what undoes its scaling: (d, d) each."""
        rows, columns = upper(self.dim)
        place = np.zeros((self.dim, self.dim), dtype=np.intp)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return place, np.where(np.eye(self.dim, dtype=bool), 1.0, math.sqrt(0.5))

    def leaf(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Floats:
        """Stacked leaves of |x| <= 1 (..., d), w (...): the first part if explored, else the second, (..., d(d+1)).

        Off-diagonal entries times sqrt 2 (an isometry); the second part in units of L_mu/e: norm at most 1.
        """
        rows, columns = upper(self.dim)
        scale = np.where(rows == columns, 1.0, math.sqrt(2))
        outer = features[..., rows] * features[..., columns] * scale
        relative = np.clip(weights * math.e / self.model.slope_bound, 0.0, 1.0)[..., None]
        flags = explored[..., None]
        return np.concatenate([np.where(flags, outer, 0.0), np.where(flags, 0.0, relative * outer)], axis=-1)

    def matrices(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Released stacks (..., d(d+1)) as V and H, regularised: (..., d, d) each."""
        place, unscaled = self._places
        half = stacked.shape[-1] // 2
        eye, unit = np.eye(self.dim), self.model.slope_bound / math.e
        v = stacked[..., :half][..., place] * unscaled + self.used.regulariser_v * eye
        h = unit * stacked[..., half:][..., place] * unscaled + self.used.regulariser_h * eye
        return v, h

    def outgrown(self, matrix: Floats, snapshot: Floats) -> NDArray[np.bool_]:
        """Whether matrix <= 2 snapshot fails: a pivot of the difference is not positive; (..., d, d) -> (...)."""
        gap = np.moveaxis(_GROWTH * snapshot - matrix, (-2, -1), (0, 1)).copy()  # (d, d, ...)
        broken = np.zeros(gap.shape[2:], dtype=bool)
        for k in range(self.dim):  # Cholesky pivots, all matrices at once
            broken |= ~(gap[k, k] > 0)
            pivot = np.where(broken, 1.0, gap[k, k])
            gap[k + 1 :, k + 1 :] -= gap[k + 1 :, k, None] * gap[None, k, k + 1 :] / pivot
        return broken

    def estimate(
        self,
        optimiser: NoisyGradient,
        features: Floats,
        rewards: Floats,
        source: NoiseSource,
        *,
        rounds: int,
        start: Floats,
        matrix: Floats,
        near: tuple[Floats, Floats] | None = None,
    ) -> Floats:
        """theta_o or theta_tau of one run from its rows (n, d), (n); `matrix`: a released one that bounds the Hessian.

        near: theta_o and V, for theta_tau's set {|theta - theta_o|_V <= `elimination`} beside |theta| <= S.
        """
        s = self.parameter_bound

        def project(theta: Floats) -> Floats:
            if near is None:
                return onto_ball(theta, s)
            return onto_both(theta, ball=s, centre=near[0], matrix=near[1], radius=self.elimination, sweeps=20)

        if not len(rewards):
            features, rewards = np.zeros((1, self.dim)), np.zeros(1)  # the noise is added to nothing
        newton = matrix + self.used.ridge * np.eye(self.dim) if self.used.newton else None
        return optimiser.minimise(
            features,
            rewards,
            source,
            count=rounds,
            ridge=self.used.ridge,
            start=start,
            matrix=newton,
            project=project,
        )
