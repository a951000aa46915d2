"""Reports where one feature is a constant: what is known of it gets no noise, and rewards around 1/2 need less.

Features are (z, 1) up to scale, |z|_2 <= 1, and rewards y in [-1/2, 1/2]. A report is, with p = d - 1,

    (z y, y/2, z z^T/2, z/3),     p + 1 + p(p+1)/2 + p coordinates, entries above the diagonal times sqrt 2,

and the Gram entry of the constant is the number of users, which is public. The weights balance the noise in what a
regression makes of the four parts: undone, its standard deviations are as 1 : 2 : 2 : 3.

Sensitivity: sqrt 1.5108 = 1.2292 (`Weights.diameter`; calibration.md A.7), where (x y, x x^T) with |x| <= 1 has 2.1213.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.domain import all_finite, clip_norm
from bandanna.core.regression import LARGEST_MOVE, Regression, Weights, unit_ball
from bandanna.core.report import MOST_FEATURES, LinearReport
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.storage.declared import stored_as

_WEIGHTS = Weights(reward=1 / 2, matrix=1 / 2, features=1 / 3)


@stored_as("InterceptReport")
@dataclass(frozen=True, kw_only=True)
class InterceptReport(Regression):
    """Reports of `features` numbers, of which the last is the same for all arms and users, and a centred reward."""

    dim: int = 0  # derived from `features`
    features: int
    reward_bound: float = 0.5

    def __post_init__(self) -> None:
        d = require.whole("features", self.features, least=2, most=MOST_FEATURES)
        object.__setattr__(self, "features", d)
        if self.reward_bound != 0.5:
            raise InvalidArgument("reward_bound", self.reward_bound, "0.5, for which the report is weighted")
        object.__setattr__(self, "dim", self._square.dim + 1 + self._slopes)

    @property
    def _slopes(self) -> int:
        """P: features that are not the constant."""
        return self.features - 1

    @cached_property
    def _square(self) -> LinearReport:
        """Packs z y and z z^T."""
        return LinearReport(features=self._slopes, reward_bound=self.reward_bound)

    @property
    def sensitivity(self) -> float:
        """1.2292."""
        return _WEIGHTS.diameter(self.reward_bound)

    @property
    def l1_sensitivity(self) -> float:
        """Twice the largest l1 norm, at z = 1/sqrt p: Y sqrt p + Y/2 + (1 + (p - 1)/sqrt 2)/2 + sqrt(p)/3."""
        p, weights = self._slopes, _WEIGHTS
        vector = self.reward_bound * (math.sqrt(p) + weights.reward)
        return 2 * (vector + weights.matrix * (1 + (p - 1) / math.sqrt(2)) + weights.features * math.sqrt(p))

    @cached_property
    def lower(self) -> Floats:
        """As those of x y and x x^T, weighted."""
        return self._stack(self._square.lower, -self.reward_bound, -1.0)

    @cached_property
    def upper(self) -> Floats:
        """As those of x y and x x^T, weighted."""
        return self._stack(self._square.upper, self.reward_bound, 1.0)

    @property
    def ball(self) -> tuple[Floats, float]:
        """Around b/p on the diagonal: its square is convex in s = |z|^2, so the largest at 0 or at 1.

        |.|^2 <= Y^2 (s + a^2) + b^2 (s^2 - 2 s/p + 1/p) + c^2 s
        """
        p, y, w = self._slopes, self.reward_bound**2, _WEIGHTS
        centre = np.zeros(self.dim)
        centre[p + 1 : 2 * p + 1] = w.matrix / p
        still = y * w.reward**2 + w.matrix**2 / p
        full = y * (1 + w.reward**2) + w.matrix**2 * (1 - 1 / p) + w.features**2
        return centre, math.sqrt(max(still, full))

    def _stack(self, square: Floats, reward: float, features: float) -> Floats:
        p = self._slopes
        parts = [square[:p], [_WEIGHTS.reward * reward], _WEIGHTS.matrix * square[p:]]
        stack = np.concatenate([*parts, np.full(p, _WEIGHTS.features * features)])
        stack.setflags(write=False)  # kept
        return stack

    @property
    def lead(self) -> int:
        """z y and y/2."""
        return self.features

    def seen(self, contexts: Floats) -> Floats:
        """Device: (z, 1) with |z| <= 1, whatever the constant is: (..., d)."""
        slopes, absent = _parts(contexts)
        return np.concatenate([clip_norm(slopes, 1.0), np.where(absent, 0.0, 1.0)], axis=-1)

    def seen_before(self, contexts: Floats) -> Floats | None:
        """The features themselves where they are (z, 1) with |z| <= 1, as `seen` would give them; None: they are not.

        It takes a fraction of the time, and whoever acts is given `seen` features.
        """
        if not (contexts[..., -1] == 1.0).all():
            return None
        slopes = np.ascontiguousarray(contexts[..., :-1])
        return np.ascontiguousarray(contexts) if clip_norm(slopes, 1.0) is slopes else None

    def inside(self, x: Floats) -> tuple[Floats, Bools]:
        """(z, 1); features that are all 0, of a user who did not answer, stay so."""
        slopes, absent = _parts(x)
        inside = unit_ball(slopes)
        moved = np.any(np.abs(inside - slopes) > LARGEST_MOVE, axis=-1)
        return np.concatenate([inside, np.where(absent, 0.0, 1.0)], axis=-1), moved

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """(z, 1) and y; of a user who did not answer, zeros."""
        p, y = self._slopes, y * x[..., -1]
        square = self._square.pack(x[..., :p], y)
        parts = [square[..., :p], _WEIGHTS.reward * y[..., None], _WEIGHTS.matrix * square[..., p:]]
        return np.concatenate([*parts, _WEIGHTS.features * x[..., :p]], axis=-1)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        """Vector (*R, d) and matrix (*R, d, d), whose last entry is the number of users."""
        p, weights = self._slopes, _WEIGHTS
        end = 1 + self._square.dim
        packed = np.concatenate([total[..., :p], total[..., p + 1 : end] / weights.matrix], axis=-1)
        vector, matrix = self._square.unpack(packed)
        full = np.empty((*total.shape[:-1], p + 1, p + 1))
        full[..., :p, :p], full[..., p, p] = matrix, users
        full[..., :p, p] = full[..., p, :p] = total[..., end:] / weights.features
        return np.concatenate([vector, total[..., p : p + 1] / weights.reward], axis=-1), full

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """The weights undone; none in the number of users."""
        return undone(_WEIGHTS, self._slopes)

    @property
    def second_moments(self) -> Floats:
        """1/p for the slopes; 1/3 for the constant, whose share is uniform."""
        return np.append(np.full(self._slopes, 1 / self._slopes), 1 / 3)

    def project(self, values: Floats) -> Floats:
        """The report of the features and the reward that stand in a vector by themselves, clipped."""
        p = self._slopes
        z = unit_ball(np.clip(values[..., -p:] / _WEIGHTS.features, -1.0, 1.0))
        y = np.clip(values[..., p] / _WEIGHTS.reward, -self.reward_bound, self.reward_bound)
        return self.pack(np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1), y)


def undone(weights: Weights, slopes: int) -> tuple[Floats, Floats]:
    """Variances of the entries of vector and matrix of (z, 1), (d,) and (d, d), the weights undone."""
    vector = np.append(np.ones(slopes), weights.reward**-2)
    matrix = np.full((slopes + 1, slopes + 1), weights.features**-2)
    matrix[:slopes, :slopes] = 0.5 * (1 + np.eye(slopes)) * weights.matrix**-2
    matrix[-1, -1] = weights.count**-2 if weights.count else 0.0
    return vector, matrix


def _parts(x: Floats) -> tuple[Floats, Bools]:
    """z, and where all is 0, of a user who did not answer: (..., p), (..., 1)."""
    constant, absent = x[..., -1:], np.all(x == 0, axis=-1, keepdims=True)
    if not np.all((constant > 0) | absent):
        allowed = "intercept=True says that the last feature is a constant > 0"
        raise InvalidStatistic("features", Summary("a last feature that is not positive"), allowed)
    with np.errstate(over="ignore"):
        slopes = np.asarray(x[..., :-1] / np.where(absent, 1.0, constant))
    all_finite("features", slopes)  # a constant may be so small that they are not
    return slopes, absent
