"""Reports where every arm has a parameter of its own: as many blocks as arms, all but one of them zero.

A user whose features are z, |z|_2 <= 1, was given arm k and answered y in [-1/2, 1/2]. In block k of the report stands

    (z y, a y, b z z^T, c z, e),     p + 1 + p(p+1)/2 + p + 1 coordinates, entries above the diagonal times sqrt 2,

the sums for a regression on (z, 1), the number of the arm's users among them: which arm it was is private too. Blocks
of two arms do not exist, and get no noise; np.kron(arm, z) in a report for all arms would have K^2 of them.

Sensitivity: reports in different blocks are orthogonal, so they are at most sqrt 2 R apart, R the largest norm; in
one block as far as two reports of (z, 1) are (`Weights.diameter`; calibration.md A.8). The larger of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.intercept import undone
from bandanna.core.regression import Regression, Weights, unit_ball
from bandanna.core.report import MOST_FEATURES, LinearReport
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.storage.declared import stored_as

_MOST_COORDINATES = 50_000_000


@stored_as("PerArmReport")
@dataclass(frozen=True, kw_only=True)
class PerArmReport(Regression):
    """Reports of `features` numbers, one of `n_arms` arms, and a centred reward; the constant is the report's own."""

    dim: int = 0  # derived
    features: int
    n_arms: int
    reward_bound: float = 0.5

    def __post_init__(self) -> None:
        p = require.whole("features", self.features, most=MOST_FEATURES)
        arms = require.whole("n_arms", self.n_arms)
        object.__setattr__(self, "features", p)
        object.__setattr__(self, "n_arms", arms)
        if self.reward_bound != 0.5:
            raise InvalidArgument("reward_bound", self.reward_bound, "0.5, for which the report is weighted")
        object.__setattr__(self, "dim", arms * (self._lead + self._rest))
        if self.dim > _MOST_COORDINATES:
            allowed = f"at most {_MOST_COORDINATES:,} numbers in a report"
            raise InvalidArgument("n_arms, features", (arms, p), f"{allowed}: these would be {self.dim:,}")

    @property
    def _lead(self) -> int:
        """Of a block: z y and a y."""
        return self.features + 1

    @property
    def _rest(self) -> int:
        """Of a block: b z z^T, c z and e."""
        return self._square.dim + 1

    @cached_property
    def _square(self) -> LinearReport:
        """Packs z y and z z^T."""
        return LinearReport(features=self.features, reward_bound=self.reward_bound)

    @cached_property
    def weights(self) -> Weights:
        """w_i^2 ~ sqrt(A_i / s_i), which makes R^2 times the noise of a regression least.

        R^2 = sum s_i w_i^2 with s = (Y^2, Y^2, 1, 1, 1) for z y, y, z z^T, z and 1. The noise is sum A_i / w_i^2, that
        of h - N theta summed over p slopes with E theta_j^2 = 1/4p and a constant with 1/12:
        A = (p, 1, (p + 1)/8, p/12 + 1/4, 1/12).
        """
        p, y = self.features, self.reward_bound**2
        square = [math.sqrt(a / s) for a, s in ((p, y), (1, y), ((p + 1) / 8, 1), (p / 12 + 1 / 4, 1), (1 / 12, 1))]
        return Weights(*(math.sqrt(each / square[0]) for each in square[1:]))

    @cached_property
    def sensitivity(self) -> float:
        """About 1.3."""
        return max(self.weights.diameter(self.reward_bound), math.sqrt(2) * self.weights.largest(self.reward_bound))

    @cached_property
    def l1_sensitivity(self) -> float:
        """Twice the largest l1 norm."""
        p, w, y = self.features, self.weights, self.reward_bound
        vector = y * (math.sqrt(p) + w.reward)
        return 2 * (vector + w.matrix * (1 + (p - 1) / math.sqrt(2)) + w.features * math.sqrt(p) + w.count)

    @cached_property
    def lower(self) -> Floats:
        """Those of a block, or 0."""
        return np.minimum(self._stacked(self._square.lower, -self.reward_bound, -1.0, 0.0), 0.0)

    @cached_property
    def upper(self) -> Floats:
        """Those of a block, or 0."""
        return self._stacked(self._square.upper, self.reward_bound, 1.0, 1.0)

    @property
    def ball(self) -> tuple[Floats, float]:
        """Around 0, with the largest norm."""
        return np.zeros(self.dim), self.weights.largest(self.reward_bound)

    def _stacked(self, square: Floats, reward: float, features: float, count: float) -> Floats:
        """The same block for every arm, what the reward multiplies before the rest."""
        p, w = self.features, self.weights
        lead = np.append(square[:p], w.reward * reward)
        rest = np.concatenate([w.matrix * square[p:], np.full(p, w.features * features), [w.count * count]])
        return np.concatenate([np.tile(lead, self.n_arms), np.tile(rest, self.n_arms)])

    @property
    def lead(self) -> int:
        """(z y, a y) of all arms stand first."""
        return self.n_arms * self._lead

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """Zeros but for the arm's block; an arm of -1 is that of a user who did not answer, and has none."""
        if arms is None:
            raise InvalidStatistic("arms", None, "the arm of every user: each has a block of its own")
        p, w = self.features, self.weights
        square, given = self._square.pack(x, y), np.asarray(arms >= 0, dtype=float)[..., None]
        lead = np.concatenate([square[..., :p], w.reward * y[..., None]], axis=-1)
        rest = np.concatenate([w.matrix * square[..., p:], w.features * x, np.full_like(given, w.count)], axis=-1)
        return np.concatenate([self._placed(lead * given, arms), self._placed(rest * given, arms)], axis=-1)

    def _placed(self, block: Floats, arms: Ints) -> Floats:
        """Blocks (..., m) at their arms: (..., K m)."""
        blocks = np.zeros((*block.shape[:-1], self.n_arms, block.shape[-1]))
        np.put_along_axis(blocks, np.maximum(arms, 0)[..., None, None], block[..., None, :], axis=-2)
        return blocks.reshape(*block.shape[:-1], -1)

    def _blocks(self, total: Floats) -> tuple[Floats, Floats]:
        """(..., dim) -> what the reward multiplies (..., K, p + 1), and the rest (..., K, m)."""
        front, back = total[..., : self.lead], total[..., self.lead :]
        shape = (*total.shape[:-1], self.n_arms)
        return front.reshape(*shape, self._lead), back.reshape(*shape, self._rest)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        """Vectors (*R, K, p + 1) and matrices (*R, K, p + 1, p + 1) of the arms, the constant last."""
        p, w = self.features, self.weights
        lead, rest = self._blocks(total)
        squares = p * (p + 1) // 2
        packed = np.concatenate([lead[..., :p], rest[..., :squares] / w.matrix], axis=-1)
        vector, matrix = self._square.unpack(packed)
        full = np.empty((*matrix.shape[:-2], p + 1, p + 1))
        full[..., :p, :p], full[..., p, p] = matrix, rest[..., -1] / w.count
        full[..., :p, p] = full[..., p, :p] = rest[..., squares:-1] / w.features
        return np.concatenate([vector, lead[..., p:] / w.reward], axis=-1), full

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """The weights undone, of every block."""
        return undone(self.weights, self.features)

    @property
    def second_moments(self) -> Floats:
        """1/p for the slopes; 1/3 for the constant, whose share is uniform."""
        return np.append(np.full(self.features, 1 / self.features), 1 / 3)

    def project(self, values: Floats) -> Floats:
        """The report that stands in the block with the largest count, clipped; none where all counts are below half."""
        lead, rest = self._blocks(values)
        arms = np.argmax(rest[..., -1], axis=-1)
        lead, rest = (np.take_along_axis(each, arms[..., None, None], axis=-2)[..., 0, :] for each in (lead, rest))
        p, w = self.features, self.weights
        z = unit_ball(np.clip(rest[..., -1 - p : -1] / w.features, -1.0, 1.0))
        y = np.clip(lead[..., p] / w.reward, -self.reward_bound, self.reward_bound)
        return self.pack(z, y, np.where(rest[..., -1] >= w.count / 2, arms, -1))
