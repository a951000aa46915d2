"""The report of a linear bandit's user: x y and x x^T, stacked into one vector whose noise is all of the same size.

For features |x|_2 <= 1 and rewards |y| <= Y a report has d + d(d+1)/2 coordinates: the vector x y, the diagonal of x
x^T, and its entries above the diagonal times sqrt 2. The sqrt 2 makes the stacking an isometry (Frobenius norm),
leaves the worst case as it is and halves the noise variance of the off-diagonal entries. `isometric=False` leaves out
the sqrt 2: then every entry of x x^T has the noise of a coordinate, which is the noise that [000] and [002] print.

Sensitivity under replacement, with c = <x, x'> (calibration.md 0.2):

    |report - report'|^2 <= sup_c 2 Y^2 - 2 Y^2 c + 2 - 2 c^2 = (Y^2 + 2)^2 / 2  if Y^2 <= 2 (c = -Y^2/2), else 4 Y^2.

Without the sqrt 2 no distance is larger, and the worst pair is as far apart in a basis in which x x^T - x' x'^T is
diagonal: the sensitivity is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import Domain, all_finite, clip_norm, reals, size
from bandanna.core.memory import require_room
from bandanna.core.regression import Regression
from bandanna.errors import InvalidStatistic
from bandanna.storage.declared import stored_as

MOST_FEATURES = 10_000  # whose report has fifty million coordinates


@stored_as("LinearReport")
@dataclass(frozen=True, kw_only=True)
class LinearReport(Regression):
    """Stacked reports of `features` dimensions and rewards in [-reward_bound, reward_bound].

    isometric  whether the entries above the diagonal are multiplied by sqrt 2; calibration="paper" sets it to False in
               the local, shuffle and concurrent models
    """

    dim: int = 0  # derived from `features`
    features: int
    reward_bound: float = 1.0
    isometric: bool = True

    def __post_init__(self) -> None:
        require.store(self, require.flag, "isometric")
        d = require.whole("features", self.features, most=MOST_FEATURES)
        object.__setattr__(self, "features", d)
        require.store(self, size, "reward_bound")
        dim = d + d * (d + 1) // 2
        require_room("features", d, 56 * dim, of=f"tables of {dim:,} coordinates")  # bounds, scales, places
        object.__setattr__(self, "dim", dim)

    @property
    def _scale(self) -> float:
        """What multiplies the entries above the diagonal."""
        return math.sqrt(2) if self.isometric else 1.0

    @property
    def sensitivity(self) -> float:
        """3/sqrt 2 = sqrt 4.5 for rewards in [-1, 1]."""
        square = self.reward_bound**2
        return (square + 2) / math.sqrt(2) if square <= 2 else 2 * self.reward_bound

    @property
    def l1_sensitivity(self) -> float:
        """sup_c Y sqrt d sqrt(2 - 2c) + sqrt(d(d+1)/2) sqrt(2 - 2 c^2) for d > 1, at most 3.5 % too large; exact for 1.

        n numbers have an l1 norm of at most sqrt n times their l2 norm (calibration.md 0.3). With w = sqrt(1 + c) it is
        the largest sqrt(2 - w^2) (p + q w), where 2 q w^2 + p w = 2 q.
        """
        d, bound = self.features, self.reward_bound
        if d == 1:
            near = min(1.0, bound / 2)  # |x'| beside |x| = 1
            return bound * (1 + near) + 1 - near * near
        p, q = bound * math.sqrt(2 * d), math.sqrt(d * (d + 1))
        w = 4 * q / (p + math.hypot(p, 4 * q))
        return math.sqrt(2 - w * w) * (p + q * w)

    @cached_property
    def lower(self) -> Floats:
        """-Y for the vector, 0 for the diagonal, -1/sqrt 2 above it (|x_i x_j| <= 1/2), or -1/2 without the sqrt 2."""
        return self._stack(-self.reward_bound, 0.0, -self._scale / 2)

    @cached_property
    def upper(self) -> Floats:
        """Y for the vector, 1 for the diagonal, 1/sqrt 2 above it, or 1/2 without the sqrt 2."""
        return self._stack(self.reward_bound, 1.0, self._scale / 2)

    @cached_property
    def ball(self) -> tuple[Floats, float]:
        """Around c I on the diagonal, c = min(1/d, (Y^2 + 1)/2): the least ball that holds all reports for d >= 2.

            |x y|^2 + |x x^T - c I|^2 = s y^2 + s^2 - 2 c s + c^2 d,   s = |x|^2,

        is convex in s, so at most its larger end: c^2 d at s = 0, or Y^2 + 1 - 2c + c^2 d at s = 1 (calibration.md D).
        """
        d, ends = self.features, self.reward_bound**2 + 1
        c = min(1 / d, ends / 2)
        return self._stack(0.0, c, 0.0), math.sqrt(max(c * c * d, ends - 2 * c + c * c * d))

    @cached_property
    def _above(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries above the diagonal, in the order of the stack."""
        rows, columns = np.triu_indices(self.features, 1)
        return rows, columns

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        """Where in the stack each entry of the matrix stands, (d, d)."""
        d, (rows, columns) = self.features, self._above
        place = np.diag(np.arange(d, 2 * d))
        place[rows, columns] = place[columns, rows] = 2 * d + np.arange(len(rows))
        return place

    @cached_property
    def _unscaled(self) -> Floats:
        """What undoes the scaling of each entry of the stack."""
        return self._stack(1.0, 1.0, math.sqrt(0.5) if self.isometric else 1.0)[:, None]

    def _stack(self, vector: float, diagonal: float, above: float) -> Floats:
        d = self.features
        stack = np.concatenate([np.full(d, vector), np.full(d, diagonal), np.full(d * (d - 1) // 2, above)])
        stack.setflags(write=False)  # kept
        return stack

    @property
    def lead(self) -> int:
        """x y."""
        return self.features

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """(..., d), (...) -> (..., dim): x y, x_i^2, sqrt 2 x_i x_j (or x_i x_j); the same for all arms."""
        rows, columns = self._above
        above = self._scale * x[..., rows]
        above *= x[..., columns]
        return np.concatenate([x * y[..., None], x * x, above], axis=-1)

    def unpack(self, stacked: Floats) -> tuple[Floats, Floats]:
        """(..., dim) -> vector (..., d) and symmetric matrix (..., d, d), the scaling undone."""
        d, stacked = self.features, reals("stacked", stacked)
        if np.ndim(stacked) < 1 or np.shape(stacked)[-1] != self.dim:
            raise InvalidStatistic("stacked", stacked, f"shape (..., {self.dim})")
        flat = np.reshape(stacked, (-1, self.dim)).T * self._unscaled  # replicates last in memory: quick to invert
        return stacked[..., :d], flat[self._place].transpose(2, 0, 1).reshape(*stacked.shape[:-1], d, d)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        """All of it was noised."""
        return self.unpack(total)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        """1 for the vector and the diagonal, 1/2 beside it; 1 everywhere if not `isometric`."""
        beside = 0.5 if self.isometric else 1.0
        return np.ones(self.features), beside + (1 - beside) * np.eye(self.features)

    @property
    def matrix_std(self) -> float:
        """At least the standard deviation of u^T N u, |u| = 1, with N the matrix's noise: 1; sqrt 2 if not isometric.

        For any w, u^T N w has at most twice the variance of isometric noise if every entry has variance 1:
        |u|^2 |w|^2 + <u, w>^2 - sum u_i^2 w_i^2.
        """
        return 1.0 if self.isometric else math.sqrt(2)

    @property
    def second_moments(self) -> Floats:
        """1/d each."""
        return np.full(self.features, 1 / self.features)

    def project(self, values: Floats) -> Floats:
        """The report of the features and reward that a stacked vector shows; a report that is one already stays.

        The bound above needs reports of the form (x y, x x^T), not only small norms: so x is read off the matrix's
        column with the largest diagonal entry, y off the vector along x, both are clipped, and the report is formed
        anew.
        """
        vector, matrix = self.unpack(np.ascontiguousarray(np.clip(values, self.lower, self.upper)))
        diagonal = np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 0.0)  # (..., d)
        pivot = np.argmax(diagonal, axis=-1)[..., None]  # (..., 1)
        root = np.sqrt(np.take_along_axis(diagonal, pivot, axis=-1))  # (..., 1)
        column = np.take_along_axis(matrix, pivot[..., None], axis=-1)[..., 0]  # (..., d)
        scale = np.maximum(root, np.abs(column))  # a report's own entries never exceed the root
        x = clip_norm(np.divide(column, scale, out=np.zeros_like(column), where=scale > 0), 1.0)
        square = np.sum(x * x, axis=-1)
        y = np.divide(np.sum(vector * x, axis=-1), square, out=np.zeros_like(square), where=square > 0)
        return self.pack(x, np.clip(y, -self.reward_bound, self.reward_bound))


def entrywise(domain: Domain) -> Domain:
    """The domain for noise that is printed for each entry of x x^T: a linear report without the sqrt 2."""
    return replace(domain, isometric=False) if isinstance(domain, LinearReport) else domain


def clip_rewards(rewards: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Rewards in [0, 1], (*R, rounds), and which of them were outside; infinite ones are refused."""
    all_finite("rewards", rewards)
    return np.clip(rewards, 0.0, 1.0), (rewards < -1e-9) | (rewards > 1 + 1e-9)
