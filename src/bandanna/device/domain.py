"""Domains, which bound users' statistics and give sensitivities; statistics and estimates.

Adjacency is replacement: the l2 sensitivity of a sum is the diameter of the domain. A protocol accepts statistics only
after `admit` has checked or clipped them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.linalg import einsum
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

# Domains


_COORDINATES = 10**8  # at most
_LEAST, _MOST = 1e-60, 1e60  # sizes of a domain
_TOLERANCE = 1e-9  # relative; what is moved by more counts as clipped
_ROUNDING = 2.0**-44  # relative; what rounding errors of an honest computation may exceed a bound by


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """Statistics of a batch of users, all inside `domain`; `clipped` counts those that were moved there.

    The domain clips and seals it; protocols check a statistic without seal again. The count is not private: a
    deployment never publishes it.

    Attributes
    ----------
    domain
        Set that holds the values.
    values
        Private rows, (..., users, dim); (..., groups, dim) with `counts`.
    clipped
        Moved rows, (...), private.
    counts
        Users who share each row, (..., groups). None: one each.
    seal
        The checked array.
    """

    domain: Domain
    values: Floats  # (..., users, dim); (..., groups, dim) with `counts`
    clipped: Ints  # (...)
    counts: Ints | None = None  # (..., groups): how many users share each row; None for one each
    seal: object = field(default=None, repr=False, compare=False)  # the very array that the domain has checked

    @property
    def sealed(self) -> bool:
        """Whether the domain has checked these very values."""
        return self.seal is self.values

    def rows(self) -> Floats:
        """Return one row per user, as messages need them."""
        if self.counts is not None:
            raise InvalidStatistic("statistics", ValueSummary("grouped"), 'one row per user: groups are for path="law"')
        return self.values

    @property
    def users(self) -> int:
        return int(self.values.shape[-2]) if self.counts is None else self._counted

    @cached_property
    def _counted(self) -> int:
        assert self.counts is not None
        users = self.counts.sum(axis=-1)
        if users.ndim and users.min() != users.max():
            raise InvalidStatistic(
                "counts", ValueSummary("of several sums"), "the same number of users in every replicate"
            )
        return int(users.max() if users.ndim else users)

    def parts(self) -> Iterator[Statistic]:
        """Yield parts of the batch whose sums add up to its own."""
        yield self

    def total(self) -> Floats:
        """Return the exact sum over users, (..., dim)."""
        if self.counts is None:
            return self.values[..., 0, :] if self.values.shape[-2] == 1 else np.asarray(self.values.sum(axis=-2))
        return np.asarray((self.values * self.counts[..., None]).sum(axis=-2))


@dataclass(frozen=True, kw_only=True)
class Domain(ABC):
    """A bounded set of vectors of `dim` coordinates.

    Parameters
    ----------
    dim
        Number of coordinates, at most 10^8.
    """

    dim: int

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", most=_COORDINATES)

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """l2 diameter: how far one user's replacement can move the sum."""

    @property
    @abstractmethod
    def l1_sensitivity(self) -> float:
        """l1 diameter of the domain."""

    @property
    @abstractmethod
    def lower(self) -> Floats:
        """Least value of each coordinate, shape (dim,)."""

    @property
    @abstractmethod
    def upper(self) -> Floats:
        """Greatest value of each coordinate, shape (dim,)."""

    @abstractmethod
    def project(self, values: Floats) -> Floats:
        """Return a point of the domain for every vector; a vector inside stays."""

    @cached_property
    def reach(self) -> float:
        """Largest change of a single coordinate."""
        return float(np.max(self.upper - self.lower))

    @cached_property
    def origin(self) -> Floats:
        """The coordinates' values nearest to 0, (dim,): a public point that is subtracted from statistics."""
        origin = np.asarray(np.clip(0.0, self.lower, self.upper))
        origin.setflags(write=False)  # cached
        return origin

    @property
    def largest_entry(self) -> float:
        """Largest size of a single coordinate."""
        return float(np.max(np.maximum(np.abs(self.lower), np.abs(self.upper))))

    @property
    def ball(self) -> tuple[Floats, float]:
        """Centre, (dim,), and radius of a ball that holds the domain; by default the one around its box."""
        half = (self.upper - self.lower) / 2
        return self.lower + half, float(np.sqrt(np.sum(half * half)))

    def sealed(self, values: Floats, *, clipped: Ints, counts: Ints | None = None) -> Statistic:
        """Return a statistic of values that the caller has formed inside the domain."""
        values.setflags(write=False)
        return Statistic(domain=self, values=values, clipped=clipped, counts=counts, seal=values)

    @property
    def nothing(self) -> Statistic:
        """Return the zero report of a user without an answer: 0, or the point to which 0 is clipped."""
        return self.admit(np.zeros((1, self.dim)))

    def check_statistic(self, statistic: Statistic) -> Statistic:
        """Return a statistic of this domain, checked unless the domain made it, and never clipped again."""
        if statistic.domain is not self and statistic.domain != self:
            raise InvalidStatistic("statistics", ValueSummary(f"of {statistic.domain}"), f"statistics of {self}")
        if statistic.sealed:
            return statistic
        values, counts = self.check(statistic.values), statistic.counts
        if counts is not None and (
            counts.shape != values.shape[:-1] or counts.dtype.kind not in "iu" or np.any(counts < 0)
        ):
            raise InvalidStatistic("counts", counts, "whole numbers >= 0, one for each row")
        return self.sealed(values, clipped=statistic.clipped, counts=counts)

    def admit(self, values: ArrayLike, *, clip: bool = True) -> Statistic:
        """Return statistics (..., users, dim), clipped into the domain; with clip=False only checked."""
        if not validation.boolean("clip", clip):
            checked = self.check(values)
            return self.sealed(checked, clipped=np.zeros(checked.shape[:-2], dtype=np.int64))
        array = self._rows(values)
        inside = self._projected(array)
        moved = self._apart(inside, array, _TOLERANCE * max(1.0, float(np.max(np.abs(self.upper)))))
        return self.sealed(inside, clipped=moved.sum(axis=-1, dtype=np.int64))

    def clip_outside(self, values: ArrayLike) -> Statistic:
        """Return statistics of values (..., users, dim) that others have formed.

        Values inside stay, bit for bit; values outside are clipped, NaN is refused.
        """
        array = self._rows(values)
        inside = self._projected(array)
        outside = self._apart(inside, array, _ROUNDING * self.largest_entry)
        made = np.where(outside[..., None], inside, array)
        return self.sealed(made, clipped=np.asarray(outside.sum(axis=-1, dtype=np.int64)))

    def check(self, values: ArrayLike) -> Floats:
        """Return points of the domain, (..., users, dim), bit for bit; refuse points outside."""
        array = self._rows(values).copy()
        outside = self._apart(self._projected(array), array, _ROUNDING * self.largest_entry)
        if outside.any():
            place = tuple(int(i) for i in np.argwhere(outside)[0])
            raise InvalidStatistic(
                f"statistics[{_format_index(place)}]",
                ValueSummary("a point outside"),
                f"a point of {self} (clipping is off)",
            )
        return array

    def _rows(self, values: ArrayLike) -> Floats:
        array = read_real_array("statistics", values)
        if array.ndim < 2 or array.shape[-1] != self.dim:
            raise InvalidStatistic("statistics", array, f"shape (..., users, {self.dim})")
        if array.shape[-2] < 1:
            raise InvalidStatistic("statistics", array, "an array with at least one user")
        check_all_finite("statistics", array)
        return array

    def _projected(self, array: Floats) -> Floats:
        inside = self.project(array)
        if not np.all(np.isfinite(inside)):
            raise InvalidStatistic("statistics", ValueSummary("values of extreme size"), "numbers of moderate size")
        return inside

    @staticmethod
    def _apart(one: Floats, other: Floats, tolerance: float) -> Bools:
        gaps = np.subtract(one, other)
        apart = np.abs(gaps, out=gaps) > tolerance
        return apart[..., 0] if apart.shape[-1] == 1 else np.asarray(np.any(apart, axis=-1))


def _format_index(place: tuple[int, ...]) -> str:
    return ", ".join(str(i) for i in place)


@stored_as("Ball")
@dataclass(frozen=True, kw_only=True)
class Ball(Domain):
    """Vectors of l2 norm at most `bound`: sensitivity 2 bound.

    Parameters
    ----------
    dim
        Number of coordinates.
    bound
        Public radius, in the statistic's units. Longer vectors are shortened; noise grows with the radius.
    """

    bound: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, check_domain_size, "bound")

    @property
    def sensitivity(self) -> float:
        return 2 * self.bound

    @property
    def l1_sensitivity(self) -> float:
        return 2 * self.bound * math.sqrt(self.dim)

    @property
    def lower(self) -> Floats:
        return np.full(self.dim, -self.bound)

    @property
    def upper(self) -> Floats:
        return np.full(self.dim, self.bound)

    @property
    def ball(self) -> tuple[Floats, float]:
        return np.zeros(self.dim), self.bound

    def project(self, values: Floats) -> Floats:
        return np.array(clip_norm(values, self.bound))


@stored_as("Box")
@dataclass(frozen=True, kw_only=True)
class Box(Domain):
    """Vectors with every coordinate in [low, high]: sensitivity (high - low) sqrt(dim).

    Parameters
    ----------
    dim
        Number of coordinates.
    low, high
        Public ends of every coordinate. Values outside are clipped; noise grows with high - low.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"finite numbers up to {_MOST:g} in size, with low < high, at least {_LEAST:g} apart"
        for end in ("low", "high"):
            object.__setattr__(self, end, validation.finite("low, high", getattr(self, end), allowed))
        if not self.high - self.low >= _LEAST or max(-self.low, self.high) > _MOST:
            raise InvalidArgument("low, high", (self.low, self.high), allowed)

    @property
    def sensitivity(self) -> float:
        return (self.high - self.low) * math.sqrt(self.dim)

    @property
    def l1_sensitivity(self) -> float:
        return (self.high - self.low) * self.dim

    @cached_property
    def reach(self) -> float:
        return float(self.high - self.low)

    @cached_property
    def origin(self) -> Floats:
        point = np.full(self.dim, float(min(max(0.0, self.low), self.high)))
        point.setflags(write=False)
        return point

    @property
    def lower(self) -> Floats:
        return np.full(self.dim, self.low)

    @property
    def upper(self) -> Floats:
        return np.full(self.dim, self.high)

    def project(self, values: Floats) -> Floats:
        return np.clip(values, self.low, self.high)


def check_domain_size(argument: str, value: Any) -> float:
    """Return the size of a domain, whose powers must stay inside the floats."""
    number = validation.positive(argument, value)
    if not _LEAST <= number <= _MOST:
        raise InvalidArgument(argument, value, f"a number from {_LEAST:g} to {_MOST:g}")
    return number


def read_real_array(argument: str, values: ArrayLike, allowed: str = "an array of real numbers") -> Floats:
    """Return an array of real numbers as floats; errors name the argument."""
    array = read_numeric_array(argument, values, allowed)
    if array.dtype == np.float64:
        return np.asarray(array)
    with np.errstate(over="ignore"):  # a long double beyond the floats is infinite: `check_all_finite` names it
        return np.asarray(array, dtype=float)


def read_numeric_array(argument: str, values: ArrayLike, allowed: str, kinds: str = "biuf") -> NDArray[Any]:
    """Return an array of real numbers of these kinds; refuse masked arrays. Errors show no numbers."""
    array = values if type(values) is np.ndarray else _read_array(argument, values, allowed)
    if array.dtype.kind not in kinds:
        given = ValueSummary.of(values if array.ndim == 0 else array)
        raise InvalidStatistic(
            argument, _find_invalid_entry(values, array) if array.dtype.kind == "O" else given, allowed
        )
    if _has_mask(values):
        raise InvalidStatistic(
            argument, ValueSummary("masked array"), f"{allowed}, without a mask: leave out what is missing"
        )
    return array


def _read_array(argument: str, values: ArrayLike, allowed: str) -> NDArray[Any]:
    with suppress(Exception):  # a foreign object may raise anything, and show what it holds
        return np.asarray(values)
    given = ValueSummary("rows of several lengths") if isinstance(values, list | tuple) else values
    raise InvalidStatistic(argument, given, allowed)


def _find_invalid_entry(values: ArrayLike, array: NDArray[Any]) -> ValueSummary:
    if not array.ndim:
        return ValueSummary.of(values)
    kind = type(values).__name__
    for place, entry in np.ndenumerate(array):
        if not isinstance(entry, int | float | np.number) or isinstance(entry, np.timedelta64):
            return ValueSummary(f"{kind} with a {type(entry).__name__} at [{_format_index(place)}]")
        if isinstance(entry, int) and entry.bit_length() > 1024:
            return ValueSummary(f"{kind} with a number too large for a float at [{_format_index(place)}]")
    return ValueSummary(f"{kind} of dtype object")


def _has_mask(values: Any) -> bool:
    if not isinstance(values, list | tuple):
        return isinstance(values, np.ma.MaskedArray)
    kinds = set(map(type, values))
    return any(issubclass(kind, np.ma.MaskedArray | list | tuple) for kind in kinds) and any(map(_has_mask, values))


def check_all_finite(argument: str, array: Floats) -> None:
    """Raise an error that names the place of the first number that is not finite."""
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidStatistic(f"{argument}[{_format_index(place)}]", float(array[place]), "finite numbers")


def clip_norm(values: Floats, bound: float) -> Floats:
    """Return vectors (last axis) scaled down to l2 norm at most `bound`, if they are longer by more than rounding
    errors.

    Vectors inside are unchanged; if nothing is clipped, the array itself is returned.
    """
    values = np.ascontiguousarray(values)  # the entries of a vector are added in one order, in any company
    limit = bound * (1 + (values.shape[-1] + 8) * 2.0**-52)
    squares, largest = einsum("...i,...i->...", values, values), min(limit * limit, 1e300)
    if not squares.size or squares.item(squares.argmax()) <= largest:  # NaN is not
        return values
    outside = ~(squares <= largest)
    long, inside = values[outside], values.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite stays so
        peaks = np.max(np.abs(long), axis=-1, keepdims=True)
        units = long / peaks  # whose squares are numbers
        lengths = np.sqrt(np.einsum("...i,...i->...", units, units))[..., None]
        inside[outside] = np.where(peaks * lengths <= limit, long, units * (bound / lengths))
    return inside


# Bits and symmetric matrices


@stored_as("Bits")
@dataclass(frozen=True, kw_only=True)
class Bits(Box):
    """Values 0 or 1: sensitivity 1, and never rounded on a lattice of whole steps.

    Parameters
    ----------
    dim, low, high
        Always 1, 0 and 1; other values are refused.
    """

    dim: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.dim, self.low, self.high) != (1, 0.0, 1.0):
            raise InvalidArgument("dim, low, high", (self.dim, self.low, self.high), "(1, 0, 1): single bits")

    def project(self, values: Floats) -> Floats:
        return np.where(values >= 0.5, 1.0, 0.0)


@stored_as("SymmetricMatrix")
@dataclass(frozen=True, kw_only=True)
class SymmetricMatrix(Ball):
    """Symmetric matrices of `size` rows and Frobenius norm at most `bound`, stacked into one vector.

    The stack holds the diagonal, then the entries above it times sqrt 2: an isometry, of sensitivity 2 bound.

    Parameters
    ----------
    size
        Number of rows, at most 10,000.
    bound
        Public bound on the Frobenius norm; noise grows with it.
    dim
        Derived, size (size + 1) / 2.
    """

    dim: int = 0  # derived from `size`
    size: int

    def __post_init__(self) -> None:
        size = validation.integer("size", self.size, most=10_000)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "dim", size * (size + 1) // 2)
        super().__post_init__()

    @cached_property
    def _above(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.triu_indices(self.size, 1)
        return rows, columns

    def pack(self, matrices: Floats) -> Floats:
        """Stack (..., size, size) -> (..., dim); refuse a matrix that is not symmetric."""
        if matrices.shape[-2:] != (self.size, self.size):
            allowed = f"shape (..., {self.size}, {self.size})"
            raise InvalidStatistic("matrices", matrices, allowed)
        if not np.allclose(matrices, np.swapaxes(matrices, -1, -2), rtol=1e-9, atol=1e-9 * self.bound, equal_nan=True):
            raise InvalidStatistic("matrices", ValueSummary("not symmetric"), "symmetric matrices")
        above = math.sqrt(2) * matrices[..., self._above[0], self._above[1]]
        return np.concatenate([np.diagonal(matrices, axis1=-2, axis2=-1), above], axis=-1)

    def unpack(self, stacked: Floats) -> Floats:
        """Unstack (..., dim) -> (..., size, size) and undo the scaling."""
        matrices = np.zeros((*stacked.shape[:-1], self.size, self.size))
        rows, columns = self._above
        diagonal = np.arange(self.size)
        matrices[..., diagonal, diagonal] = stacked[..., : self.size]
        matrices[..., rows, columns] = matrices[..., columns, rows] = stacked[..., self.size :] / math.sqrt(2)
        return matrices


# Streamed batches


class StreamedStatistic(Statistic):
    """Statistics of `users` users from an iterable of parts, read once, with memory for one part only.

    It serves simulations along `path="law"`. The domain checks every part; `clipped` counts what was read so far.
    `rows` and `values` load all rows.
    """

    def __init__(self, domain: Domain, *, users: int, source: Iterable[Statistic], replicates: tuple[int, ...]) -> None:
        clipped = np.zeros(replicates, dtype=np.int64)
        for name, value in {"domain": domain, "clipped": clipped, "counts": None, "seal": None}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_expected", users)
        object.__setattr__(self, "_source", iter(source))

    _expected: int
    _source: Iterator[Statistic]

    @property
    def sealed(self) -> bool:
        return True

    @property
    def users(self) -> int:
        return self._expected

    @property
    def values(self) -> Floats:
        return self.rows()

    def rows(self) -> Floats:
        return np.concatenate([part.rows() for part in self.parts()], axis=-2)

    def total(self) -> Floats:
        """Return the sum, added part by part: exact up to rounding."""
        return np.asarray(sum(part.total() for part in self.parts()))

    def parts(self) -> Iterator[Statistic]:
        seen = 0
        for part in self._source:
            checked = self.domain.check_statistic(part)
            np.add(self.clipped, checked.clipped, out=self.clipped)
            seen += checked.users
            yield checked
        if seen != self._expected:
            raise InvalidStatistic("users", ValueSummary(seen), f"{self._expected} users; a batch is read once")


# Estimates


@stored_as("Estimate")
@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An unbiased estimate of the sum of `count` users' statistics.

    Attributes
    ----------
    total
        Released sum, (..., dim), public.
    count
        Number of users in the sum, public.
    variance
        Variance of the noise in each coordinate, rounding included; a bound if it depends on the data. It is
        public.
    """

    total: NDArray[np.float64]  # (..., dim)
    count: int
    variance: float

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            total=self.total + other.total, count=self.count + other.count, variance=self.variance + other.variance
        )


# Raw rows


@stored_as("Rows")
@dataclass(frozen=True, kw_only=True)
class RawRowDomain(Domain):
    """A user's data as one row (x, r, g): features, reward and group.

    |x| <= 1 in `size` coordinates, r in [0, `reward_bound`] and g in 0, ..., `groups` - 1.
    """

    dim: int = 0  # derived from `size`
    size: int
    reward_bound: float
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", validation.integer("size", self.size) + 2)
        super().__post_init__()
        validation.positive("reward_bound", self.reward_bound)
        validation.integer("groups", self.groups)

    @property
    def sensitivity(self) -> float:
        return math.hypot(2.0, self.reward_bound, self.groups - 1)

    @property
    def l1_sensitivity(self) -> float:
        return 2 * math.sqrt(self.size) + self.reward_bound + self.groups - 1

    @property
    def lower(self) -> Floats:
        return np.concatenate([np.full(self.size, -1.0), np.zeros(2)])

    @property
    def upper(self) -> Floats:
        return np.concatenate([np.ones(self.size), [self.reward_bound, self.groups - 1.0]])

    def project(self, values: Floats) -> Floats:
        x, r, g = self.parts(values)
        group = np.rint(np.clip(g, 0, self.groups - 1))
        return np.concatenate([clip_norm(x, 1.0), np.clip(r, 0.0, self.reward_bound)[..., None], group[..., None]], -1)

    def parts(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return features (..., size), rewards (...) and groups (...)."""
        return np.ascontiguousarray(values[..., : self.size]), values[..., self.size], values[..., self.size + 1]

    def statistic(self, features: Floats, rewards: Floats, groups: NDArray[np.int64] | None = None) -> Statistic:
        """Return clipped rows of features (..., users, size) and rewards (..., users); group 0 by default."""
        values = np.zeros((*rewards.shape, self.dim))
        values[..., : self.size], values[..., self.size] = features, rewards
        if groups is not None:
            values[..., self.size + 1] = groups
        within = rewards.min() >= 0 and rewards.max() <= self.reward_bound
        if within and np.einsum("...i,...i->...", features, features).max() <= 1:  # the usual case: nothing to clip
            return self.sealed(values, clipped=np.zeros(rewards.shape[:-1], dtype=np.int64))
        check_all_finite("features", features)
        check_all_finite("rewards", rewards)
        inside = self.project(values)
        moved = np.abs(inside - values) > 1e-9
        clipped = np.any(moved[..., : self.size], axis=-1) * 1 + moved[..., self.size]
        return self.sealed(inside, clipped=np.sum(clipped, axis=-1, dtype=np.int64))
