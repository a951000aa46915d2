"""Data frames of results, and columns of text files."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import BandannaError, MissingExtra, raise_without_context, suggest_column
from bandanna.storage.files import replace_file

# Columns as a data frame of whatever library is at hand, or as a file.


KINDS = ("pandas", "polars", "arrow")

Columns = Mapping[str, Sequence[Any]]


def make_frame(columns: Columns, kind: str, needed_for: str) -> Any:
    """A pandas or polars `DataFrame`, or a pyarrow `Table`; a library that is not installed is named."""
    validation.one_of("kind", kind, KINDS)
    if kind == "arrow":
        return _import_module("pyarrow", needed_for).table(_to_plain_columns(columns))
    return _import_module(kind, needed_for).DataFrame(_to_plain_columns(columns))


def write_csv(path: str | PathLike[str], columns: Columns) -> None:
    """A line of names, then a line for each row; what is unknown is empty, infinity is `inf`."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*_to_plain_columns(columns).values(), strict=True))
    replace_file(path, lambda beside: beside.write_text(text.getvalue(), encoding="utf-8", newline="\n"))


def write_parquet(path: str | PathLike[str], columns: Columns, needed_for: str) -> None:
    """The same, with types; needs the extra `results`."""
    parquet = _import_module("pyarrow.parquet", needed_for)
    table = make_frame(columns, "arrow", needed_for)
    replace_file(path, lambda beside: parquet.write_table(table, str(beside)))


def _to_plain_columns(columns: Columns) -> dict[str, list[Any]]:
    """Every column of one type: whole numbers among others become numbers, all else becomes text."""
    return {name: _to_one_type(list(values)) for name, values in columns.items()}


def _to_one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if int in kinds and any(abs(value) >= 2**63 for value in values if isinstance(value, int)):
        kinds = {int, str}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def _import_module(name: str, needed_for: str) -> Any:
    """Imported on first use; no extra brings polars."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if name == "polars":
            raise BandannaError(f"{needed_for} needs another package: pip install polars") from None
        raise MissingExtra("results", needed_for) from None


# Tables in text files, as columns: numbers where all entries are numbers, NaN where one is missing, else texts.


_MISSING = ("", "NA", "NaN", "nan")


def read_csv_columns(
    content: bytes, wanted: tuple[str, ...], of: str, *, texts: tuple[str, ...] = ()
) -> dict[str, NDArray[Any]]:
    """The wanted columns of a CSV file with a header, of numbers, but for `texts`; `of` is what errors call it."""
    table: list[list[str]] | None = None
    with suppress(UnicodeDecodeError, csv.Error):  # which hold the file
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        header = next(rows, [])
        table = [row for row in rows if row]
    if table is None:
        raise BandannaError(f"{of} is not a CSV file in UTF-8")
    for name in wanted:
        if name not in header:
            raise BandannaError(f"{of} has no column {name!r}: {suggest_column(name, header)}is it the right file?")
    places = [header.index(name) for name in wanted]
    short = next((number for number, row in enumerate(table, start=2) if len(row) < len(header)), None)
    if short is not None or not table:
        where = "it has no rows" if short is None else f"line {short} is too short"
        raise BandannaError(f"{of} is cut off: {where}")
    columns = {name: [row[place] for row in table] for name, place in zip(wanted, places, strict=True)}
    return {
        name: _texts(entries) if name in texts else _numbers(entries, f"column {name!r} of {of}")
        for name, entries in columns.items()
    }


def _texts(entries: list[str]) -> NDArray[Any]:
    """As they are, unless all are numbers."""
    with suppress(BandannaError):
        return _numbers(entries, "")
    return np.array(entries, dtype=object)


def _numbers(entries: list[str], of: str) -> NDArray[Any]:
    numbers = np.full(len(entries), np.nan)
    for place, entry in enumerate(entries):
        fine = entry in _MISSING
        with suppress(ValueError):  # whose text shows the entry
            numbers[place] = np.nan if fine else float(entry)
            fine = True
        if not fine:
            raise BandannaError(f"{of} has no number in line {place + 2}")
    return numbers


def read_jsonl_rows(content: bytes, of: str) -> list[dict[str, Any]]:
    """A JSON object for each line."""
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError:  # which holds the line
            raise_without_context(BandannaError(f"{of} is not a file of JSON lines: line {number} is none"))
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise BandannaError(f"{of} has lines that are no objects, or none")
    return rows
