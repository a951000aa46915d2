"""What becomes of one column of a record: a few features, no longer than 1 together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.features import hashing
from bandanna.features.counts import Counts
from bandanna.features.values import MISSING, UNKNOWN, Raw, codes, numbers

Category = str | int | float

_FARTHEST = 1e300  # the ends of a range: their difference is a number
_MOST = 100_000  # features of a column
_PORTION = 65_536  # rows of texts at a time
_LETTERS = 200  # of a column's name


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column `name`; `missing` values are zeros, or refused."""

    name: str
    missing: str = "zero"

    kind: ClassVar[str]
    treatments: ClassVar[tuple[str, ...]] = ("zero", "refuse")

    def __post_init__(self) -> None:
        _text("column", self.name)
        if not 0 < len(self.name) <= _LETTERS:
            raise InvalidArgument("column", self.name, f"a name of 1 to {_LETTERS} letters")
        require.one_of("missing", self.missing, self.treatments)

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Their names."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many features there are."""

    @abstractmethod
    def fill(self, raw: Raw, out: Floats) -> Counts:
        """Put the features into `out`, (n, width), which is zero: vectors no longer than 1."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {name: list(part) if isinstance(part, tuple) else part for name, part in parts.items()}
        return {"kind": self.kind, **plain}

    def _refuse(self, rows: Bools, what: str, allowed: str, begin: int = 0) -> None:
        """Name the first of these rows; its value is a person's, and not shown."""
        if rows.any():
            raise InvalidStatistic(f"records[{begin + int(np.argmax(rows))}][{self.name!r}]", Summary(what), allowed)


@dataclass(frozen=True, kw_only=True)
class RangeColumn(Column):
    """A number in [low, high] to one in [-1, 1]; a number outside is clipped, or refused. Missing is the middle, 0."""

    low: float
    high: float
    outside: str = "clip"

    kind: ClassVar[str] = "range"

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"two finite numbers (least, largest), at most {_FARTHEST:g} in size"
        for end in ("low", "high"):
            object.__setattr__(self, end, require.finite(self.name, getattr(self, end), allowed))
        if not -_FARTHEST <= self.low < self.high <= _FARTHEST:
            raise InvalidArgument(self.name, (self.low, self.high), f"{allowed}, the first below the second")
        require.one_of("outside", self.outside, ("clip", "refuse"))

    @property
    def features(self) -> list[str]:
        """The column."""
        return [self.name]

    @property
    def width(self) -> int:
        """1."""
        return 1

    def fill(self, raw: Raw, out: Floats) -> Counts:
        """2 (x - low)/(high - low) - 1."""
        given = numbers(raw)
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
    """A 1 at the place of one of these categories; for others zeros, a place of their own ("other"), or an error."""

    values: tuple[Category, ...]
    unknown: str = "zero"

    kind: ClassVar[str] = "one-hot"
    treatments: ClassVar[tuple[str, ...]] = ("zero", "other", "refuse")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = require.several(self.name, self.values, "a list of categories: texts or numbers")
        object.__setattr__(self, "values", tuple(_category(self.name, value) for value in given))
        if not 0 < len(set(self.values)) == len(self.values) <= _MOST:
            allowed = f"1 to {_MOST:,} categories, all different"
            raise InvalidArgument(self.name, f"{len(self.values)} categories", allowed)
        require.one_of("unknown", self.unknown, self.treatments)

    @property
    def _others(self) -> bool:
        return "other" in (self.unknown, self.missing)

    @property
    def features(self) -> list[str]:
        """One for each category."""
        return [f"{self.name}={value}" for value in self.values] + [f"{self.name} other"] * self._others

    @property
    def width(self) -> int:
        """Categories, and a place for others where they have one."""
        return len(self.values) + self._others

    @cached_property
    def _places(self) -> dict[Category, int]:
        return {value: place for place, value in enumerate(self.values)}

    def fill(self, raw: Raw, out: Floats) -> Counts:
        """A single 1."""
        found = codes(raw, self._places)
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
    """The words of a text (or the whole of it, or a number) in so many buckets, with signs: a vector of length 1."""

    buckets: int
    seed: int = 0
    words: bool = True

    kind: ClassVar[str] = "hash"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.whole, "buckets", most=_MOST)
        require.store(self, require.whole, "seed", least=0, most=2**32 - 1)
        require.store(self, require.flag, "words")

    @property
    def features(self) -> list[str]:
        """Buckets."""
        return [f"{self.name}#{bucket}" for bucket in range(self.buckets)]

    @property
    def width(self) -> int:
        """Buckets."""
        return self.buckets

    def fill(self, raw: Raw, out: Floats) -> Counts:
        """Signed counts of words, divided by their length as a vector; each different text is looked at once."""
        values = raw.tolist() if isinstance(raw, np.ndarray) else raw
        absent = 0
        for begin in range(0, len(values), _PORTION):
            rows = slice(begin, begin + _PORTION)
            counts, places, nothing = hashing.bags(values[rows], words=self.words, buckets=self.buckets, seed=self.seed)
            if self.missing == "refuse":
                self._refuse(nothing[places], "no text", "a text or a number", begin)
            lengths = np.sqrt(np.sum(counts * counts, axis=1, keepdims=True))  # of whole numbers: exact in any order
            out[rows] = (counts / np.where(lengths > 0, lengths, 1.0))[places]
            absent += int(nothing[places].sum())
        return Counts(missing=absent)


def _category(name: str, value: Any) -> Category:
    """A text, or a number as its equals are written."""
    allowed = "categories that are texts or finite numbers"
    if isinstance(value, str):
        return _text(name, value)
    number = float(value) if isinstance(value, np.bool_) else value
    number = require.finite(name, float(number) if isinstance(number, bool) else number, allowed)
    return int(number) if number.is_integer() and abs(number) <= require.EXACT else number


def _text(name: str, value: Any) -> str:
    """A text that all languages can write."""
    try:
        return str(value.encode().decode())
    except (AttributeError, UnicodeError):
        raise InvalidArgument(name, value, "a text, of whole characters") from None


def share_of(columns: int) -> float:
    """How long the features of each of so many columns may be: sqrt(m) of these are 1."""
    return 1 / math.sqrt(columns)
