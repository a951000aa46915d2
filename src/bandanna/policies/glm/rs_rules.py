"""Constants and fits of RS-GLinUCB.

    constants  lambda                 gamma           threshold of I             beta     switch at det H >
    theory     d log(T/failure)/R^2   25 R S spread   1/(gamma^2 kappa R^2)      150 spread   2 det H_tau
    published  1/2                    R S spread      1/(0.01 kappa R^4 S^2 d)   4 spread     1.5 det H_tau

with spread = sqrt(d log(T/failure)); estimates are penalised by (lambda/2) |theta|^2 by theory, by 1e-5 |theta|^2 as
published. `constants` chooses the row, presets choose the rules.

`corrected`: theta_o and theta_tau are projected onto |theta| <= S, theta_tau also onto {|theta - theta_o|_V <= gamma
sqrt(kappa)} and fitted to the rounds without exploration; the centre of the index is theta_tau (theta_o before the
first switch); H_tau is a copy.

`published`, as run by the authors of [003]: V += x x^T / (1 + |x|^2_{V^{-1}}), a misplaced denominator (erratum K1); no
projection of estimates that next to nothing penalises (K10); theta_tau on all rounds, the centre
(theta_o + theta_tau)/2; and H_tau an alias of H, so that the criterion fires once and the bonus follows H in every
round after that (K6). Deviation from that run: estimates by Newton's method on the matching loss, where theirs stopped
early in some rounds (K7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.glm.likelihood import maximum_likelihood
from bandanna.glm.projections import onto_ball, onto_both
from bandanna.policies.glm.base import InTheClear
from bandanna.policies.glm.rarely_switching import RarelySwitching

State = TypeVar("State")


@dataclass(frozen=True, kw_only=True)
class RSRules(InTheClear[State], RarelySwitching[State]):
    """What the presets differ in."""

    constants: str = "theory"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.one_of("constants", self.constants, ("theory", "published"))
        if self.preset == "published":
            object.__setattr__(self, "constants", "published")

    @property
    def _spread(self) -> float:
        """sqrt(d log(T/failure))."""
        return math.sqrt(self.dim * self.log_term)

    @property
    def gamma(self) -> float:
        """gamma of the table above."""
        factor = 25 if self.constants == "theory" else 1
        return factor * self.model.reward_bound * self.parameter_bound * self._spread

    @property
    def regulariser(self) -> float:
        """lambda of the table above."""
        return self.dim * self.log_term / self.model.reward_bound**2 if self.constants == "theory" else 0.5

    @property
    def threshold(self) -> float:
        """Of criterion I, by the table above."""
        r, s = self.model.reward_bound, self.parameter_bound
        if self.constants == "theory":
            return 1 / (self.gamma**2 * self.curvature * r**2)
        return 1 / (0.01 * self.curvature * r**4 * s**2 * self.dim)

    @property
    def elimination(self) -> float:
        """gamma sqrt(kappa)."""
        return self.gamma * math.sqrt(self.curvature)

    @property
    def bonus(self) -> float:
        """beta of the table above."""
        return (150 if self.constants == "theory" else 4) * self._spread

    @property
    def growth(self) -> float:
        """Of the determinant, between two switches."""
        return 2.0 if self.constants == "theory" else 1.5

    @property
    def live(self) -> bool:
        """K6."""
        return self.preset == "published"

    @property
    def uses_everything(self) -> bool:
        """Whether theta_tau is fitted to explored rounds too."""
        return self.preset == "published"

    @property
    def ridge(self) -> float:
        """Of the estimates: (ridge/2) |theta|^2."""
        return 2e-5 if self.constants == "published" else self.regulariser

    def explored_weight(self, norms: Floats) -> Floats:
        """1, or the misplaced denominator of K1."""
        return 1 / (1 + norms) if self.preset == "published" else np.ones(np.shape(norms))

    def centre(self, theta_o: Floats, theta_tau: Floats, switches: NDArray[np.int64]) -> Floats:
        """Of the index; `corrected`: theta_o until there is a theta_tau."""
        if self.preset == "published":
            return (theta_o + theta_tau) / 2
        return np.where((switches > 0)[..., None], theta_tau, theta_o)

    def grown(self, matrix: Floats, snapshot: Floats) -> NDArray[np.bool_]:
        """Criterion II: (*R, d, d), (*R, d, d) -> (*R)."""
        return np.asarray(np.linalg.det(matrix) > self.growth * np.linalg.det(snapshot))

    def fit_o(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        """theta_o from explored rounds (*R, n, d)."""
        theta = self._fit(features, rewards, start)
        return theta if self.preset == "published" else onto_ball(theta, self.parameter_bound)

    def fit_tau(self, features: Floats, rewards: Floats, start: Floats, theta_o: Floats, matrix: Floats) -> Floats:
        """theta_tau, near theta_o in the norm of V = `matrix`."""
        theta = self._fit(features, rewards, start)
        if self.preset == "published":
            return theta
        return onto_both(theta, ball=self.parameter_bound, centre=theta_o, matrix=matrix, radius=self.elimination)

    def _fit(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        return maximum_likelihood(self.model, features, rewards, ridge=self.ridge, start=start, tolerance=1e-7).theta
