"""GLM-UCB: the estimate of all data in every round, and a bonus that carries kappa (Filippi et al. 2010).

    theta_t = argmin sum_{s < t} l_s + (ridge/2) |theta|^2,   M_t = lambda I + sum x x^T,
    action  = argmax_x mu(<x, theta_t>) + rho_t |x|_{M_t^{-1}},
    rho_t   = 2 L_mu kappa R c sqrt(2 d log(t) log(2 d T / failure)),   c = sqrt(3 + 2 log(1 + 2/lambda)),   lambda = d.

Presets: `published`, as run by the authors of [003]: ridge = 2 lambda (their penalty multiplies |theta|^2), no factor
sqrt(log t) for the logistic link, no projection; `corrected`: ridge = lambda, sqrt(log t) for all links, theta
projected onto |theta| <= S. Deviation from the published run: theta_0 = 0 instead of a normal draw (one round).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.glm.expansion import Expansion, expandable
from bandanna.glm.likelihood import maximum_likelihood
from bandanna.glm.projections import onto_ball
from bandanna.policies.glm.base import PRESETS, Floats, GLMPolicy, optimistic, quadratic, rank_one

_TOLERANCE = 1e-6  # of an estimate


@dataclass(frozen=True, kw_only=True)
class UCBState:
    """All data so far, kept with room for the whole horizon; M_t^{-1} and theta_t.

    near: the gradient of the loss around some earlier estimate, so that not every estimate reads all data again.
    """

    rounds: int
    features: Floats  # (*R, T, d)
    rewards: Floats  # (*R, T)
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d): before any projection
    near: Expansion | None = None


@dataclass(frozen=True, kw_only=True)
class GLMUCB(GLMPolicy):
    """GLM-UCB with the constants of a preset; `refit` asks for a new estimate every so many rounds, 1 as published."""

    preset: str = "corrected"
    refit: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require.one_of("preset", self.preset, PRESETS)
        require.store(self, require.whole, "refit")

    @property
    def regulariser(self) -> float:
        """lambda = d."""
        return float(self.dim)

    def bonus(self, rounds: int) -> float:
        """rho_t in round t = rounds + 1."""
        link, d = self.model, self.dim
        c = math.sqrt(3 + 2 * math.log(1 + 2 / self.regulariser))
        rho = 2 * link.slope_bound * c * link.reward_bound * self.curvature
        rho *= math.sqrt(2 * d * math.log(2 * d * self.horizon / self.failure))  # Filippi et al. 2010, Theorem 2
        logarithmic = self.preset == "corrected" or link.name != "logistic"
        return rho * math.sqrt(math.log(rounds + 1)) if logarithmic else rho

    def init(self, replicates: tuple[int, ...] = ()) -> UCBState:
        """No data."""
        near = Expansion(self.model, math.prod(replicates), self.dim) if expandable(self.model, self.dim) else None
        return UCBState(
            rounds=0,
            features=np.zeros((*replicates, self.horizon, self.dim)),
            rewards=np.zeros((*replicates, self.horizon)),
            inverse=np.broadcast_to(np.eye(self.dim) / self.regulariser, (*replicates, self.dim, self.dim)),
            theta=np.zeros((*replicates, self.dim)),
            near=near,
        )

    def act(self, state: UCBState, contexts: Floats) -> NDArray[np.int64]:
        """(*R, K, d) -> (*R)."""
        theta = state.theta if self.preset == "published" else onto_ball(state.theta, self.parameter_bound)
        values = self.model.mean((contexts @ theta[..., None])[..., 0])
        return optimistic(values, self.bonus(state.rounds) * np.sqrt(quadratic(contexts, state.inverse)))

    def learn(self, state: UCBState, features: Floats, rewards: Floats) -> UCBState:
        """The next state; what holds the data is changed in place (the earlier state must not be used again)."""
        t = state.rounds
        state.features[..., t, :], state.rewards[..., t] = features, rewards
        if state.near is not None:
            state.near.add(features.reshape(-1, self.dim), np.reshape(rewards, -1))
        return UCBState(
            rounds=t + 1,
            features=state.features,
            rewards=state.rewards,
            inverse=rank_one(state.inverse, features),
            theta=self._estimate(state) if (t + 1) % self.refit == 0 else state.theta,
            near=state.near,
        )

    def _estimate(self, state: UCBState) -> Floats:
        """theta_t: near the last one from the polynomial of its loss, far from it from all data."""
        ridge = self.regulariser * (2 if self.preset == "published" else 1)
        theta, far = state.theta.reshape(-1, self.dim), np.arange(math.prod(state.theta.shape[:-1]))
        if state.near is not None:
            start = theta
            theta, fine = state.near.minimise(start, ridge, _TOLERANCE)
            theta[~fine], far = start[~fine], far[~fine]
        if len(far):
            rows = state.features.reshape(-1, self.horizon, self.dim)[far, : state.rounds + 1]
            results = state.rewards.reshape(-1, self.horizon)[far, : state.rounds + 1]
            found = maximum_likelihood(
                self.model, rows, results, ridge=ridge, start=theta[far], tolerance=_TOLERANCE
            ).theta
            theta = theta.copy()
            theta[far] = found
            if state.near is not None:
                state.near.move(far, found, rows, results)
        return theta.reshape(state.theta.shape)
