"""The map: records to vectors in the unit ball, from public knowledge alone.

Every one of m columns gives a vector no longer than 1, times 1/sqrt m: so all of them together are no longer than 1,
whatever the records are. `Project` makes fewer features of them, `Ball` stretches and clips, `Intercept` a constant:

    x = (c_1, ..., c_m)/sqrt m,    z = clip(scale P x),    features (z, 1)/sqrt 2

A map is frozen and public. Nothing in it was learned from anybody's data, unless `fit_privately` has paid for it.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.memory import require_room
from bandanna.errors import InvalidArgument, InvalidBudget, Unreadable, place_in_json, raise_alone
from bandanna.features import plain
from bandanna.features.columns import Column, share_of
from bandanna.features.counts import Report
from bandanna.features.parts import Ball, Columns, Intercept, Project
from bandanna.features.projection import projected
from bandanna.features.tables import Table, read

_ROWS = 8_192  # at a time
_CONSTANT = math.sqrt(0.5)
_MOST = 1_000_000  # features

Step = TypeVar("Step", Project, Ball, Intercept)


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """Vectors (n, d), and what had to be done with the records."""

    values: Floats
    report: Report


@dataclass(frozen=True, init=False)
class Map:
    """`Map(Range(age=(18, 80)), OneHot(site=SITES), Hash("note", buckets=9), Project(6, seed=0), Ball(), Intercept())`.

    Columns first, in the order of their features; then at most one of each of `Project`, `Ball` and `Intercept`, which
    are done in this order. A map is called with one record, a dictionary, for its features (d,), or with many - a list
    of dictionaries, a pandas or polars frame, an Arrow table, a structured array, an array (n, columns) - for (n, d).

    Records may have more columns than the map has. A dictionary without a column has it missing; a table without it is
    refused. A row's features depend on nothing but the row.
    """

    columns: tuple[Column, ...]
    project: Project | None
    ball: Ball | None
    intercept: bool

    def __init__(self, *parts: Columns | Project | Ball | Intercept) -> None:
        columns: list[Column] = []
        for part in parts:
            if not isinstance(part, Columns | Project | Ball | Intercept):
                raise InvalidArgument("parts", part, "Range, OneHot, Hash, Project, Ball or Intercept")
            if isinstance(part, Columns):
                columns += part.columns
        self._set(columns, _one(parts, Project), _one(parts, Ball), _one(parts, Intercept) is not None)

    def _set(self, columns: Sequence[Column], project: Project | None, ball: Ball | None, intercept: bool) -> None:
        names = [each.name for each in columns]
        if not names or len(set(names)) != len(names):
            twice = next((name for place, name in enumerate(names) if name in names[:place]), "none")
            raise InvalidArgument("columns", twice, "at least one column, and each once")
        for name, value in (
            ("columns", tuple(columns)),
            ("project", project),
            ("ball", ball),
            ("intercept", intercept),
        ):
            object.__setattr__(self, name, value)
        if project is not None and ball is None:
            allowed = "with Ball(): a projection makes some vectors longer than 1, which have to be clipped"
            raise InvalidArgument("Project", project, allowed)
        if max(self.inputs, self.dim) > _MOST:
            raise InvalidArgument("columns", f"{self.inputs:,} features", f"at most {_MOST:,}")

    @classmethod
    def of(
        cls, columns: Sequence[Column], *, project: Project | None = None, ball: Ball | None = None, intercept: bool
    ) -> Map:
        """From columns as a map has them."""
        made = cls.__new__(cls)
        made._set(columns, project, ball, intercept)
        return made

    @property
    def inputs(self) -> int:
        """Features of all columns, before a projection."""
        return sum(each.width for each in self.columns)

    @property
    def slopes(self) -> int:
        """Features without the constant."""
        return self.inputs if self.project is None else self.project.dim

    @property
    def dim(self) -> int:
        """Features: what a policy's `dim` (or `features`) has to be."""
        return self.slopes + self.intercept

    @property
    def features(self) -> list[str]:
        """Their names."""
        names = [name for each in self.columns for name in each.features]
        if self.project is not None:
            names = [f"projection {i}" for i in range(self.project.dim)]
        return [*names, *(["constant"] if self.intercept else [])]

    def __call__(self, records: Any, names: Sequence[str] | None = None) -> Floats:
        """Features (d,) of one record, (n, d) of many; `names` are those of the columns of an array.

        A `FeatureWarning` says where most of at least 10 rows were clipped, unknown or missing.
        """
        table = read(records, [each.name for each in self.columns], names)
        mapped = self._mapped(table)
        if said := mapped.report.warning():
            warnings.warn(said, stacklevel=2)
        return mapped.values[0] if table.single else mapped.values

    def mapped(self, records: Any, names: Sequence[str] | None = None) -> Mapped:
        """Features (n, d), with the counts of what was out of range, unknown, missing or clipped; never a warning."""
        return self._mapped(read(records, [each.name for each in self.columns], names))

    def _mapped(self, table: Table) -> Mapped:
        needed = 8 * table.rows * (self.dim + self.inputs)
        require_room("records", f"{table.rows:,} rows", needed, of=f"{self.dim:,} features of each")
        x = np.zeros((table.rows, self.inputs))
        counts, begin = {}, 0
        for column in self.columns:
            end = begin + column.width
            counts[column.name] = column.fill(table.columns[column.name], x[:, begin:end])
            begin = end
        x *= share_of(len(self.columns))
        values, clipped = x, 0
        if self.project is not None or self.ball is not None or self.intercept:
            values = np.empty((table.rows, self.dim))
            for start in range(0, table.rows, _ROWS):
                rows = slice(start, start + _ROWS)
                values[rows], moved = self._finished(x[rows])
                clipped += moved
        return Mapped(values=values, report=Report(rows=table.rows, columns=counts, clipped=clipped))

    def _finished(self, x: Floats) -> tuple[Floats, int]:
        """Projected, stretched, clipped, with the constant: (n, d), and how many were clipped."""
        clipped = 0
        if self.project is not None:
            x = projected(x, self.project.dim, self.project.seed)
        if self.ball is not None:
            x, clipped = _in_ball(x * self.ball.scale)
        if self.intercept:
            x = np.concatenate([x * _CONSTANT, np.full((len(x), 1), _CONSTANT)], axis=1)
        return x, clipped

    def fit(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: ranges and categories are public knowledge."""
        allowed = "ranges from public knowledge, or bandanna.features.fit_privately(records, columns, privacy=...)"
        raise InvalidBudget("privacy", None, f"a map is not fitted to people's records for nothing: {allowed}")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, the same in every language (docs/features.md)."""
        return plain.written(self.columns, self.project, self.ball, self.intercept)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Map:
        """The map of `to_dict`; Unreadable for anything else."""
        columns, project, ball, intercept = plain.readable(document)
        return cls.of(columns, project=project, ball=ball, intercept=intercept)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(self.to_dict(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Map:
        """The map of `to_json`, bit for bit."""
        try:
            document = json.loads(text)
        except (RecursionError, TypeError, ValueError) as error:
            raise_alone(Unreadable(f"not a document of JSON: {place_in_json(error)}"))
        return cls.from_dict(document)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Map:
        """As a task's file has it, `[features]` (docs/features.md)."""
        columns, project, ball, intercept = plain.of_table(table)
        return cls.of(columns, project=project, ball=ball, intercept=intercept)

    @cached_property
    def _text(self) -> str:
        return self.to_json()

    def __hash__(self) -> int:
        return hash(self._text)


def _in_ball(x: Floats) -> tuple[Floats, int]:
    """Rows no longer than 1, and how many were longer by more than rounding errors."""
    square = np.zeros(len(x))
    for column in x.T:  # in order, as in any language
        square += column * column
    limit = 1 + (x.shape[1] + 8) * 2.0**-52
    longer = square > limit * limit
    lengths = np.where(longer, np.sqrt(square), 1.0)
    return x / lengths[:, None], int(longer.sum())


def _one(parts: Sequence[Any], kind: type[Step]) -> Step | None:
    found = [part for part in parts if isinstance(part, kind)]
    if len(found) > 1:
        raise InvalidArgument(kind.__name__, f"{len(found)} of them", "at most one")
    return found[0] if found else None
