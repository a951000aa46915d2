"""B-GLinUCB: few batches, without privacy (Sawarni, Das, Barman and Sinha 2024, Algorithm 1).

    lambda = 20 R d log T,   gamma = 30 R S sqrt(d log T),
    tau_1  = ( sqrt(kappa) e^{3S} d^2 gamma^2 alpha / S )^{2/3}, at most T/4

The theorem's tau_1 exceeds every feasible horizon (7e7 at T = 1e5, d = 3, S = 2), so that we cut it off, and its gamma
rules out nothing there. Presets: `published`, the printed constants with R in place of the self-concordance constant;
`corrected`: that constant (erratum P8), lambda = d log T, and `width` times the gamma that concentration asks for,

    gamma = (R/2) sqrt((d log(1 + T/d) + 2 log(T/failure)) / L_mu) + S sqrt(lambda), in the norm of H.

There is no published run of it in [003]; each batch is estimated by maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import positive_inverse
from bandanna.glm.likelihood import maximum_likelihood
from bandanna.glm.projections import onto_ball
from bandanna.policies.base import Ask, Frozen
from bandanna.policies.glm.base import InTheClear
from bandanna.policies.glm.batched import Batched, BatchedState, BatchEstimate
from bandanna.policies.named import algorithm
from bandanna.storage.declared import stored_as


@algorithm("B-GLinUCB", paper="003")
@stored_as("BGLinUCB")
@dataclass(frozen=True, kw_only=True)
class BGLinUCB(InTheClear[BatchedState], Batched):
    """B-GLinUCB with the constants of a preset; `width` multiplies gamma, 1 being the theorem."""

    width: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "width")

    @property
    def first(self) -> int:
        """tau_1, cut off at T/4."""
        if self.warmup is not None:
            return self.warmup
        alpha, s = 2 * math.sqrt(self.horizon), self.parameter_bound
        log = math.log(math.sqrt(self.curvature) * self.dim**2 * self.gamma**2 * alpha / s) + 3 * s
        return max(2, min(self.horizon // 4, math.ceil(math.exp(min(2 / 3 * log, 60.0)))))

    @property
    def regulariser(self) -> float:
        """lambda."""
        log = self.dim * math.log(self.horizon)
        return 20 * self.model.reward_bound * log if self.preset == "published" else log

    @property
    def gamma(self) -> float:
        """Of the bounds, `width` included."""
        r, s, d = self.model.reward_bound, self.parameter_bound, self.dim
        if self.preset == "published":
            return self.width * 30 * r * s * math.sqrt(d * math.log(self.horizon))
        log = d * math.log(1 + self.horizon / d) + 2 * self.log_term
        stochastic = r / 2 * math.sqrt(log) / math.sqrt(self.model.slope_bound)
        return self.width * (stochastic + s * math.sqrt(self.regulariser))

    @property
    def concordance(self) -> float:
        """R as printed, M as it should be."""
        return self.model.reward_bound if self.preset == "published" else super().concordance

    def learn(self, state: BatchedState, episode: Frozen) -> Generator[Ask, Estimate, BatchedState]:
        """Maximum likelihood on the batch alone."""
        features, rewards, _ = self.rows.parts((yield self.ask).total)
        first = state.estimates[0] if state.estimates else None
        weights, eye = self.own_weights(features, first), np.eye(self.dim)
        theta = maximum_likelihood(self.model, features, rewards, ridge=self.regulariser, tolerance=1e-8).theta
        matrix = np.swapaxes(features * weights[..., None], -1, -2) @ features + self.regulariser * eye
        inverse, repaired = positive_inverse(matrix, self.regulariser)
        width = self.gamma * (math.sqrt(self.curvature) if first is None else 1.0)
        theta = onto_ball(theta, self.parameter_bound)
        return state.plus(BatchEstimate(theta=theta, inverse=inverse, width=width, blur=0.0), repaired)
