"""Columns as a data frame of whatever library is at hand, or as a file."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.errors import BandannaError, MissingExtra
from bandanna.storage.whole import write_whole

KINDS = ("pandas", "polars", "arrow")

Columns = Mapping[str, Sequence[Any]]


def frame(columns: Columns, kind: str, needed_for: str) -> Any:
    """A pandas or polars `DataFrame`, or a pyarrow `Table`; a library that is not installed is named."""
    require.one_of("kind", kind, KINDS)
    if kind == "arrow":
        return _module("pyarrow", needed_for).table(_plain(columns))
    return _module(kind, needed_for).DataFrame(_plain(columns))


def write_csv(path: str | PathLike[str], columns: Columns) -> None:
    """A line of names, then a line for each row; what is unknown is empty, infinity is `inf`."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*_plain(columns).values(), strict=True))
    write_whole(path, lambda beside: beside.write_text(text.getvalue(), encoding="utf-8", newline="\n"))


def write_parquet(path: str | PathLike[str], columns: Columns, needed_for: str) -> None:
    """The same, with types; needs the extra `results`."""
    parquet = _module("pyarrow.parquet", needed_for)
    table = frame(columns, "arrow", needed_for)
    write_whole(path, lambda beside: parquet.write_table(table, str(beside)))


def _plain(columns: Columns) -> dict[str, list[Any]]:
    """Every column of one type: whole numbers among others become numbers, all else becomes text."""
    return {name: _uniform(list(values)) for name, values in columns.items()}


def _uniform(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if int in kinds and any(abs(value) >= 2**63 for value in values if isinstance(value, int)):
        kinds = {int, str}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def _module(name: str, needed_for: str) -> Any:
    """Imported on first use; no extra brings polars."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if name == "polars":
            raise BandannaError(f"{needed_for} needs another package: pip install polars") from None
        raise MissingExtra("results", needed_for) from None
