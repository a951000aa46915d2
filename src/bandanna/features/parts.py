"""What a map is made of: columns, and what is done with all their features together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.features.columns import Column, HashColumn, OneHotColumn, RangeColumn


@dataclass(frozen=True, init=False, repr=False)
class Columns:
    """Several columns of one kind."""

    columns: tuple[Column, ...]

    def _keep(self, columns: list[Column]) -> None:
        if not columns:
            raise InvalidArgument(type(self).__name__, "no columns", "at least one")
        object.__setattr__(self, "columns", tuple(columns))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(each.name for each in self.columns)})"


class Range(Columns):
    """Numbers with public ranges: `Range(age=(18, 80))`, or `Range({"CD4 count": (0, 1200)})`.

    outside  "clip" to the nearer end, or "refuse"
    missing  "zero", the middle of the range, or "refuse"; what is no number is missing
    """

    def __init__(
        self, columns: Mapping[str, Any] | None = None, /, *, outside: str = "clip", missing: str = "zero", **named: Any
    ) -> None:
        made: list[Column] = []
        for name, limits in _named("Range", columns, named).items():
            ends = require.several(f"Range.{name}", limits, "two numbers, (least, largest)")
            if len(ends) != 2:
                raise InvalidArgument(f"Range.{name}", limits, "two numbers, (least, largest)")
            made.append(RangeColumn(name=name, low=ends[0], high=ends[1], outside=outside, missing=missing))
        self._keep(made)


class OneHot(Columns):
    """Categories from public lists: `OneHot(site=["north", "south"])`.

    unknown  what is not listed: "zero", "other" (a place of its own), or "refuse"
    missing  the same for what is missing
    """

    def __init__(
        self, columns: Mapping[str, Any] | None = None, /, *, unknown: str = "zero", missing: str = "zero", **named: Any
    ) -> None:
        lists = _named("OneHot", columns, named)
        self._keep(
            [OneHotColumn(name=name, values=values, unknown=unknown, missing=missing) for name, values in lists.items()]
        )


class Hash(Columns):
    """Texts, or categories without a list, in so many buckets: `Hash("text", buckets=64)`.

    words    True: the words of a text; False: the whole text is one category
    seed     another seed, other collisions: public
    missing  "zero" or "refuse"; what is neither text nor number is missing
    """

    def __init__(self, *columns: str, buckets: int, words: bool = True, seed: int = 0, missing: str = "zero") -> None:
        self._keep(
            [HashColumn(name=name, buckets=buckets, words=words, seed=seed, missing=missing) for name in columns]
        )


@dataclass(frozen=True)
class Project:
    """A public random projection to `dim` features: signs that follow from the seed, by 1/sqrt(dim).

    Lengths stay what they are on average; those that become longer than 1 are clipped by `Ball()`, which must be there.
    """

    dim: int
    seed: int = 0

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", most=10_000)
        require.store(self, require.whole, "seed", least=0, most=require.EXACT)


@dataclass(frozen=True)
class Ball:
    """Vectors times a public `scale`, clipped to length 1.

    Ranges are wide: most people are far from their ends, and their vectors short, while noise is that of vectors of
    length 1. A scale that makes typical vectors nearly 1 long is for nothing; few are clipped, and counted.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        require.store(self, require.moderate, "scale")


@dataclass(frozen=True)
class Intercept:
    """A last feature that is constant: (z, 1)/sqrt 2, with |z| <= 1. For `LinTS(intercept=True)`."""


def _named(kind: str, columns: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Of a mapping, for names that are no words of Python, and of arguments; each once."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidArgument(kind, type(columns).__name__, "columns by name, or a mapping from their names")
    given = {} if columns is None else dict(columns)
    if twice := sorted(set(given) & set(named), key=str):
        raise InvalidArgument(f"{kind}.{twice[0]}", "given twice", "each column once")
    return given | named
