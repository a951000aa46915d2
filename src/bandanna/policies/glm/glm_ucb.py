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
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.estimate import Estimate
from bandanna.device.choice import Choice
from bandanna.glm.expansion import Expansion, expandable, no_rows
from bandanna.glm.likelihood import maximum_likelihood
from bandanna.glm.projections import onto_ball
from bandanna.policies.base import Ask, Frozen
from bandanna.policies.glm.base import EveryRound, along, optimistic, quadratic, rank_one
from bandanna.policies.named import algorithm
from bandanna.storage.declared import stored_as

_TOLERANCE = 1e-6  # of an estimate


@stored_as("GLMUCBState")
@dataclass(frozen=True, kw_only=True)
class UCBState:
    """M_t^{-1} and theta_t.

    near: the gradient of the loss around some earlier estimate, so that not every estimate asks for all rows again.
    """

    rounds: int
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d): before any projection
    near: Expansion | None = None


@algorithm("GLM-UCB", paper="003")
@stored_as("GLMUCB")
@dataclass(frozen=True, kw_only=True)
class GLMUCB(EveryRound[UCBState]):
    """GLM-UCB with the constants of a preset; `refit` asks for a new estimate every so many rounds, 1 as published."""

    keeps = ("everybody",)
    player = "every round"

    refit: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> UCBState:
        """No data."""
        return UCBState(
            rounds=0,
            inverse=np.broadcast_to(np.eye(self.dim) / self.regulariser, (*replicates, self.dim, self.dim)),
            theta=np.zeros((*replicates, self.dim)),
            near=no_rows(math.prod(replicates), self.dim) if expandable(self.model, self.dim) else None,
        )

    def act(self, snapshot: UCBState, contexts: Floats, coins: Coins) -> Choice:
        """Optimism around the estimate."""
        theta = snapshot.theta if self.preset == "published" else onto_ball(snapshot.theta, self.parameter_bound)
        spread = np.sqrt(quadratic(contexts, snapshot.inverse[..., None, :, :]))
        return optimistic(self.model.mean(along(contexts, theta)), self.bonus(snapshot.rounds) * spread)

    def learn(self, state: UCBState, episode: Frozen) -> Generator[Ask, Estimate, UCBState]:
        """One more row, and the estimate of all."""
        features, rewards = self.row((yield self.ask))
        theta, near = state.theta, state.near
        if near is not None:
            near = near.add(self.model, features.reshape(-1, self.dim), rewards.reshape(-1))
        if (state.rounds + 1) % self.refit == 0:
            theta, near = yield from self._estimate(theta, near)
        return UCBState(rounds=state.rounds + 1, inverse=rank_one(state.inverse, features), theta=theta, near=near)

    @property
    def _ridge(self) -> float:
        return self.regulariser * (2 if self.preset == "published" else 1)

    def _estimate(
        self, start: Floats, near: Expansion | None
    ) -> Generator[Ask, Estimate, tuple[Floats, Expansion | None]]:
        """theta_t: near the last one from the polynomial of its loss, far from it from all rows."""
        ridge, link = self._ridge, self.model
        theta = start.reshape(-1, self.dim)
        far = np.arange(len(theta))
        if near is not None:
            found, fine = near.minimise(link, theta, ridge, _TOLERANCE)
            theta, far = np.where(fine[:, None], found, theta), far[~fine]
        if len(far):
            released = yield self.ask_of("everybody", step=1)
            rows, results, _ = self.rows.parts(released.total.reshape(len(theta), -1, self.rows.dim)[far])
            theta = theta.copy()
            theta[far] = maximum_likelihood(
                link, rows, results, ridge=ridge, start=theta[far], tolerance=_TOLERANCE
            ).theta
            near = None if near is None else near.move(link, far, theta[far], rows, results)
        return theta.reshape(start.shape), near
