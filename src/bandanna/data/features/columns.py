"""Columns of a feature map: ranges, categories, hashed texts, and counts of cells.

Values are numbers, categories or missing. True and False are 1 and 0. Equal numbers are equal in every type; a text is
never a number.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cached_property
from itertools import chain, repeat
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.data.tables import RawColumn
from bandanna.device.domain import Domain, Statistic
from bandanna.errors import FeatureWarning, InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

# Values


_PLAIN = frozenset({int, float, bool, type(None), np.float64, np.bool_})
MISSING, UNKNOWN = -2, -1


def to_number(value: Any) -> float:
    """Return a number as a float, infinite beyond the floats; NaN for anything else."""
    if isinstance(value, np.bool_):
        return float(value)
    if not isinstance(value, Real | Decimal) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)  # type: ignore[operator]
    except Exception:  # a foreign number may raise anything, a signalling NaN does
        return math.nan


def to_numbers(raw: RawColumn) -> Floats:
    """Return the numbers of a column, (n,), NaN where there is none."""
    if isinstance(raw, np.ndarray):
        with np.errstate(over="ignore"):
            return np.asarray(raw, dtype=float)
    if _PLAIN.issuperset(set(map(type, raw))):
        try:
            return np.array(raw, dtype=float)  # None is NaN
        except OverflowError:
            pass
    return np.fromiter(map(to_number, raw), dtype=float, count=len(raw))


def to_codes(raw: RawColumn, places: Mapping[Any, int]) -> Ints:
    """Return the index of each value in a list of categories, (n,), or MISSING or UNKNOWN."""
    if isinstance(raw, np.ndarray):
        return _numeric_codes(to_numbers(raw), places)
    try:
        found = np.fromiter((places.get(value, UNKNOWN) for value in raw), dtype=np.int64, count=len(raw))
    except Exception:  # not hashable, or will not be compared
        found = np.fromiter((_find_code(value, places) for value in raw), dtype=np.int64, count=len(raw))
    for row in np.flatnonzero(found == UNKNOWN).tolist():
        value = raw[row]
        if type(value) is str:
            continue
        if isinstance(value, bytes):
            found[row] = places.get(value.decode("utf-8", "replace"), UNKNOWN)
        elif not isinstance(value, str):
            number = to_number(value)  # as in an array of numbers, which a column is where nobody has a text
            found[row] = MISSING if math.isnan(number) else places.get(number, UNKNOWN)
    return found


def _numeric_codes(given: Floats, places: Mapping[Any, int]) -> Ints:
    found = np.where(np.isnan(given), MISSING, UNKNOWN)
    for value, place in places.items():
        if not isinstance(value, str):
            found[given == value] = place
    return found


def _find_code(value: Any, places: Mapping[Any, int]) -> int:
    try:
        return places.get(value, UNKNOWN) if isinstance(value, Hashable) else UNKNOWN
    except Exception:
        return UNKNOWN


# Hashes


_WORD = re.compile(rb"[0-9a-z\x80-\xff]+")
_TEXT, _NUMBER = zlib.crc32(b"t"), zlib.crc32(b"n")  # CRC-32 goes on from there


def hash_tokens(values: Sequence[Any], *, words: bool, buckets: int, seed: int) -> tuple[Floats, Ints, Bools]:
    """Hash the tokens of m different values to buckets, the same in every language (docs/how-to/features.md).

    Return signed counts (m, buckets), the index of each value among the different ones, and which of those are neither
    text nor number (m,).
    """
    texts: dict[str, int] = {}
    others: list[Any] = []
    places = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if type(value) is str:
            places[row] = texts.setdefault(value, len(texts))
        else:
            places[row] = ~len(others)
            others.append(value)
    places = np.where(places >= 0, places, len(texts) + ~places)  # after the texts
    found = [_words(text, words) for text in texts]
    rest = [_token_hashes(value, words) for value in others]
    lengths = np.fromiter(map(len, chain(found, (each or () for each in rest))), dtype=np.int64)
    checks = chain(map(zlib.crc32, chain.from_iterable(found), repeat(_TEXT)), *(each or () for each in rest))
    flat = np.fromiter(checks, dtype=np.uint32, count=int(lengths.sum()))
    absent = np.array([False] * len(texts) + [each is None for each in rest], dtype=bool)
    return _count_tokens(flat, lengths, buckets, seed), places, absent


def _words(text: str, words: bool) -> list[bytes]:
    content = _encode_utf8(text)
    return _WORD.findall(content.lower()) if words else [content]


def _token_hashes(value: Any, words: bool) -> list[int] | None:
    if isinstance(value, str | bytes):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return [zlib.crc32(word, _TEXT) for word in _words(text, words)]
    number = to_number(value)
    return None if number != number else [zlib.crc32(struct.pack(">d", number + 0.0), _NUMBER)]  # -0 + 0 = 0


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _count_tokens(checks: NDArray[np.uint32], lengths: Ints, buckets: int, seed: int) -> Floats:
    h = mix_hash(checks, seed)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = rows * buckets + (h >> np.uint32(1)).astype(np.int64) % buckets
    signs = 1.0 - 2.0 * (h & np.uint32(1))
    counts: Floats = np.bincount(places, weights=signs, minlength=len(lengths) * buckets)  # type: ignore[assignment]
    return counts.reshape(len(lengths), buckets)


def mix_hash(checks: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """Apply fmix32 of MurmurHash3 to CRC-32 + seed."""
    h = checks + np.uint32(seed)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    return np.asarray(h ^ (h >> np.uint32(16)))


# Counts of unusual values


_FEW = 10  # rows of which nothing is parts: the next ones may be as expected
_WORDS = {"outside": "out of range", "unknown": "of unknown categories", "missing": "missing, or not readable"}


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of unusual values in a column: out of range, unknown, or missing.

    Attributes
    ----------
    outside
        Numbers beyond the range of the column, clipped.
    unknown
        Values that no listed category equals.
    missing
        Missing or unreadable values. All three are exact counts and not private.
    """

    outside: int = 0
    unknown: int = 0
    missing: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            outside=self.outside + other.outside,
            unknown=self.unknown + other.unknown,
            missing=self.missing + other.missing,
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """Counts of unusual values and clipped vectors. Not private: do not publish it.

    Parameters
    ----------
    rows : int
        Number of records.
    columns : mapping
        Unusual values by column.
    clipped : int
        Number of vectors that were clipped to the unit ball.
    """

    rows: int = 0
    columns: Mapping[str, Counts] = field(default_factory=dict)
    clipped: int = 0

    def __add__(self, other: Report) -> Report:
        names = dict.fromkeys([*self.columns, *other.columns])
        nothing = Counts()
        columns = {name: self.columns.get(name, nothing) + other.columns.get(name, nothing) for name in names}
        return Report(rows=self.rows + other.rows, columns=columns, clipped=self.clipped + other.clipped)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        columns = {name: dict(vars(counts)) for name, counts in self.columns.items()}
        return {"rows": self.rows, "columns": columns, "clipped": self.clipped}

    def __str__(self) -> str:
        parts = [f"{self.rows:,} rows", f"{self.clipped:,} clipped to the unit ball"]
        for name, counts in self.columns.items():
            parts += [f"{name}: {number:,} {_WORDS[kind]}" for kind, number in vars(counts).items() if number]
        return "; ".join(parts)

    def warning(self) -> FeatureWarning | None:
        """Return a warning if most of at least 10 rows are unusual, else None."""
        if self.rows < _FEW:
            return None
        most = [
            f"{self.clipped:,} vectors clipped to the unit ball (choose a smaller UnitBall(scale=...))"
        ] * self._most(self.clipped)
        for name, counts in self.columns.items():
            most += [
                f"{number:,} values of {name!r} are {_WORDS[kind]}"
                for kind, number in vars(counts).items()
                if self._most(number)
            ]
        if not most:
            return None
        reason = "the policy learns little from such values; compare the map with the data"
        return FeatureWarning(f"in {self.rows:,} rows, {'; '.join(most)}: {reason}")

    def _most(self, number: int) -> bool:
        return 2 * number > self.rows


# Columns


Category = str | int | float

_FARTHEST = 1e300  # the ends of a range: their difference is a number
_MOST = 100_000  # features of a column
_PORTION = 65_536  # rows of texts at a time
_LETTERS = 200  # of a column's name


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column `name`; `missing` values become zeros or are refused."""

    name: str
    missing: str = "zero"

    kind: ClassVar[str]
    treatments: ClassVar[tuple[str, ...]] = ("zero", "refuse")

    def __post_init__(self) -> None:
        _check_text("column", self.name)
        if not 0 < len(self.name) <= _LETTERS:
            raise InvalidArgument("column", self.name, f"a name of 1 to {_LETTERS} letters")
        validation.one_of("missing", self.missing, self.treatments)

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Return the names of its features."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the number of its features."""

    @abstractmethod
    def fill(self, raw: RawColumn, out: Floats) -> Counts:
        """Write the features to `out`, (n, width), which is zero, as vectors of length at most 1."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: list(part) if isinstance(part, tuple) else part for name, part in parts.items()}
        return {"kind": self.kind, **plain}

    def _refuse(self, rows: Bools, what: str, allowed: str, begin: int = 0) -> None:
        if rows.any():
            raise InvalidStatistic(
                f"records[{begin + int(np.argmax(rows))}][{self.name!r}]", ValueSummary(what), allowed
            )


@dataclass(frozen=True, kw_only=True)
class RangeColumn(Column):
    """A number in [low, high], mapped to [-1, 1]; a number outside is clipped or refused. Missing is 0.

    Parameters
    ----------
    name
        Column of the records.
    missing, outside
        "zero" or "refuse" for a missing number, "clip" or "refuse" for one outside.
    low, high
        Public ends of the range in the column's units. Do not read them off private data.
    """

    low: float
    high: float
    outside: str = "clip"

    kind: ClassVar[str] = "range"

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"two finite numbers (least, largest), at most {_FARTHEST:g} in size"
        for end in ("low", "high"):
            object.__setattr__(self, end, validation.finite(self.name, getattr(self, end), allowed))
        if not -_FARTHEST <= self.low < self.high <= _FARTHEST:
            raise InvalidArgument(self.name, (self.low, self.high), f"{allowed}, the first below the second")
        validation.one_of("outside", self.outside, ("clip", "refuse"))

    @property
    def features(self) -> list[str]:
        return [self.name]

    @property
    def width(self) -> int:
        return 1

    def fill(self, raw: RawColumn, out: Floats) -> Counts:
        given = to_numbers(raw)
        absent, outside = np.isnan(given), (given < self.low) | (given > self.high)
        if self.outside == "refuse":
            self._refuse(outside, "a number out of range", f"numbers from {self.low:g} to {self.high:g}")
        if self.missing == "refuse":
            self._refuse(absent, "no number", "a number: none is missing here")
        share = (np.clip(given, self.low, self.high) - self.low) / (self.high - self.low)
        out[:, 0] = np.where(absent, 0.0, 2 * share - 1)
        return Counts(outside=int(outside.sum()), missing=int(absent.sum()))


@dataclass(frozen=True, kw_only=True)
class OneHotColumn(Column):
    """A 1 at the place of a category; other values become zeros, a feature of their own ("other"), or an error.

    Parameters
    ----------
    name
        Column of the records.
    values
        Public list of different categories, a feature each. A list read off private data reveals them.
    missing, unknown
        "zero", "other" or "refuse", for missing and for unlisted values.
    """

    values: tuple[Category, ...]
    unknown: str = "zero"

    kind: ClassVar[str] = "one-hot"
    treatments: ClassVar[tuple[str, ...]] = ("zero", "other", "refuse")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = validation.list_entries(self.name, self.values, "a list of categories: texts or numbers")
        object.__setattr__(self, "values", tuple(_check_category(self.name, value) for value in given))
        if not 0 < len(set(self.values)) == len(self.values) <= _MOST:
            allowed = f"1 to {_MOST:,} categories, all different"
            repeated = len(self.values) - len(set(self.values))
            found = ValueSummary(f"{len(self.values):,} categories, {repeated:,} of them repeated")
            raise InvalidArgument(self.name, found, allowed)
        validation.one_of("unknown", self.unknown, self.treatments)

    @property
    def _others(self) -> bool:
        return "other" in (self.unknown, self.missing)

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values] + [f"{self.name} other"] * self._others

    @property
    def width(self) -> int:
        return len(self.values) + self._others

    @cached_property
    def _places(self) -> dict[Category, int]:
        return {value: place for place, value in enumerate(self.values)}

    def fill(self, raw: RawColumn, out: Floats) -> Counts:
        found = to_codes(raw, self._places)
        counts = {}
        for name, code, treatment in (("unknown", UNKNOWN, self.unknown), ("missing", MISSING, self.missing)):
            rows = found == code
            counts[name] = int(rows.sum())
            if treatment == "refuse":
                self._refuse(rows, f"{name}", f"one of the {len(self.values)} categories that are listed")
            if treatment == "other":
                found = np.where(rows, len(self.values), found)
        rows = np.flatnonzero(found >= 0)
        out[rows, found[rows]] = 1.0
        return Counts(**counts)


@dataclass(frozen=True, kw_only=True)
class HashColumn(Column):
    """Words of a text, or a whole text or number, hashed to buckets with signs: a vector of length 1.

    Parameters
    ----------
    name, missing
        Column of the records; "zero" or "refuse".
    buckets
        Number of features.
    seed
        Public seed of the hash, below 2^32; it hides nothing.
    words
        Whether to hash words singly, or the whole value.
    """

    buckets: int
    seed: int = 0
    words: bool = True

    kind: ClassVar[str] = "hash"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.integer, "buckets", most=_MOST)
        validation.set_validated(self, validation.integer, "seed", least=0, most=2**32 - 1)
        validation.set_validated(self, validation.boolean, "words")

    @property
    def features(self) -> list[str]:
        return [f"{self.name}#{bucket}" for bucket in range(self.buckets)]

    @property
    def width(self) -> int:
        return self.buckets

    def fill(self, raw: RawColumn, out: Floats) -> Counts:
        values = raw.tolist() if isinstance(raw, np.ndarray) else raw
        absent = 0
        for begin in range(0, len(values), _PORTION):
            rows = slice(begin, begin + _PORTION)
            counts, places, nothing = hash_tokens(values[rows], words=self.words, buckets=self.buckets, seed=self.seed)
            if self.missing == "refuse":
                self._refuse(nothing[places], "no text", "a text or a number", begin)
            lengths = np.sqrt(np.sum(counts * counts, axis=1, keepdims=True))  # of whole numbers: exact in any order
            out[rows] = (counts / np.where(lengths > 0, lengths, 1.0))[places]
            absent += int(nothing[places].sum())
        return Counts(missing=absent)


def _check_category(name: str, value: Any) -> Category:
    """Return a category: a text, or a number in one form for all equal numbers."""
    allowed = "categories that are texts or finite numbers"
    if isinstance(value, str):
        return _check_text(name, value)
    number = float(value) if isinstance(value, np.bool_) else value
    number = validation.finite(name, float(number) if isinstance(number, bool) else number, allowed)
    return int(number) if number.is_integer() and abs(number) <= validation.LARGEST_EXACT_INTEGER else number


def _check_text(name: str, value: Any) -> str:
    try:
        return str(value.encode().decode())
    except (AttributeError, UnicodeError):
        raise InvalidArgument(name, value, "a text, of whole characters") from None


def length_per_column(columns: int) -> float:
    """Return the length of each column's features, 1/sqrt(m), so that all together have length at most 1."""
    return 1 / math.sqrt(columns)


# Counts of cells


@stored_as("Cells")
@dataclass(frozen=True, kw_only=True)
class CellCountDomain(Domain):
    """Counts of `columns` grids of `cells` cells each: one user is a single 1 on every grid.

    Two users differ in at most two cells of each grid: the sensitivity is sqrt(2 columns), in l1 2 columns.
    """

    dim: int = 0  # derived
    columns: int
    cells: int

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "columns", "cells", most=10**6)
        object.__setattr__(self, "dim", self.columns * self.cells)
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2 * self.columns)

    @property
    def l1_sensitivity(self) -> float:
        return 2.0 * self.columns

    @property
    def lower(self) -> Floats:
        return np.zeros(self.dim)

    @property
    def upper(self) -> Floats:
        return np.ones(self.dim)

    @property
    def ball(self) -> tuple[Floats, float]:
        return np.zeros(self.dim), math.sqrt(self.columns)

    def project(self, values: Floats) -> Floats:
        grids = values.reshape(*values.shape[:-1], self.columns, self.cells)
        best = np.argmax(grids, axis=-1)[..., None]
        inside = np.zeros(grids.shape)
        np.put_along_axis(inside, best, np.take_along_axis(grids, best, axis=-1) >= 0.5, axis=-1)
        return inside.reshape(values.shape)

    def statistic(self, places: Ints) -> Statistic:
        values = np.zeros((len(places), self.columns, self.cells))
        np.put_along_axis(values, places[..., None], 1.0, axis=-1)
        return self.sealed(values.reshape(len(places), self.dim), clipped=np.zeros((), dtype=np.int64))
