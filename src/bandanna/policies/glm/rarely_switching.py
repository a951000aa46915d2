"""What RS-GLinUCB and GLM-JDP share: explore where V is uncertain, else act on an estimate that is rarely renewed.

    criterion I   max_x |x|^2_{V^{-1}} >= threshold: play the argmax, into T_o; V += x x^T
    otherwise     X' = arms whose upper bound <x, theta_o> + b |x|_{V^{-1}} reaches the largest lower bound,
                  play argmax_{X'} <x, centre> + beta |x|_{H_tau^{-1}};  H += w x x^T,  w = mu'(<x, theta_o>) / e
    criterion II  H has grown over H_tau: renew theta_tau, H_tau = H

Symbols: b = gamma sqrt(kappa) `elimination`, beta `bonus`, lambda `regulariser`.
Reference: Sawarni et al. 2024, Algorithm 2; paper [003], Algorithm 2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.linalg import first_best
from bandanna.policies.glm.base import Floats, GLMPolicy


@dataclass(frozen=True, kw_only=True)
class RarelySwitching(GLMPolicy):
    """Decisions of both algorithms; a subclass says with which constants, and how estimates are made."""

    @property
    @abstractmethod
    def regulariser(self) -> float:
        """lambda: V and H start at lambda I."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Of criterion I."""

    @property
    @abstractmethod
    def elimination(self) -> float:
        """b: half-width of the bounds of theta_o, in units of |x|_{V^{-1}}."""

    @property
    @abstractmethod
    def bonus(self) -> float:
        """beta, in units of |x|_{H_tau^{-1}}."""

    @property
    def live(self) -> bool:
        """Whether the bonus follows H in every round after the first switch (a fault of a published run)."""
        return False

    def explored_weight(self, norms: Floats) -> Floats:
        """By how much an explored arm of squared norm |x|^2_{V^{-1}} counts in V: (...) -> (...)."""
        return np.ones(np.shape(norms))

    def weights(self, theta_o: Floats, features: Floats) -> Floats:
        """w = mu'(<x, theta_o>) / e, at most L_mu / e whatever theta_o is: (*R, d), (*R, n, d) -> (*R, n)."""
        z = (features @ theta_o[..., None])[..., 0]
        return np.minimum(self.model.slope(z), self.model.slope_bound) / math.e

    def choose(
        self, contexts: Floats, norms: Floats, theta_o: Floats, centre: Floats, inverse: Floats
    ) -> NDArray[np.int64]:
        """The arm of a round without exploration.

        contexts (*R, n, K, d), norms |x|^2_{V^{-1}} (*R, n, K), theta_o and centre (*R, d), H_tau^{-1} (*R, d, d)
        -> (*R, n).
        """
        arms = np.ascontiguousarray(contexts)
        columns = np.concatenate([theta_o[..., None], centre[..., None], inverse], axis=-1)
        parts = arms @ columns[..., None, :, :]  # (*R, n, K, 2 + d), a product for each round
        spread = np.einsum("...i,...i->...", parts[..., 2:], arms)
        index = parts[..., 1] + self.bonus * np.sqrt(np.maximum(spread, 0.0))
        if math.isinf(self.elimination):  # nothing is eliminated, an arm of norm 0 included
            return first_best(index)
        half = self.elimination * np.sqrt(np.maximum(norms, 0.0))
        middle = parts[..., 0]
        kept = middle + half >= np.max(middle - half, axis=-1, keepdims=True)
        return first_best(np.where(kept, index, -np.inf))
