"""`Map`: records to vectors in the unit ball, from public knowledge alone.

A map has columns (`Range`, `OneHot`, `Hash`) and steps for all features (`Project`, `UnitBall`, `Intercept`). It is
frozen and public.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn, TypeVar

import numpy as np

from bandanna import validation
from bandanna.data.features.columns import (
    CellCountDomain,
    Column,
    HashColumn,
    OneHotColumn,
    RangeColumn,
    Report,
    length_per_column,
    to_numbers,
)
from bandanna.data.tables import RecordTable, read_records
from bandanna.device.noise import NoiseSource, SecureNoise
from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidBudget,
    Unreadable,
    ValueSummary,
    describe_json_error,
    raise_without_context,
)
from bandanna.privacy.events import Event
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.comparison import release_recorded
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import check_fields
from bandanna.types import Floats, Ints
from bandanna.validation import check_keys, check_memory, checked_keywords, prefix_errors, warn_outside

# Parts of a map


@dataclass(frozen=True, init=False, repr=False)
class ColumnGroup:
    """Several columns of one kind."""

    columns: tuple[Column, ...]

    def _keep(self, columns: list[Column]) -> None:
        if not columns:
            raise InvalidArgument(type(self).__name__, ValueSummary("none"), "at least one column")
        object.__setattr__(self, "columns", tuple(columns))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(each.name for each in self.columns)})"


class Range(ColumnGroup):
    """Numbers with public ranges: `Range(age=(18, 80))`, or `Range({"CD4 count": (0, 1200)})`.

    Parameters
    ----------
    outside : {"clip", "refuse"}
        Treatment of numbers outside of the range.
    missing : {"zero", "refuse"}
        Treatment of missing values; "zero" is the middle of the range.
    """

    def __init__(
        self, columns: Mapping[str, Any] | None = None, /, *, outside: str = "clip", missing: str = "zero", **named: Any
    ) -> None:
        made: list[Column] = []
        for name, limits in _merge_columns("Range", columns, named).items():
            ends = validation.list_entries(f"Range.{name}", limits, "a pair of numbers (least, largest)")
            if len(ends) != 2:
                raise InvalidArgument(f"Range.{name}", limits, "a pair of numbers (least, largest)")
            made.append(RangeColumn(name=name, low=ends[0], high=ends[1], outside=outside, missing=missing))
        self._keep(made)


class OneHot(ColumnGroup):
    """Categories from public lists: `OneHot(site=["north", "south"])`.

    Parameters
    ----------
    unknown : {"zero", "other", "refuse"}
        Treatment of values that are not listed; "other" is a feature of its own.
    missing : {"zero", "other", "refuse"}
        Treatment of missing values.
    """

    def __init__(
        self, columns: Mapping[str, Any] | None = None, /, *, unknown: str = "zero", missing: str = "zero", **named: Any
    ) -> None:
        lists = _merge_columns("OneHot", columns, named)
        self._keep(
            [OneHotColumn(name=name, values=values, unknown=unknown, missing=missing) for name, values in lists.items()]
        )


class Hash(ColumnGroup):
    """Texts, or categories without a list, hashed to buckets: `Hash("text", buckets=64)`.

    Parameters
    ----------
    buckets : int
        Number of buckets.
    words : bool
        True: the words of a text. False: the whole text is one category.
    seed : int
        Public seed; it decides which values collide.
    missing : {"zero", "refuse"}
        Treatment of values that are neither text nor number.
    """

    def __init__(self, *columns: str, buckets: int, words: bool = True, seed: int = 0, missing: str = "zero") -> None:
        self._keep(
            [HashColumn(name=name, buckets=buckets, words=words, seed=seed, missing=missing) for name in columns]
        )


@dataclass(frozen=True)
class Project:
    """A public random projection to `dim` features: signs that follow from the seed, divided by sqrt(dim).

    It preserves lengths on average; `UnitBall()` clips vectors that become longer than 1.

    Parameters
    ----------
    dim : int
        Number of features after the projection.
    seed : int
        Public seed.
    """

    dim: int
    seed: int = 0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", most=10_000)
        validation.set_validated(self, validation.integer, "seed", least=0, most=validation.LARGEST_EXACT_INTEGER)


@dataclass(frozen=True)
class UnitBall:
    """Vectors times a public `scale`, clipped to length 1.

    Parameters
    ----------
    scale : float
        The public factor. One that makes typical vectors nearly 1 long costs no privacy and needs no more noise.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.bounded_factor, "scale")


@dataclass(frozen=True)
class Intercept:
    """A constant last feature: (z, 1)/sqrt 2, with |z| <= 1. For `LinTS(intercept=True)`."""


def _merge_columns(kind: str, columns: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Merge columns from a mapping and from keyword arguments."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidArgument(kind, type(columns).__name__, "a mapping from column names, or keyword arguments")
    given = {} if columns is None else dict(columns)
    if twice := sorted(set(given) & set(named), key=str):
        raise InvalidArgument(f"{kind}.{twice[0]}", ValueSummary("two"), "given once")
    return given | named


# Maps as JSON and as tables


FORMAT, VERSION = "bandanna features", 1
MapParts = tuple[list[Column], Project | None, UnitBall | None, bool]

_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (RangeColumn, OneHotColumn, HashColumn)}
_FIELDS = ("format", "version", "columns", "project", "ball", "intercept")
_TABLE = ("columns", "project", "ball", "intercept")
_KEYS = {
    "range": ("range", "outside", "missing"),
    "values": ("values", "unknown", "missing"),
    "buckets": ("buckets", "words", "seed", "missing"),
}


def write_document(
    columns: Sequence[Column], project: Project | None, ball: UnitBall | None, intercept: bool
) -> dict[str, Any]:
    """Return the map as plain values, the same in every language.

    {"format": "bandanna features", "version": 1,
     "columns": [{"kind": "range", "name": "age", "low": 18.0, "high": 80.0, "outside": "clip", "missing": "zero"},
                 {"kind": "one-hot", "name": "site", "values": ["north", "south"], "unknown": "zero",
                  "missing": "zero"},
                 {"kind": "hash", "name": "text", "buckets": 64, "seed": 0, "words": true, "missing": "zero"}],
     "project": {"dim": 6, "seed": 0}, "ball": {"scale": 1.0}, "intercept": true}          # or null, null, false
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "columns": [each.to_dict() for each in columns],
        "project": None if project is None else {"dim": project.dim, "seed": project.seed},
        "ball": None if ball is None else {"scale": ball.scale},
        "intercept": intercept,
    }


def read_document(document: Any) -> MapParts:
    """Read the plain values of `write_document`; raise `Unreadable` for others."""
    try:
        if not isinstance(document, Mapping) or set(document) != set(_FIELDS):
            raise ValueError(f"it has other fields than {', '.join(_FIELDS)}")
        if (document["format"], document["version"]) != (FORMAT, VERSION):
            raise ValueError(f"not {FORMAT} of version {VERSION}")
        if type(document["intercept"]) is not bool or not isinstance(document["columns"], list):
            raise ValueError("its columns are no list, or intercept neither true nor false")
        columns = [_read_column(each) for each in document["columns"]]
        project, ball = (
            None if document[name] is None else kind(**check_fields(kind, document[name]))
            for name, kind in (("project", Project), ("ball", UnitBall))
        )
    except (BandannaError, AttributeError, TypeError, ValueError) as error:
        raise Unreadable(f"not a map of features: {error}") from error
    return columns, project, ball, document["intercept"]  # type: ignore[return-value]


def _read_column(document: Any) -> Column:
    if not isinstance(document, Mapping) or document.get("kind") not in _KINDS:
        raise ValueError(f"a column that is none of {', '.join(_KINDS)}")
    parts = {name: value for name, value in document.items() if name != "kind"}
    kind = _KINDS[document["kind"]]
    if kind is OneHotColumn and isinstance(parts.get("values"), list):
        parts["values"] = tuple(parts["values"])
    return kind(**check_fields(kind, parts))


def map_from_table(table: Mapping[str, Any]) -> MapParts:
    """Read the [features] table of a task's file: `columns` and steps."""
    given = check_keys(table, "features", _TABLE, needed=("columns",))
    if not isinstance(given["columns"], Mapping):
        raise InvalidArgument("features.columns", given["columns"], "a table [features.columns]")
    columns = [_parse_column_table(name, value) for name, value in given["columns"].items()]
    intercept = validation.boolean("features.intercept", given.get("intercept", False))
    with prefix_errors("features."):
        project = _parse_step(given, "project", ("dim", "seed"))
        ball = _parse_step(given, "ball", ("scale",))
        return (
            columns,
            None if project is None else Project(**project),
            UnitBall() if ball is None and "project" in given else None if ball is None else UnitBall(**ball),
            intercept,
        )


def _parse_step(given: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any] | None:
    value = given.get(name)
    if value is None or value is False or (value is True and name == "ball"):
        return {} if value else None
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, value, f"a table with {', '.join(known)}")
    return check_keys(value, name, known, needed=known[:1])


def _parse_column_table(name: str, value: Any) -> Column:
    where = f"features.columns.{name}"
    allowed = "[least, largest], a list of texts, or a table with one of range, values and buckets"
    if isinstance(value, list | tuple):
        value = {"values": value} if any(isinstance(each, str) for each in value) else {"range": value}
    which = [key for key in _KEYS if isinstance(value, Mapping) and key in value]
    if len(which) != 1:
        raise InvalidArgument(where, value, allowed)
    parts = check_keys(value, where, _KEYS[which[0]])
    with prefix_errors("features.columns."):
        if which == ["values"]:
            return OneHotColumn(name=name, **parts)
        if which == ["buckets"]:
            return HashColumn(name=name, **parts)
        ends = validation.list_entries(name, parts.pop("range"), "[least, largest]")
        if len(ends) != 2:
            raise InvalidArgument(name, ends, "[least, largest]")
        return RangeColumn(name=name, low=ends[0], high=ends[1], **parts)


# The projection


_BITS = 256


@lru_cache(maxsize=16)
def projection_signs(inputs: int, outputs: int, seed: int) -> Floats:
    """Return the signs of a projection, (inputs, outputs), of -1 and 1 (docs/how-to/features.md)."""
    blocks = range(-(-inputs // _BITS))
    texts = (f"bandanna project/{seed}/{i}/{block}".encode("ascii") for i in range(outputs) for block in blocks)
    drawn = np.frombuffer(b"".join(hashlib.sha256(text).digest() for text in texts), dtype=np.uint8)
    bits = np.unpackbits(drawn).reshape(outputs, -1)[:, :inputs]
    made = np.ascontiguousarray(1.0 - 2.0 * bits.T)
    made.setflags(write=False)
    return made


def project_features(x: Floats, outputs: int, seed: int) -> Floats:
    """Project (n, inputs) -> (n, outputs): sum_j sign x_j, added in the order of j, divided by sqrt(outputs).

    The order makes a row's features the same bit for bit beside other rows and in every language.
    """
    table = projection_signs(x.shape[1], outputs, seed)
    total = np.zeros((len(x), outputs))
    for column, row in zip(x.T, table, strict=True):
        total += column[:, None] * row
    return np.asarray(total / math.sqrt(outputs))


# The map


_ROWS = 8_192  # at a time
_CONSTANT = math.sqrt(0.5)
_MOST = 1_000_000  # features

Step = TypeVar("Step", Project, UnitBall, Intercept)


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """Vectors (n, d), and a report of what the map did with the records.

    Attributes
    ----------
    values
        Features, (n, d), raw user data.
    report
        Counts of unusual values and clipped vectors; not private.
    """

    values: Floats
    report: Report


@dataclass(frozen=True, init=False)
class Map:
    """A public feature map, made of columns and steps.

        Map(Range(age=(18, 80)), OneHot(site=SITES), Hash("note", buckets=9), Project(6, seed=0), UnitBall())

    Each of m columns gives a vector of length at most 1, times 1/sqrt m:

        x = (c_1, ..., c_m)/sqrt m,    z = clip(scale P x),    features (z, 1)/sqrt 2

    A map is called with one record, a dictionary, and returns features (d,); or with many - a list of dictionaries, a
    pandas or polars frame, an Arrow table, a structured array, an array (n, columns) - and returns (n, d). A row's
    features depend on the row alone. A column that a dictionary lacks is missing; a table that lacks a column is
    refused.

    Parameters
    ----------
    *parts
        Columns, then at most one of each of `Project`, `UnitBall` and `Intercept`, applied in this order.
    """

    columns: tuple[Column, ...]
    project: Project | None
    ball: UnitBall | None
    intercept: bool

    def __init__(self, *parts: ColumnGroup | Project | UnitBall | Intercept) -> None:
        columns: list[Column] = []
        for part in parts:
            if not isinstance(part, ColumnGroup | Project | UnitBall | Intercept):
                raise InvalidArgument("parts", part, "Range, OneHot, Hash, Project, UnitBall or Intercept")
            if isinstance(part, ColumnGroup):
                columns += part.columns
        self._set(
            columns, _find_step(parts, Project), _find_step(parts, UnitBall), _find_step(parts, Intercept) is not None
        )

    def _set(self, columns: Sequence[Column], project: Project | None, ball: UnitBall | None, intercept: bool) -> None:
        names = [each.name for each in columns]
        if not names or len(set(names)) != len(names):
            twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
            given = ValueSummary("none" if twice is None else f"{twice!r} twice")
            raise InvalidArgument("columns", given, "one or more different columns")
        for name, value in (
            ("columns", tuple(columns)),
            ("project", project),
            ("ball", ball),
            ("intercept", intercept),
        ):
            object.__setattr__(self, name, value)
        if project is not None and ball is None:
            allowed = "combined with UnitBall(), which clips the vectors that a projection makes longer than 1"
            raise InvalidArgument("Project", project, allowed)
        if max(self.inputs, self.dim) > _MOST:
            raise InvalidArgument("columns", f"{self.inputs:,} features", f"at most {_MOST:,}")

    @classmethod
    def of(
        cls, columns: Sequence[Column], *, project: Project | None = None, ball: UnitBall | None = None, intercept: bool
    ) -> Map:
        """Make a map of columns."""
        made = cls.__new__(cls)
        made._set(columns, project, ball, intercept)
        return made

    @property
    def inputs(self) -> int:
        return sum(each.width for each in self.columns)

    @property
    def slopes(self) -> int:
        return self.inputs if self.project is None else self.project.dim

    @property
    def dim(self) -> int:
        return self.slopes + self.intercept

    @property
    def features(self) -> list[str]:
        names = [name for each in self.columns for name in each.features]
        if self.project is not None:
            names = [f"projection {i}" for i in range(self.project.dim)]
        return [*names, *(["constant"] if self.intercept else [])]

    def __call__(self, records: Any, names: Sequence[str] | None = None) -> Floats:
        """Return features (d,) of one record or (n, d) of many.

        `names` are the column names of an array. A `FeatureWarning` is given if most of at least 10 rows are unusual.
        """
        table = read_records(records, [each.name for each in self.columns], names)
        mapped = self._mapped(table)
        if warning := mapped.report.warning():
            warn_outside(warning)
        return mapped.values[0] if table.single else mapped.values

    def mapped(self, records: Any, names: Sequence[str] | None = None) -> Mapped:
        """Return features (n, d) with counts of unusual values and clipped vectors; never warn."""
        return self._mapped(read_records(records, [each.name for each in self.columns], names))

    def _mapped(self, table: RecordTable) -> Mapped:
        needed = 8 * table.rows * (self.dim + self.inputs)
        check_memory("records", f"{table.rows:,} rows", needed, content=f"{self.dim:,} features of each")
        x = np.zeros((table.rows, self.inputs))
        counts, begin = {}, 0
        for column in self.columns:
            end = begin + column.width
            counts[column.name] = column.fill(table.columns[column.name], x[:, begin:end])
            begin = end
        x *= length_per_column(len(self.columns))
        values, clipped = x, 0
        if self.project is not None or self.ball is not None or self.intercept:
            values = np.empty((table.rows, self.dim))
            for start in range(0, table.rows, _ROWS):
                rows = slice(start, start + _ROWS)
                values[rows], moved = self._finished(x[rows])
                clipped += moved
        return Mapped(values=values, report=Report(rows=table.rows, columns=counts, clipped=clipped))

    def _finished(self, x: Floats) -> tuple[Floats, int]:
        """Project, scale, clip and append the constant; return (n, d) and how many were clipped."""
        clipped = 0
        if self.project is not None:
            x = project_features(x, self.project.dim, self.project.seed)
        if self.ball is not None:
            x = x * self.ball.scale
            square = np.zeros(len(x))
            for column in x.T:  # in order, as in any language
                square += column * column
            limit = 1 + (x.shape[1] + 8) * 2.0**-52
            longer = square > limit * limit
            x, clipped = x / np.where(longer, np.sqrt(square), 1.0)[:, None], int(longer.sum())
        if self.intercept:
            x = np.concatenate([x * _CONSTANT, np.full((len(x), 1), _CONSTANT)], axis=1)
        return x, clipped

    def fit(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: ranges and categories are public knowledge."""
        hint = "Use ranges from public knowledge, or bd.features.fit_privately(records, columns, privacy=...)."
        raise InvalidBudget("privacy", None, "given to fit a map to users' records", hint)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, the same in every language (docs/how-to/features.md)."""
        return write_document(self.columns, self.project, self.ball, self.intercept)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Map:
        """Read the values of `to_dict`; raise `Unreadable` for others."""
        columns, project, ball, intercept = read_document(document)
        return cls.of(columns, project=project, ball=ball, intercept=intercept)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Map:
        """Read the JSON of `to_json`, bit for bit."""
        try:
            document = json.loads(text)
        except (RecursionError, TypeError, ValueError) as error:
            raise_without_context(Unreadable(f"not a document of JSON: {describe_json_error(error)}"))
        return cls.from_dict(document)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Map:
        """Read the [features] table of a task's file (docs/how-to/features.md)."""
        columns, project, ball, intercept = map_from_table(table)
        return cls.of(columns, project=project, ball=ball, intercept=intercept)

    @cached_property
    def _text(self) -> str:
        return self.to_json()

    def __hash__(self) -> int:
        return hash(self._text)


def _find_step(parts: Sequence[Any], kind: type[Step]) -> Step | None:
    found = [part for part in parts if isinstance(part, kind)]
    if len(found) > 1:
        raise InvalidArgument(kind.__name__, ValueSummary(f"{len(found)} of them"), "given at most once")
    return found[0] if found else None


def corners(n: int) -> Floats:
    """Return `n` vectors of length 1 with n - 1 coordinates, any two at the same angle: features for arms without any.

    Beside a constant they need one feature less than unit vectors, and are farther apart: sqrt(2 n/(n - 1)), not sqrt
    2.

    Parameters
    ----------
    n : int
        Number of vectors.

    Returns
    -------
    array
        The vectors, (n, n - 1).

    Examples
    --------
    >>> corners(3).round(3).tolist()
    [[1.0, 0.0], [-0.5, 0.866], [-0.5, -0.866]]
    """
    count = validation.integer("n", n, least=2, most=10_000)
    made = np.zeros((count, count - 1))
    for place in range(count - 1):
        left = count - place  # corners that are not yet placed, as seen from the centre of theirs
        height = math.sqrt(count * (left - 1) / ((count - 1) * left))  # of this one above the others' centre
        made[place, place] = height
        made[place + 1 :, place] = -height / (left - 1)
    return made


# Ranges from records, with differential privacy


_MOST_BINS = 10_000


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Released ranges, and their price.

    Parameters
    ----------
    range
        A part of a map.
    counts
        The noisy counts of the grid by column, (bins + 1,); the last counts missing values.
    std
        Standard deviation of a count's noise.
    """

    range: Range
    counts: Mapping[str, Floats]
    std: float
    event: Event
    guarantee: Guarantee


@checked_keywords("bd.features.fit_privately")
def fit_privately(
    records: Any,
    columns: Mapping[str, Any],
    *,
    privacy: Privacy,
    quantiles: tuple[float, float] = (0.05, 0.95),
    bins: int = 64,
    outside: str = "clip",
    missing: str = "zero",
    source: NoiseSource | None = None,
    ledger: Ledger | None = None,
    task: str = "features",
) -> Fitted:
    """Release ranges between two quantiles of users' numbers with differential privacy; a row is a user.

    Parameters
    ----------
    records
        Records of any kind that a `Map` takes.
    columns : mapping
        Public limits by name: {"age": (0, 120)}.
    privacy : Privacy
        `bd.central(...)`, `bd.shuffle(...)` or `bd.local(...)` with a budget.
    quantiles : tuple of float
        The ends of the range.
    bins : int
        Cells of the grid between the limits.
    outside, missing : str
        As for `Range`.
    source : NoiseSource, optional
        Secure by default; `bd.device.FastNoise(rng)` for simulation.
    ledger, task
        Where the price is recorded, and under which name.

    Returns
    -------
    Fitted
        The ranges as a part of a map, and the guarantee.
    """
    if not isinstance(privacy, Privacy) or not privacy.noisy:
        hint = "A range that is found in users' records costs privacy."
        raise InvalidBudget(
            "privacy", getattr(privacy, "model", privacy), "a model such as bd.central(1.0, 1e-5)", hint
        )
    limits = Range(columns).columns
    low, high = (
        validation.unit_interval("quantiles", each)
        for each in validation.list_entries("quantiles", quantiles, "a pair of numbers")
    )
    if not low < high:
        raise InvalidArgument("quantiles", quantiles, "two increasing numbers in [0, 1]")
    bins = validation.integer("bins", bins, least=2, most=_MOST_BINS)
    table = read_records(records, [each.name for each in limits])
    domain = CellCountDomain(columns=len(limits), cells=bins + 1)
    check_memory("records", f"{table.rows:,} rows", 24 * table.rows * domain.dim, content="their reports")
    if not table.rows:
        raise InvalidArgument("records", ValueSummary("no rows"), "records of at least one user")
    places = np.stack([_cell_numbers(to_numbers(table.columns[each.name]), each, bins) for each in limits], axis=1)  # type: ignore[arg-type]
    protocol = protocol_for(privacy, domain, table.rows)
    own = SecureNoise() if source is None else source
    released = release_recorded(protocol, domain.statistic(places), own, ledger=ledger, task=task)
    counts = released.total.reshape(len(limits), bins + 1)
    ends = {
        each.name: _quantile_edges(row, each, table.rows, (low, high))  # type: ignore[arg-type]
        for each, row in zip(limits, counts, strict=True)
    }
    return Fitted(
        range=Range(ends, outside=outside, missing=missing),
        counts={each.name: row for each, row in zip(limits, counts, strict=True)},
        std=protocol.std(table.rows),
        event=protocol.event,
        guarantee=protocol.guarantee,
    )


def _cell_numbers(given: Floats, limits: RangeColumn, bins: int) -> Ints:
    inside = np.clip(given, limits.low, limits.high)
    share = (np.where(np.isnan(inside), limits.low, inside) - limits.low) / (limits.high - limits.low)
    cells = np.minimum((share * bins).astype(np.int64), bins - 1)
    return np.where(np.isnan(given), bins, cells)


def _quantile_edges(
    counts: Floats, limits: RangeColumn, people: int, quantiles: tuple[float, float]
) -> tuple[float, float]:
    bins = len(counts) - 1
    balanced = counts - (counts.sum() - people) / len(counts)  # they add up to the people
    sums = np.cumsum(balanced[:-1])
    rising = (np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]) / 2
    present = max(float(people - balanced[-1]), 1.0)
    first, last = (min(int(np.sum(rising < share * present)), bins - 1) for share in quantiles)
    width = (limits.high - limits.low) / bins
    return limits.low + first * width, min(limits.high, limits.low + (last + 1) * width)
