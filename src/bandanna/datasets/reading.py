"""Tables in text files, as columns: numbers where all entries are numbers, NaN where one is missing, else texts."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.spelling import did_you_mean
from bandanna.errors import BandannaError

_MISSING = ("", "NA", "NaN", "nan")


def columns_of_csv(content: bytes, wanted: tuple[str, ...], of: str) -> dict[str, NDArray[Any]]:
    """The wanted columns of a CSV file with a header; `of` is what errors call it."""
    try:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        header = next(rows, [])
        table = [row for row in rows if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BandannaError(f"{of} is not a CSV file in UTF-8: {error}") from error
    for name in wanted:
        if name not in header:
            raise BandannaError(f"{of} has no column {name!r}: {did_you_mean(name, header)}is it the right file?")
    places = [header.index(name) for name in wanted]
    short = next((number for number, row in enumerate(table, start=2) if len(row) < len(header)), None)
    if short is not None or not table:
        where = "it has no rows" if short is None else f"line {short} is too short"
        raise BandannaError(f"{of} is cut off: {where}")
    return {name: _typed([row[place] for row in table]) for name, place in zip(wanted, places, strict=True)}


def _typed(entries: list[str]) -> NDArray[Any]:
    try:
        return np.array([np.nan if entry in _MISSING else float(entry) for entry in entries])
    except ValueError:
        return np.array(entries, dtype=object)


def rows_of_jsonl(content: bytes, of: str) -> list[dict[str, Any]]:
    """A JSON object for each line."""
    try:
        rows = [json.loads(line) for line in content.split(b"\n") if line.strip()]
    except ValueError as error:
        raise BandannaError(f"{of} is not a file of JSON lines: {error}") from error
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise BandannaError(f"{of} has lines that are no objects, or none")
    return rows
