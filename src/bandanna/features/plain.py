"""A map as plain values: for JSON, the same in every language, and as a task's file has it.

{"format": "bandanna features", "version": 1,
 "columns": [{"kind": "range", "name": "age", "low": 18.0, "high": 80.0, "outside": "clip", "missing": "zero"},
             {"kind": "one-hot", "name": "site", "values": ["north", "south"], "unknown": "zero", "missing": "zero"},
             {"kind": "hash", "name": "text", "buckets": 64, "seed": 0, "words": true, "missing": "zero"}],
 "project": {"dim": 6, "seed": 0}, "ball": {"scale": 1.0}, "intercept": true}          # or null, null, false
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bandanna.core import require
from bandanna.core.tables import inside, keys
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.features.columns import Column, HashColumn, OneHotColumn, RangeColumn
from bandanna.features.parts import Ball, Project
from bandanna.storage.declared import checked

FORMAT, VERSION = "bandanna features", 1
Parts = tuple[list[Column], Project | None, Ball | None, bool]

_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (RangeColumn, OneHotColumn, HashColumn)}
_FIELDS = ("format", "version", "columns", "project", "ball", "intercept")
_TABLE = ("columns", "project", "ball", "intercept")
_KEYS = {
    "range": ("range", "outside", "missing"),
    "values": ("values", "unknown", "missing"),
    "buckets": ("buckets", "words", "seed", "missing"),
}


def written(columns: Sequence[Column], project: Project | None, ball: Ball | None, intercept: bool) -> dict[str, Any]:
    """The document."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "columns": [each.to_dict() for each in columns],
        "project": None if project is None else {"dim": project.dim, "seed": project.seed},
        "ball": None if ball is None else {"scale": ball.scale},
        "intercept": intercept,
    }


def readable(document: Any) -> Parts:
    """What a document says; Unreadable for one that `written` does not make."""
    try:
        if not isinstance(document, Mapping) or set(document) != set(_FIELDS):
            raise ValueError(f"it has other fields than {', '.join(_FIELDS)}")
        if (document["format"], document["version"]) != (FORMAT, VERSION):
            raise ValueError(f"not {FORMAT} of version {VERSION}")
        if type(document["intercept"]) is not bool or not isinstance(document["columns"], list):
            raise ValueError("its columns are no list, or intercept neither true nor false")
        columns = [_column(each) for each in document["columns"]]
        project, ball = (
            None if document[name] is None else kind(**checked(kind, document[name]))
            for name, kind in (("project", Project), ("ball", Ball))
        )
    except (BandannaError, AttributeError, TypeError, ValueError) as error:
        raise Unreadable(f"not a map of features: {error}") from error
    return columns, project, ball, document["intercept"]  # type: ignore[return-value]


def _column(document: Any) -> Column:
    if not isinstance(document, Mapping) or document.get("kind") not in _KINDS:
        raise ValueError(f"a column that is none of {', '.join(_KINDS)}")
    parts = {name: value for name, value in document.items() if name != "kind"}
    kind = _KINDS[document["kind"]]
    if kind is OneHotColumn and isinstance(parts.get("values"), list):
        parts["values"] = tuple(parts["values"])
    return kind(**checked(kind, parts))


def of_table(table: Mapping[str, Any]) -> Parts:
    """What a table of a file says: `columns`, each a range, a list of categories or a table, and what is done then."""
    given = keys(table, "features", _TABLE, needed=("columns",))
    if not isinstance(given["columns"], Mapping):
        raise InvalidArgument("features.columns", given["columns"], "a table [features.columns]")
    columns = [_tabled(name, value) for name, value in given["columns"].items()]
    intercept = require.flag("features.intercept", given.get("intercept", False))
    with inside("features."):
        project = _step(given, "project", ("dim", "seed"))
        ball = _step(given, "ball", ("scale",))
        return (
            columns,
            None if project is None else Project(**project),
            Ball() if ball is None and "project" in given else None if ball is None else Ball(**ball),
            intercept,
        )


def _step(given: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any] | None:
    """A table, or `true` for its usual values."""
    value = given.get(name)
    if value is None or value is False or (value is True and name == "ball"):
        return {} if value else None
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, value, f"a table with {', '.join(known)}")
    return keys(value, name, known, needed=known[:1])


def _tabled(name: str, value: Any) -> Column:
    """[least, largest], a list of texts, or a table with `range`, `values` or `buckets`."""
    where = f"features.columns.{name}"
    allowed = "[least, largest], a list of texts, or a table with one of range, values and buckets"
    if isinstance(value, list | tuple):
        value = {"values": value} if any(isinstance(each, str) for each in value) else {"range": value}
    which = [key for key in _KEYS if isinstance(value, Mapping) and key in value]
    if len(which) != 1:
        raise InvalidArgument(where, value, allowed)
    parts = keys(value, where, _KEYS[which[0]])
    with inside("features.columns."):
        if which == ["values"]:
            return OneHotColumn(name=name, **parts)
        if which == ["buckets"]:
            return HashColumn(name=name, **parts)
        ends = require.several(name, parts.pop("range"), "[least, largest]")
        if len(ends) != 2:
            raise InvalidArgument(name, ends, "[least, largest]")
        return RangeColumn(name=name, low=ends[0], high=ends[1], **parts)
