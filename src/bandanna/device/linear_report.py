"""Reports of linear regression: `LinearReport`, `InterceptReport` (one feature is constant), `PerArmReport`."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.domain import Domain, Statistic, check_all_finite, check_domain_size, clip_norm, read_real_array
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.linalg import einsum
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints
from bandanna.validation import check_memory

# Interface


ROUNDING_TOLERANCE = 1e-9  # what is moved by more counts as clipped


@dataclass(frozen=True, kw_only=True)
class RegressionReport(Domain):
    """Reports of `features` numbers and a reward in [-reward_bound, reward_bound], centred by the policy.

    The first `lead` coordinates are proportional to the reward.
    """

    features: int
    reward_bound: float

    @property
    @abstractmethod
    def lead(self) -> int:
        """Number of coordinates with the reward as a factor; they come first."""

    @abstractmethod
    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """Return reports (..., dim) of `seen` features (..., d), rewards (...) and, if arms have blocks, arms (...)."""

    @abstractmethod
    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        """Return vector (*R, d) and matrix (*R, d, d) of a sum over `users` users, unscaled; per arm, (*R, K, d)."""

    @property
    @abstractmethod
    def variances(self) -> tuple[Floats, Floats]:
        """Return the variances of the entries of `sums`, (d,) and (d, d), for noise of variance 1 on coordinates."""

    @property
    @abstractmethod
    def second_moments(self) -> Floats:
        """Return E theta_j^2, (d,), for a parameter of norm 1 without a preferred direction."""

    def clip_features(self, contexts: Floats) -> Floats:
        """Return features as they are scored and reported, (..., d): no longer than 1."""
        return clip_norm(contexts, 1.0)

    def statistic(
        self, features: ArrayLike, rewards: ArrayLike, *, moved: Bools | None = None, arms: Ints | None = None
    ) -> Statistic:
        """Return reports of features (..., users, d) and rewards (..., users), clipped before the report is formed.

        `moved`: whose rewards were clipped before, (..., users); a report is counted once.
        """
        x, y = read_real_array("features", features), read_real_array("rewards", rewards)
        if x.ndim < 2 or x.shape[-1] != self.features:
            raise InvalidStatistic("features", x, f"shape (..., users, {self.features})")
        if y.shape != x.shape[:-1]:
            raise InvalidStatistic("rewards", y, f"shape {x.shape[:-1]}, as the features")
        check_all_finite("features", x)
        check_all_finite("rewards", y)
        inside_x, outside = self.inside(x)
        inside_y = np.clip(y, -self.reward_bound, self.reward_bound)
        outside = outside | (np.abs(inside_y - y) > ROUNDING_TOLERANCE * self.reward_bound)
        count = np.sum(outside if moved is None else outside | moved, axis=-1, dtype=np.int64)
        return self.sealed(self.pack(inside_x, inside_y, arms), clipped=np.asarray(count))

    def inside(self, x: Floats) -> tuple[Floats, Bools]:
        """Return features as a report may have them, (..., d), and which were moved, (...)."""
        inside = clip_to_unit_ball(x)
        if inside is x:
            return inside, np.zeros(x.shape[:-1], dtype=np.bool_)
        return inside, np.any(np.abs(inside - x) > ROUNDING_TOLERANCE, axis=-1)


def clip_to_unit_ball(x: Floats) -> Floats:
    """Clip vectors (..., d) to norm 1, rounding errors included; return the array itself if none is longer."""
    inside = clip_norm(x, 1.0)
    norms = np.sqrt(einsum("...i,...i->...", inside, inside))[..., None]
    if norms.size and norms.item(norms.argmax()) <= 1:  # NaN is not
        return inside
    return np.asarray(inside * np.where(norms > 1, 1 / np.maximum(norms, 1.0), 1.0))


@dataclass(frozen=True)
class ReportWeights:
    """Weights of the reward, the matrix, the features and the count in a report of (z, 1) and y; x y has weight 1.

    The report of |z| <= 1 and |y| <= Y is (z y, a y, b z z^T, c z, e), with sqrt 2 above the diagonal.
    """

    reward: float = 0.0  # a
    matrix: float = 1.0  # b
    features: float = 0.0  # c
    count: float = 0.0  # e

    def largest(self, bound: float) -> float:
        """Return the largest norm, at |z| = 1 and |y| = Y."""
        square = bound**2
        return math.sqrt(square + (self.reward * bound) ** 2 + self.matrix**2 + self.features**2 + self.count**2)

    def diameter(self, bound: float) -> float:
        """Return the largest distance of two reports (proofs.md A.7, A.8).

        It is the larger maximum over |t| <= 1, for opposite and for equal signs of full rewards, of

            2 Y^2 (1 + t) + 4 a^2 Y^2 + 2 b^2 (1 - t^2) + 2 c^2 (1 - t),      2 (Y^2 + c^2)(1 - t) + 2 b^2 (1 - t^2)
        """
        y, b, c = bound**2, self.matrix**2, self.features**2
        opposite = 2 * (y + b + c) + 4 * self.reward**2 * y + _maximize_quadratic(2 * (y - c), 2 * b)
        equal = 2 * (y + b + c) + _maximize_quadratic(2 * (y + c), 2 * b)
        return math.sqrt(max(opposite, equal))


def _maximize_quadratic(slope: float, curve: float) -> float:
    slope = abs(slope)
    return slope**2 / (4 * curve) if slope <= 2 * curve else slope - curve


# Shared model


MOST_FEATURES = 10_000  # whose report has fifty million coordinates


@stored_as("LinearReport")
@dataclass(frozen=True, kw_only=True)
class LinearReport(RegressionReport):
    """Reports (x y, x x^T) of `features` dimensions and rewards in [-reward_bound, reward_bound], as one vector.

    For |x|_2 <= 1 and |y| <= Y a report has d + d(d+1)/2 coordinates: x y, the diagonal of x x^T, and the entries above
    it times sqrt 2, an isometry. isometric=False leaves the sqrt 2 out, as for the noise that [000] and [002] print
    (calibration="paper" in the local, shuffle and concurrent models).

    Squared sensitivity under replacement (proofs.md 0.2): (Y^2 + 2)^2 / 2 if Y^2 <= 2, else 4 Y^2.

    Parameters
    ----------
    features
        Number d of features.
    reward_bound
        Public bound Y on |y|. Larger rewards are clipped; sensitivity grows with it.
    isometric
        Whether entries above the diagonal have the factor sqrt 2.
    dim
        Derived, d + d(d+1)/2.
    """

    dim: int = 0  # derived from `features`
    features: int
    reward_bound: float = 1.0
    isometric: bool = True

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.boolean, "isometric")
        d = validation.integer("features", self.features, most=MOST_FEATURES)
        object.__setattr__(self, "features", d)
        validation.set_validated(self, check_domain_size, "reward_bound")
        dim = d + d * (d + 1) // 2
        check_memory("features", d, 56 * dim, content=f"tables of {dim:,} coordinates")  # bounds, scales, places
        object.__setattr__(self, "dim", dim)

    @property
    def _scale(self) -> float:
        return math.sqrt(2) if self.isometric else 1.0

    @property
    def sensitivity(self) -> float:
        """3/sqrt 2 = sqrt 4.5 for rewards in [-1, 1]."""
        square = self.reward_bound**2
        return (square + 2) / math.sqrt(2) if square <= 2 else 2 * self.reward_bound

    @property
    def l1_sensitivity(self) -> float:
        """Largest l1 distance for d > 1, at most 3.5 % too large; exact for 1 (proofs.md 0.3).

        With w = sqrt(1 + c) it is the largest sqrt(2 - w^2) (p + q w), where 2 q w^2 + p w = 2 q.
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
        return self._stack(-self.reward_bound, 0.0, -self._scale / 2)

    @cached_property
    def upper(self) -> Floats:
        return self._stack(self.reward_bound, 1.0, self._scale / 2)

    @cached_property
    def ball(self) -> tuple[Floats, float]:
        """The least ball around c I on the diagonal that holds all reports for d >= 2, c = min(1/d, (Y^2 + 1)/2).

        Its square is the larger of c^2 d and Y^2 + 1 - 2c + c^2 d (proofs.md D.1).
        """
        d, ends = self.features, self.reward_bound**2 + 1
        c = min(1 / d, ends / 2)
        return self._stack(0.0, c, 0.0), math.sqrt(max(c * c * d, ends - 2 * c + c * c * d))

    @cached_property
    def _above(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.features, 1)
        return rows, columns

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        d, (rows, columns) = self.features, self._above
        place = np.diag(np.arange(d, 2 * d))
        place[rows, columns] = place[columns, rows] = 2 * d + np.arange(len(rows))
        return place

    @cached_property
    def _unscaled(self) -> Floats:
        return self._stack(1.0, 1.0, math.sqrt(0.5) if self.isometric else 1.0)[:, None]

    def _stack(self, vector: float, diagonal: float, above: float) -> Floats:
        d = self.features
        stack = np.concatenate([np.full(d, vector), np.full(d, diagonal), np.full(d * (d - 1) // 2, above)])
        stack.setflags(write=False)  # cached
        return stack

    @property
    def lead(self) -> int:
        return self.features

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        rows, columns = self._above
        above = self._scale * x[..., rows]
        above *= x[..., columns]
        return np.concatenate([x * y[..., None], x * x, above], axis=-1)

    def unpack(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Unstack (..., dim) -> vector (..., d) and symmetric matrix (..., d, d) and undo the scaling."""
        d, stacked = self.features, read_real_array("stacked", stacked)
        if np.ndim(stacked) < 1 or np.shape(stacked)[-1] != self.dim:
            raise InvalidStatistic("stacked", stacked, f"shape (..., {self.dim})")
        flat = np.reshape(stacked, (-1, self.dim)).T * self._unscaled  # replicates last in memory: quick to invert
        return stacked[..., :d], flat[self._place].transpose(2, 0, 1).reshape(*stacked.shape[:-1], d, d)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        return self.unpack(total)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        beside = 0.5 if self.isometric else 1.0
        return np.ones(self.features), beside + (1 - beside) * np.eye(self.features)

    @property
    def matrix_std(self) -> float:
        """Bound on the standard deviation of u^T N u, |u| = 1, N the matrix's noise: 1; sqrt 2 if not isometric."""
        return 1.0 if self.isometric else math.sqrt(2)

    @property
    def second_moments(self) -> Floats:
        return np.full(self.features, 1 / self.features)

    def project(self, values: Floats) -> Floats:
        """Return the report of the features and reward that a stacked vector shows; a report stays as it is.

        The sensitivity needs reports of the form (x y, x x^T). So x is read off the matrix's column with the largest
        diagonal entry, y off the vector along x, both are clipped, and the report is formed anew.
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


def drop_isometry(domain: Domain) -> Domain:
    """Return the domain for noise that is printed for each entry of x x^T, without the sqrt 2."""
    return replace(domain, isometric=False) if isinstance(domain, LinearReport) else domain


def clip_rewards(rewards: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return rewards clipped to [0, 1], and which of them were outside; refuse infinite ones."""
    check_all_finite("rewards", rewards)
    return np.clip(rewards, 0.0, 1.0), (rewards < -1e-9) | (rewards > 1 + 1e-9)


# Models with a constant


@dataclass(frozen=True, kw_only=True)
class ConstantReport(RegressionReport):
    """Reports of (z, 1), |z|_2 <= 1, whose parts have `weights`, and a centred reward in [-1/2, 1/2]."""

    reward_bound: float = 0.5

    def __post_init__(self) -> None:
        if self.reward_bound != 0.5:
            raise InvalidArgument("reward_bound", self.reward_bound, "0.5, for which the report is weighted")

    @property
    @abstractmethod
    def weights(self) -> ReportWeights:
        """Weights of the parts of a report."""

    @property
    @abstractmethod
    def slopes(self) -> int:
        """Number p of features in z."""

    @cached_property
    def _square(self) -> LinearReport:
        return LinearReport(features=self.slopes, reward_bound=self.reward_bound)

    @cached_property
    def l1_sensitivity(self) -> float:
        p, w = self.slopes, self.weights
        vector = self.reward_bound * (math.sqrt(p) + w.reward)
        return 2 * (vector + w.matrix * (1 + (p - 1) / math.sqrt(2)) + w.features * math.sqrt(p) + w.count)

    @property
    def variances(self) -> tuple[Floats, Floats]:
        return compute_unweighted_variances(self.weights, self.slopes)

    @property
    def second_moments(self) -> Floats:
        """Return 1/p for the slopes; 1/3 for the constant, whose share is uniform."""
        return np.append(np.full(self.slopes, 1 / self.slopes), 1 / 3)


_WEIGHTS = ReportWeights(reward=1 / 2, matrix=1 / 2, features=1 / 3)


@stored_as("InterceptReport")
@dataclass(frozen=True, kw_only=True)
class InterceptReport(ConstantReport):
    """Reports of features (z, 1) up to scale, |z|_2 <= 1, and rewards in [-1/2, 1/2].

    A report is, with p = d - 1,

        (z y, y/2, z z^T/2, z/3),     p + 1 + p(p+1)/2 + p coordinates, entries above the diagonal times sqrt 2,

    and the Gram entry of the constant is the public number of users. Sensitivity: sqrt 1.5108 = 1.2292 (proofs.md A.7).
    """

    dim: int = 0  # derived from `features`
    features: int

    def __post_init__(self) -> None:
        d = validation.integer("features", self.features, least=2, most=MOST_FEATURES)
        object.__setattr__(self, "features", d)
        super().__post_init__()
        object.__setattr__(self, "dim", self._square.dim + 1 + self.slopes)

    @property
    def weights(self) -> ReportWeights:
        return _WEIGHTS

    @property
    def slopes(self) -> int:
        return self.features - 1

    @property
    def sensitivity(self) -> float:
        return _WEIGHTS.diameter(self.reward_bound)

    @cached_property
    def lower(self) -> Floats:
        return self._stack(self._square.lower, -self.reward_bound, -1.0)

    @cached_property
    def upper(self) -> Floats:
        return self._stack(self._square.upper, self.reward_bound, 1.0)

    @property
    def ball(self) -> tuple[Floats, float]:
        """A ball around b/p on the diagonal, the larger of s = |z|^2 = 0 and 1 in

        |.|^2 <= Y^2 (s + a^2) + b^2 (s^2 - 2 s/p + 1/p) + c^2 s
        """
        p, y, w = self.slopes, self.reward_bound**2, _WEIGHTS
        centre = np.zeros(self.dim)
        centre[p + 1 : 2 * p + 1] = w.matrix / p
        still = y * w.reward**2 + w.matrix**2 / p
        full = y * (1 + w.reward**2) + w.matrix**2 * (1 - 1 / p) + w.features**2
        return centre, math.sqrt(max(still, full))

    def _stack(self, square: Floats, reward: float, features: float) -> Floats:
        p = self.slopes
        parts = [square[:p], [_WEIGHTS.reward * reward], _WEIGHTS.matrix * square[p:]]
        stack = np.concatenate([*parts, np.full(p, _WEIGHTS.features * features)])
        stack.setflags(write=False)  # cached
        return stack

    @property
    def lead(self) -> int:
        return self.features

    def clip_features(self, contexts: Floats) -> Floats:
        slopes, absent = _split_constant(contexts)
        return np.concatenate([clip_norm(slopes, 1.0), np.where(absent, 0.0, 1.0)], axis=-1)

    def seen_before(self, contexts: Floats) -> Floats | None:
        """Return the features themselves if they are (z, 1) with |z| <= 1, without a copy; else None."""
        if not (contexts[..., -1] == 1.0).all():
            return None
        slopes = np.ascontiguousarray(contexts[..., :-1])
        return np.ascontiguousarray(contexts) if clip_norm(slopes, 1.0) is slopes else None

    def inside(self, x: Floats) -> tuple[Floats, Bools]:
        slopes, absent = _split_constant(x)
        inside = clip_to_unit_ball(slopes)
        moved = np.any(np.abs(inside - slopes) > ROUNDING_TOLERANCE, axis=-1)
        return np.concatenate([inside, np.where(absent, 0.0, 1.0)], axis=-1), moved

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        p, y = self.slopes, y * x[..., -1]
        square = self._square.pack(x[..., :p], y)
        parts = [square[..., :p], _WEIGHTS.reward * y[..., None], _WEIGHTS.matrix * square[..., p:]]
        return np.concatenate([*parts, _WEIGHTS.features * x[..., :p]], axis=-1)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        p, weights = self.slopes, _WEIGHTS
        end = 1 + self._square.dim
        packed = np.concatenate([total[..., :p], total[..., p + 1 : end] / weights.matrix], axis=-1)
        vector, matrix = self._square.unpack(packed)
        full = np.empty((*total.shape[:-1], p + 1, p + 1))
        full[..., :p, :p], full[..., p, p] = matrix, users
        full[..., :p, p] = full[..., p, :p] = total[..., end:] / weights.features
        return np.concatenate([vector, total[..., p : p + 1] / weights.reward], axis=-1), full

    def project(self, values: Floats) -> Floats:
        p = self.slopes
        z = clip_to_unit_ball(np.clip(values[..., -p:] / _WEIGHTS.features, -1.0, 1.0))
        y = np.clip(values[..., p] / _WEIGHTS.reward, -self.reward_bound, self.reward_bound)
        return self.pack(np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1), y)


def compute_unweighted_variances(weights: ReportWeights, slopes: int) -> tuple[Floats, Floats]:
    """Return variances of the entries of vector and matrix of (z, 1), (d,) and (d, d), unweighted."""
    vector = np.append(np.ones(slopes), weights.reward**-2)
    matrix = np.full((slopes + 1, slopes + 1), weights.features**-2)
    matrix[:slopes, :slopes] = 0.5 * (1 + np.eye(slopes)) * weights.matrix**-2
    matrix[-1, -1] = weights.count**-2 if weights.count else 0.0
    return vector, matrix


def _split_constant(x: Floats) -> tuple[Floats, Bools]:
    constant, absent = x[..., -1:], np.all(x == 0, axis=-1, keepdims=True)
    if not np.all((constant > 0) | absent):
        allowed = "a constant > 0, because intercept=True"
        raise InvalidStatistic("the last feature", ValueSummary("a number that is not positive"), allowed)
    with np.errstate(over="ignore"):
        slopes = np.asarray(x[..., :-1] / np.where(absent, 1.0, constant))
    check_all_finite("features", slopes)  # a constant may be so small that they are not
    return slopes, absent


# Model per arm


_MOST_COORDINATES = 50_000_000


@stored_as("PerArmReport")
@dataclass(frozen=True, kw_only=True)
class PerArmReport(ConstantReport):
    """Reports of features z, |z|_2 <= 1, the given arm k, and a reward y in [-1/2, 1/2]; the constant is added.

    There is a block for each arm, and all but block k are zero. Block k is

        (z y, a y, b z z^T, c z, e),     p + 1 + p(p+1)/2 + p + 1 coordinates, entries above the diagonal times sqrt 2,

    the sums for a regression on (z, 1) and the number of the arm's users, because the arm is private too.

    Sensitivity: the larger of sqrt 2 R, R the largest norm, and `ReportWeights.diameter` (proofs.md A.8).
    """

    dim: int = 0  # derived
    features: int
    n_arms: int

    def __post_init__(self) -> None:
        p = validation.integer("features", self.features, most=MOST_FEATURES)
        arms = validation.integer("n_arms", self.n_arms)
        object.__setattr__(self, "features", p)
        object.__setattr__(self, "n_arms", arms)
        super().__post_init__()
        object.__setattr__(self, "dim", arms * (self._lead + self._rest))
        if self.dim > _MOST_COORDINATES:
            allowed = f"so small that a report has at most {_MOST_COORDINATES:,} numbers"
            raise InvalidArgument("n_arms, features", (arms, p), allowed)

    @property
    def _lead(self) -> int:
        return self.features + 1

    @property
    def _rest(self) -> int:
        return self._square.dim + 1

    @property
    def slopes(self) -> int:
        return self.features

    @cached_property
    def weights(self) -> ReportWeights:
        """The weights that make R^2 times the noise of a regression least, w_i^2 ~ sqrt(A_i / s_i) (proofs.md A.8).

        s = (Y^2, Y^2, 1, 1, 1) and A = (p, 1, (p + 1)/8, p/12 + 1/4, 1/12) for z y, y, z z^T, z and 1.
        """
        p, y = self.features, self.reward_bound**2
        square = [math.sqrt(a / s) for a, s in ((p, y), (1, y), ((p + 1) / 8, 1), (p / 12 + 1 / 4, 1), (1 / 12, 1))]
        return ReportWeights(*(math.sqrt(each / square[0]) for each in square[1:]))

    @cached_property
    def sensitivity(self) -> float:
        return max(self.weights.diameter(self.reward_bound), math.sqrt(2) * self.weights.largest(self.reward_bound))

    @cached_property
    def lower(self) -> Floats:
        return np.minimum(self._stacked(self._square.lower, -self.reward_bound, -1.0, 0.0), 0.0)

    @cached_property
    def upper(self) -> Floats:
        return self._stacked(self._square.upper, self.reward_bound, 1.0, 1.0)

    @property
    def ball(self) -> tuple[Floats, float]:
        return np.zeros(self.dim), self.weights.largest(self.reward_bound)

    def _stacked(self, square: Floats, reward: float, features: float, count: float) -> Floats:
        p, w = self.features, self.weights
        lead = np.append(square[:p], w.reward * reward)
        rest = np.concatenate([w.matrix * square[p:], np.full(p, w.features * features), [w.count * count]])
        return np.concatenate([np.tile(lead, self.n_arms), np.tile(rest, self.n_arms)])

    @property
    def lead(self) -> int:
        return self.n_arms * self._lead

    def pack(self, x: Floats, y: Floats, arms: Ints | None = None) -> Floats:
        """Pack zeros and the arm's block; an arm of -1, a user without an answer, has no block."""
        if arms is None:
            raise InvalidStatistic("arms", None, "the arm of every user: each has a block of its own")
        p, w = self.features, self.weights
        square, given = self._square.pack(x, y), np.asarray(arms >= 0, dtype=float)[..., None]
        lead = np.concatenate([square[..., :p], w.reward * y[..., None]], axis=-1)
        rest = np.concatenate([w.matrix * square[..., p:], w.features * x, np.full_like(given, w.count)], axis=-1)
        return np.concatenate([self._placed(lead * given, arms), self._placed(rest * given, arms)], axis=-1)

    def _placed(self, block: Floats, arms: Ints) -> Floats:
        blocks = np.zeros((*block.shape[:-1], self.n_arms, block.shape[-1]))
        np.put_along_axis(blocks, np.maximum(arms, 0)[..., None, None], block[..., None, :], axis=-2)
        return blocks.reshape(*block.shape[:-1], -1)

    def _blocks(self, total: Floats) -> tuple[Floats, Floats]:
        front, back = total[..., : self.lead], total[..., self.lead :]
        shape = (*total.shape[:-1], self.n_arms)
        return front.reshape(*shape, self._lead), back.reshape(*shape, self._rest)

    def sums(self, total: Floats, users: int) -> tuple[Floats, Floats]:
        p, w = self.features, self.weights
        lead, rest = self._blocks(total)
        squares = p * (p + 1) // 2
        packed = np.concatenate([lead[..., :p], rest[..., :squares] / w.matrix], axis=-1)
        vector, matrix = self._square.unpack(packed)
        full = np.empty((*matrix.shape[:-2], p + 1, p + 1))
        full[..., :p, :p], full[..., p, p] = matrix, rest[..., -1] / w.count
        full[..., :p, p] = full[..., p, :p] = rest[..., squares:-1] / w.features
        return np.concatenate([vector, lead[..., p:] / w.reward], axis=-1), full

    def project(self, values: Floats) -> Floats:
        """Return the clipped report in the block with the largest count; zeros if all counts are below half."""
        lead, rest = self._blocks(values)
        arms = np.argmax(rest[..., -1], axis=-1)
        lead, rest = (np.take_along_axis(each, arms[..., None, None], axis=-2)[..., 0, :] for each in (lead, rest))
        p, w = self.features, self.weights
        z = clip_to_unit_ball(np.clip(rest[..., -1 - p : -1] / w.features, -1.0, 1.0))
        y = np.clip(lead[..., p] / w.reward, -self.reward_bound, self.reward_bound)
        return self.pack(z, y, np.where(rest[..., -1] >= w.count / 2, arms, -1))
