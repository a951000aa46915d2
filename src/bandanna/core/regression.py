"""Reports for linear regression: what a user tells of features and a reward, and how the sums are read again.

Whatever is reported of (x, y) - weighted, centred, in blocks - the server wants the same two things of a sum: a vector
sum x y and a matrix sum x x^T, and how much noise of a coordinate's unit variance each entry has.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.domain import Domain, Statistic, all_finite, clip_norm, reals
from bandanna.core.linalg import einsum
from bandanna.errors import InvalidStatistic

LARGEST_MOVE = 1e-9  # what is moved by more counts as clipped


@dataclass(frozen=True, kw_only=True)
class Regression(Domain):
    """Reports of `features` numbers and a reward. Its first `lead` coordinates are proportional to the reward.

    reward_bound  rewards are in [-reward_bound, reward_bound], after the policy has centred them
    """

    features: int
    reward_bound: float

    @property
    @abstractmethod
    def lead(self) -> int:
        """How many coordinates there are to which the reward is a factor: the first of all."""

    @abstractmethod
    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """Reports (..., dim) of `seen` features (..., d), rewards (...) and, where arms have blocks, arms (...)."""

    @abstractmethod
    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        """Vector (*R, d) and matrix (*R, d, d) of a sum over so many users, the scaling undone; per arm, (*R, K, d)."""

    @property
    @abstractmethod
    def variances(self) -> tuple[Floats, Floats]:
        """Of the entries of `sums`, (d,) and (d, d), where every coordinate has noise of variance 1."""

    @property
    @abstractmethod
    def second_moments(self) -> Floats:
        """Of a parameter of norm 1 of which no direction is preferred: E theta_j^2, (d,)."""

    def seen(self, contexts: Floats) -> Floats:
        """Device: features as they are scored and reported, (..., d): no longer than 1."""
        return clip_norm(contexts, 1.0)

    def statistic(
        self, features: ArrayLike, rewards: ArrayLike, *, moved: Bools | None = None, arms: Ints | None = None
    ) -> Statistic:
        """Reports of features (..., users, d) and rewards (..., users), clipped before the report is formed.

        `moved`: whose rewards were clipped before, (..., users); a report is counted once.
        """
        x, y = reals("features", features), reals("rewards", rewards)
        if x.ndim < 2 or x.shape[-1] != self.features:
            raise InvalidStatistic("features", x, f"shape (..., users, {self.features})")
        if y.shape != x.shape[:-1]:
            raise InvalidStatistic("rewards", y, f"shape {x.shape[:-1]}, as the features")
        all_finite("features", x)
        all_finite("rewards", y)
        inside_x, outside = self.inside(x)
        inside_y = np.clip(y, -self.reward_bound, self.reward_bound)
        outside = outside | (np.abs(inside_y - y) > LARGEST_MOVE * self.reward_bound)
        count = np.sum(outside if moved is None else outside | moved, axis=-1, dtype=np.int64)
        return self.sealed(self.pack(inside_x, inside_y, arms), clipped=np.asarray(count))

    def inside(self, x: Floats) -> tuple[Floats, Bools]:
        """Features as a report may have them, and which were moved: (..., d) -> the same, (...)."""
        inside = unit_ball(x)
        if inside is x:
            return inside, np.zeros(x.shape[:-1], dtype=np.bool_)
        return inside, np.any(np.abs(inside - x) > LARGEST_MOVE, axis=-1)


def unit_ball(x: Floats) -> Floats:
    """Vectors clipped to norm 1, nor longer by rounding errors: (..., d); the array itself where none is longer."""
    inside = clip_norm(x, 1.0)
    norms = np.sqrt(einsum("...i,...i->...", inside, inside))[..., None]
    if norms.size and norms.item(norms.argmax()) <= 1:  # NaN is not
        return inside
    return np.asarray(inside * np.where(norms > 1, 1 / np.maximum(norms, 1.0), 1.0))


@dataclass(frozen=True)
class Weights:
    """How much of a report of (z, 1) and y is the reward, the matrix, the features and the count; x y has weight 1.

    The report of |z| <= 1 and |y| <= Y is (z y, a y, b z z^T, c z, e), with sqrt 2 above the diagonal.
    """

    reward: float = 0.0  # a
    matrix: float = 1.0  # b
    features: float = 0.0  # c
    count: float = 0.0  # e

    def largest(self, bound: float) -> float:
        """The largest norm, at |z| = 1 and |y| = Y."""
        square = bound**2
        return math.sqrt(square + (self.reward * bound) ** 2 + self.matrix**2 + self.features**2 + self.count**2)

    def diameter(self, bound: float) -> float:
        """The largest distance of two reports (calibration.md A.7, A.8).

        It is convex in (y, y'), so the signs of full rewards suffice; the largest over t = <z, z'>/|z||z'| grows with
        |z| and |z'|, so both are 1. Then, for opposite and for equal signs,

            2 Y^2 (1 + t) + 4 a^2 Y^2 + 2 b^2 (1 - t^2) + 2 c^2 (1 - t),      2 (Y^2 + c^2)(1 - t) + 2 b^2 (1 - t^2)
        """
        y, b, c = bound**2, self.matrix**2, self.features**2
        opposite = 2 * (y + b + c) + 4 * self.reward**2 * y + _gain(2 * (y - c), 2 * b)
        equal = 2 * (y + b + c) + _gain(2 * (y + c), 2 * b)
        return math.sqrt(max(opposite, equal))


def _gain(slope: float, curve: float) -> float:
    """max over |t| <= 1 of slope t - curve t^2."""
    slope = abs(slope)
    return slope**2 / (4 * curve) if slope <= 2 * curve else slope - curve
