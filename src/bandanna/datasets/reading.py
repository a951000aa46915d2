"""Tables in text files, as columns: numbers where all entries are numbers, NaN where one is missing, else texts."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.spelling import similar_column
from bandanna.errors import BandannaError, raise_alone

_MISSING = ("", "NA", "NaN", "nan")


def columns_of_csv(
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
            raise BandannaError(f"{of} has no column {name!r}: {similar_column(name, header)}is it the right file?")
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


def rows_of_jsonl(content: bytes, of: str) -> list[dict[str, Any]]:
    """A JSON object for each line."""
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError:  # which holds the line
            raise_alone(BandannaError(f"{of} is not a file of JSON lines: line {number} is none"))
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise BandannaError(f"{of} has lines that are no objects, or none")
    return rows
