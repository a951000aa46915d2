"""GLOC: an online Newton step a round, turned into a confidence set (Jun, Bhargava, Nowak and Willett 2017).

    V += x x^T,   g = (mu(<x, theta>) - r) x,   B += |g|^2_{V^{-1}} / (2c),   z += <x, theta> x,
    theta <- Proj( theta - V^{-1} g / c ),         c = 1/kappa,   V_0 = lambda I,   B_0 = 2 c S^2 lambda,   lambda = d,
    radius^2 = 1 + (4/c) B + 8 (q/c)^2 log( (2/failure) sqrt(1 + 2B/c + 4 (q/c)^4 / failure^2) ).

Presets: `published`, as run by the authors of [003]: index mu(<x, theta>) + radius |x|_{V^{-1}} of the Newton iterate,
q = L_mu^2, and theta always rescaled to the sphere |theta| = S; `corrected`: index <x, V^{-1} z> + radius |x|, q = R/2
(rewards in [0, R]), and the projection onto the ball in the norm of V.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import inner
from bandanna.device.choice import Choice
from bandanna.glm.projections import onto_ball_in_norm
from bandanna.policies.base import Ask, Frozen
from bandanna.policies.glm.base import EveryRound, along, optimistic, quadratic, rank_one
from bandanna.policies.named import algorithm
from bandanna.storage.declared import stored_as


@stored_as("GLOCState")
@dataclass(frozen=True, kw_only=True)
class GLOCState:
    """V and its inverse, the Newton iterate, z and the online regret bound B."""

    rounds: int
    matrix: Floats  # (*R, d, d)
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d)
    vector: Floats  # (*R, d)
    bound: Floats  # (*R)


@algorithm("GLOC", paper="003")
@stored_as("GLOC")
@dataclass(frozen=True, kw_only=True)
class GLOC(EveryRound[GLOCState]):
    """GLOC with the constants of a preset."""

    player = "every round"

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GLOCState:
        """lambda = d."""
        eye = np.broadcast_to(np.eye(self.dim), (*replicates, self.dim, self.dim))
        first = 2 / self.curvature * self.parameter_bound**2 * self.dim  # B_0
        return GLOCState(
            rounds=0,
            matrix=self.dim * eye,
            inverse=eye / self.dim,
            theta=np.zeros((*replicates, self.dim)),
            vector=np.zeros((*replicates, self.dim)),
            bound=np.full(replicates, first),
        )

    def radius(self, bound: Floats) -> Floats:
        """From B, (*R)."""
        kappa, q = self.curvature, self._q
        inside = 1 + 2 * kappa * bound + 4 * (q * kappa) ** 4 / self.failure**2
        log = math.log(2 / self.failure) + 0.5 * np.log(inside)
        return np.asarray(np.sqrt(1 + 4 * kappa * bound + 8 * (q * kappa) ** 2 * log))  # Jun et al. 2017, Theorem 1

    @property
    def _q(self) -> float:
        return float(self.model.slope_bound**2 if self.preset == "published" else self.model.reward_bound / 2)

    def act(self, snapshot: GLOCState, contexts: Floats, coins: Coins) -> Choice:
        """Optimism, with the iterate or with V^{-1} z."""
        inverse, radius = snapshot.inverse, self.radius(snapshot.bound)
        if self.preset == "published":
            values = self.model.mean(along(contexts, snapshot.theta))
        else:
            values = along(contexts, (inverse @ snapshot.vector[..., None])[..., 0])
        spread = np.sqrt(quadratic(contexts, inverse[..., None, :, :]))
        return optimistic(values, radius[..., None, None] * spread)

    def learn(self, state: GLOCState, episode: Frozen) -> Generator[Ask, Estimate, GLOCState]:
        """One online Newton step."""
        features, rewards = self.row((yield self.ask))
        z = inner(features, state.theta)
        inverse = rank_one(state.inverse, features)
        residual = self.model.mean(z) - rewards
        step = (inverse @ features[..., None])[..., 0]  # V^{-1} x
        gained = residual**2 * inner(step, features)  # |g|^2_{V^{-1}}
        theta = state.theta - self.curvature * residual[..., None] * step
        matrix = state.matrix
        if self.preset == "published":
            length = np.sqrt(inner(theta, theta))[..., None]
            theta = self.parameter_bound * theta / np.maximum(length, 1e-300)
        else:
            matrix = matrix + features[..., :, None] * features[..., None, :]
            outside = inner(theta, theta) > self.parameter_bound**2
            if outside.any():
                theta[outside] = onto_ball_in_norm(theta[outside], matrix[outside], self.parameter_bound)
        return GLOCState(
            rounds=state.rounds + 1,
            matrix=matrix,
            inverse=inverse,
            theta=theta,
            vector=state.vector + z[..., None] * features,
            bound=state.bound + gained * self.curvature / 2,
        )
