"""Constants of GLM-JDP: by theory, and tuned. Privacy holds for any of them.

They belong to mu, where mu^2 is the sum of the squared prices of matrices and estimates (`parts_mu`).

Theory (glm.md 3.5-3.8): with n_V and n_H bounds on the noise of V and H in norm for all rounds, M the self-concordance
constant, z = `failure`:

    lambda  = max(d log(T/z)/R^2, 6 n_V, 6 n_H),                               of both matrices and of the losses
    N       = rho_estimates T^2 / (2 calls (d + log(1/z))), at most 500         steps of an estimate (Lemma U.4)
    M_o     = d log(l_max/l_min + T/(d l_min)) / log(3/2),   M_tau the same with T L_mu/e,   l = lambda +- n
    nu      = the excess loss of an estimate after the N steps that run, except with probability z/T
              (`descent.worst_excess`); below the cap of order S G sqrt(calls (d + log(T/z)) / rho_estimates)
    a       = sqrt(lambda)/(2R) + (2R/sqrt lambda) (log(1/z) + d log 2 + (d/2) log(1 + T L_mu/(d lambda)))
              + S sqrt lambda
    gamma   = sqrt(l_max/lambda) (2 (1 + M S) a + sqrt(2 (1 + M S) nu_o))
    beta    = sqrt(l_max/lambda) (4 a + 2 sqrt nu_tau)
    criterion I at 1/(gamma^2 kappa M^2), never if M = 0,     elimination gamma sqrt(kappa)

The cap is ours: uncapped, an estimate would take N T gradients, which is of order T^3. nu and so the widths are those
of the capped number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bandanna.accounting.factorisation import factorise
from bandanna.core import require
from bandanna.glm.noisy_gradient import NoisyGradient, lemma_steps
from bandanna.policies.glm.jdp_privacy import RAISED
from bandanna.storage.declared import stored_as

if TYPE_CHECKING:
    from typing import Any

    from bandanna.policies.glm.base import GLMPolicy

SHARE = 0.5  # of the squared price for the matrices, in all presets


@stored_as("GLMJDPConstants")
@dataclass(frozen=True, kw_only=True)
class Constants:
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
        require.store(self, require.chance, "share")
        require.store(self, require.whole, "steps", "calls_o", "calls_tau")
        require.store(self, require.positive, "regulariser_v", "regulariser_h", "ridge")
        require.store(self, require.positive, "threshold", "elimination", "bonus", infinite=True)


def noise_norms(policy: GLMPolicy[Any], mu: float, mechanism: str, share: float) -> tuple[float, float]:
    """n_V and n_H: s (sqrt(2d) + sqrt(2 log(2T/z))) with s the std of the worst prefix, over all rounds (3.5)."""
    worst = math.sqrt(2) * factorise(mechanism, horizon=policy.horizon).unit_std() / (math.sqrt(share) * mu)
    log = math.log(2 * policy.horizon / policy.failure)
    norm = worst * (math.sqrt(2 * policy.dim) + math.sqrt(2 * log))
    return norm, norm * policy.model.slope_bound / math.e


def paper_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> Constants:
    """By theory, equal shares for matrices and estimates."""
    link, d, s, horizon = policy.model, policy.dim, policy.parameter_bound, policy.horizon
    concordance = link.concordance(s)
    price = math.sqrt(1 - SHARE) * mu  # of the estimates
    norms = noise_norms(policy, mu, mechanism, SHARE)
    weights = (1.0, link.slope_bound / math.e)
    regulariser = max(d * policy.log_term / link.reward_bound**2, *(6 * norm for norm in norms))
    calls = [_calls(d, horizon, regulariser, norm, weight) for norm, weight in zip(norms, weights, strict=True)]
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
    return Constants(
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


def _calls(dim: int, horizon: int, regulariser: float, norm: float, weight: float) -> int:
    """M of 3.8: how often a noisy matrix can outgrow its snapshot twice over."""
    low, high = regulariser - norm, regulariser + norm
    return max(1, math.floor(dim * math.log(high / low + horizon * weight / (low * dim)) / math.log(1.5)))


def _radius(policy: GLMPolicy[Any], regulariser: float) -> float:
    """a: concentration by Faury et al. 2020, Theorem 1 (Lemma K.2), and the bias of the regulariser."""
    d, r, root = policy.dim, policy.model.reward_bound, math.sqrt(regulariser)
    volume = d / 2 * math.log(1 + policy.horizon * policy.model.slope_bound / (d * regulariser))
    log = math.log(1 / policy.failure) + d * math.log(2) + volume
    return root / (2 * r) + 2 * r / root * log + policy.parameter_bound * root


def tuned_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> Constants:
    """Ours, by trial on instances that are not the paper's (docs/glm.md): nothing of them is proven but the privacy.

    Criterion I at 1/(lambda_V + 0.3 kappa): it fires until V exceeds the regulariser that the noise asks for by 0.3
    kappa in every direction, whatever lambda_V is.
    """
    norms = noise_norms(policy, mu, mechanism, SHARE)
    return Constants(
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


def greedy_constants(policy: GLMPolicy[Any], mu: float, mechanism: str) -> Constants:
    """The tuned ones without criterion I and without elimination: for contexts that are diverse by themselves."""
    tuned = tuned_constants(policy, mu, mechanism)
    return replace(tuned, calls_o=1, threshold=math.inf, elimination=math.inf)


CONSTANTS = {
    "tuned": tuned_constants,
    "greedy": greedy_constants,
    "paper": paper_constants,
}
