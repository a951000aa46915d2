"""Private estimation in the shuffle model: every gradient is a shuffled vector sum (paper [003], Algorithm 7).

All n users of a batch take part in each of N rounds: in round j they receive theta_j, form their clipped gradients, and
the binomial vector sum (`protocols.shuffle_binomial`) turns these into a noisy total. The regulariser and the
projection are the analyzer's. Deviations: our tight binomial noise with its composable price (calibration.md A.3b)
instead of the printed constants, numerical composition over the rounds instead of advanced composition, and sums.

Privacy: one release of a batch is a BinomialEvent; a user is in N of them (and in one for the batch's matrix), which
the accountant composes; batches have disjoint users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Bools, Floats
from bandanna.core.domain import Statistic, all_finite, clip_norm
from bandanna.core.shapes import SymmetricMatrix
from bandanna.glm.descent import GradientSums
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.storage.declared import stored_as


@stored_as("OuterProducts")
@dataclass(frozen=True, kw_only=True)
class OuterProducts(SymmetricMatrix):
    """Positive semi-definite matrices of Frobenius norm at most `bound`, such as w x x^T with |x| <= 1, w <= bound.

    Two of them have <A, B> >= 0, so |A - B|^2 <= |A|^2 + |B|^2: sensitivity sqrt 2 bound, not 2 bound.
    """

    @property
    def sensitivity(self) -> float:
        """sqrt 2 times the bound."""
        return math.sqrt(2) * self.bound

    @property
    def lower(self) -> Floats:
        """0 on the diagonal; above it |sqrt 2 A_ij| <= bound / sqrt 2."""
        above = self.dim - self.size
        return np.concatenate([np.zeros(self.size), np.full(above, -self.bound / math.sqrt(2))])

    @property
    def upper(self) -> Floats:
        """The bound on the diagonal."""
        above = self.dim - self.size
        return np.concatenate([np.full(self.size, self.bound), np.full(above, self.bound / math.sqrt(2))])

    def project(self, values: Floats) -> Floats:
        """Negative eigenvalues are cut off, then the norm."""
        eigenvalues, vectors = np.linalg.eigh(self.unpack(values))
        positive = (vectors * np.maximum(eigenvalues, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return clip_norm(self.pack((positive + np.swapaxes(positive, -1, -2)) / 2), self.bound)

    def statistic(self, features: Floats, weights: Floats, clipped: Bools | bool = False) -> Statistic:
        """w x x^T of features (..., users, d) and weights (..., users), both clipped before it is formed.

        clipped: whose reward is clipped too, (..., users): such a report is counted, once.
        """
        all_finite("features", features)
        all_finite("weights", weights)
        x, w = clip_norm(features, 1.0), np.clip(weights, 0.0, self.bound)
        rows, columns = self._above
        stacked = np.concatenate([x * x, math.sqrt(2) * x[..., rows] * x[..., columns]], axis=-1) * w[..., None]
        moved = np.any(np.abs(x - features) > 1e-9, axis=-1) | (np.abs(w - weights) > 1e-9 * self.bound) | clipped
        return self.sealed(stacked, clipped=moved.sum(axis=-1, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class ShuffledGradient(GradientSums):
    """`steps` shuffled gradient sums of one batch; `protocol` is the calibrated vector sum on the ball of radius G."""

    protocol: ShuffleBinomial

    @property
    def std(self) -> float:
        """Of the noise in each coordinate of a sum, rounding included."""
        return self.protocol.noise.std()
