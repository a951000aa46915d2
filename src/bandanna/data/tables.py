"""Tables: reading files and frames of any library, and writing frames and files.

`ColumnTable` reads logs, `read_records` reads records for feature maps. Errors name column and row, and show no value.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidStatistic,
    MissingExtra,
    ValueSummary,
    raise_without_context,
    suggest_column,
)
from bandanna.storage.files import replace_file
from bandanna.types import Bools, Floats

RawColumn = NDArray[Any] | Sequence[Any]  # an array of numbers, NaN where one is missing; or a list of anything

# Results as frames and files

KINDS = ("pandas", "polars", "arrow")

Columns = Mapping[str, Sequence[Any]]


def make_frame(columns: Columns, kind: str, needed_for: str) -> Any:
    """Return columns as a pandas or polars `DataFrame` or a pyarrow `Table`."""
    validation.one_of("kind", kind, KINDS)
    if kind == "arrow":
        return _import_module("pyarrow", needed_for).table(_to_plain_columns(columns))
    return _import_module(kind, needed_for).DataFrame(_to_plain_columns(columns))


def write_csv(path: str | PathLike[str], columns: Columns) -> None:
    """Write names and rows; None is written as nothing, infinity as `inf`."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*_to_plain_columns(columns).values(), strict=True))
    replace_file(path, lambda beside: beside.write_text(text.getvalue(), encoding="utf-8", newline="\n"))


def write_parquet(path: str | PathLike[str], columns: Columns, needed_for: str) -> None:
    """Write columns with their types as Parquet; needs the extra `results`."""
    parquet = _import_module("pyarrow.parquet", needed_for)
    table = make_frame(columns, "arrow", needed_for)
    replace_file(path, lambda beside: parquet.write_table(table, str(beside)))


def _to_plain_columns(columns: Columns) -> dict[str, list[Any]]:
    """Give every column one type: integers beside floats become floats, other mixtures texts."""
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
    try:
        return importlib.import_module(name)
    except ImportError:
        if name == "polars":
            raise BandannaError(f"{needed_for} needs another package: pip install polars") from None
        raise MissingExtra("results", needed_for) from None


# Files of data sets

_MISSING = ("", "NA", "NaN", "nan")


def read_csv_columns(
    content: bytes, wanted: tuple[str, ...], file: str, *, texts: tuple[str, ...] = ()
) -> dict[str, NDArray[Any]]:
    """Read the wanted columns of a CSV file with a header.

    A column is numbers, NaN where one is missing; a column in `texts` stays as texts unless all entries are numbers.
    `file` names the file in errors.
    """
    table: list[list[str]] | None = None
    with suppress(UnicodeDecodeError, csv.Error):  # which hold the file
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        header = next(rows, [])
        table = [row for row in rows if row]
    if table is None:
        raise BandannaError(f"{file} is not a CSV file in UTF-8")
    for name in wanted:
        if name not in header:
            hint = suggest_column(name, header) or "Check that it is the right file."
            raise BandannaError(f"{file} has no column {name!r}. {hint}")
    places = [header.index(name) for name in wanted]
    short = next((number for number, row in enumerate(table, start=2) if len(row) < len(header)), None)
    if short is not None or not table:
        where = "it has no rows" if short is None else f"line {short} is too short"
        raise BandannaError(f"{file} is cut off: {where}")
    columns = {name: [row[place] for row in table] for name, place in zip(wanted, places, strict=True)}
    return {
        name: _texts(entries) if name in texts else _numbers(entries, f"column {name!r} of {file}")
        for name, entries in columns.items()
    }


def _texts(entries: list[str]) -> NDArray[Any]:
    with suppress(BandannaError):
        return _numbers(entries, "")
    return np.array(entries, dtype=object)


def _numbers(entries: list[str], file: str) -> NDArray[Any]:
    numbers = np.full(len(entries), np.nan)
    for place, entry in enumerate(entries):
        fine = entry in _MISSING
        with suppress(ValueError):  # whose text shows the entry
            numbers[place] = np.nan if fine else float(entry)
            fine = True
        if not fine:
            raise BandannaError(f"{file} has no number in line {place + 2}")
    return numbers


def read_jsonl_rows(content: bytes, file: str) -> list[dict[str, Any]]:
    """Read JSON lines, an object in each."""
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError:  # which holds the line
            raise_without_context(BandannaError(f"{file} is not a file of JSON lines: line {number} is none"))
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise BandannaError(f"{file} has lines that are no objects, or none")
    return rows


# Files of logs

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?|[nN]a[nN]|-?inf", re.ASCII)


def read_table(path: str | PathLike[str]) -> Any:
    """Read a Parquet or CSV file, told apart by the first bytes, as an Arrow table or a dict of columns.

    CSV may have commas, semicolons or tabs.
    """
    file = validation.path("path", path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
    if content.startswith(b"PAR1"):
        return _parquet(content, str(file))
    if file.suffix.lower() == ".parquet":
        raise BandannaError(f"{file} is not a Parquet file: it does not begin as one")
    try:
        return _csv(content.decode("utf-8-sig"), str(file))
    except UnicodeDecodeError as error:  # which holds the whole file
        wrong = f"its byte {error.start:,} is no letter of that; a spreadsheet saves it as CSV UTF-8"
    raise BandannaError(f"{file} is neither a Parquet file nor a CSV file in UTF-8: {wrong}")


def _parquet(content: bytes, name: str) -> Any:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("results", "Log.read of a Parquet file") from None
    try:
        return parquet.ParquetFile(arrow.BufferReader(content)).read()
    except (arrow.ArrowException, OSError) as error:
        kind = type(error).__name__
    raise BandannaError(f"{name} is not a whole Parquet file ({kind})")


def _csv(text: str, name: str) -> dict[str, list[Any]]:
    try:
        titles = next(filter(None, map(str.strip, text.splitlines())), "")
        separator = next((each for each in ",;\t" if each in titles), ",")
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        rows = [(lines.line_num, row) for row in lines if row]
    except csv.Error as error:
        raise BandannaError(f"{name} is not a CSV file: {error}") from error
    if len(rows) < 2:
        raise BandannaError(f"{name} has no rows: a CSV file begins with a line of column names")
    (_, header), *body = rows
    if len(set(header)) != len(header):
        second = next(place for place, each in enumerate(header) if each in header[:place])
        first = header.index(header[second])
        raise BandannaError(f"{name} has the same name for the columns {first + 1} and {second + 1}, in its first line")
    for number, (line, row) in enumerate(body):
        if len(row) != len(header):
            found = f"{name}, line {line}, row {number}, has {len(row)} values"
            raise BandannaError(f"{found}, and the line of column names has {len(header)}. Both must be equal.")
    columns = zip(*(row for _, row in body), strict=True)
    return {title: list(map(parse_cell, column)) for title, column in zip(header, columns, strict=True)}


def parse_cell(text: str) -> Any:
    """Read a cell as an integer, a float or a text; None if it is empty. 007 and 1_000 are texts.

    A cell is read by itself, so that one user's cell does not change the meaning of another's.
    """
    bare = text.strip()
    for kind, form in ((int, _WHOLE), (float, _NUMBER)):
        if form.fullmatch(bare):
            return kind(bare)
    return text if bare else None


# Columns of logs

_TABLE = "a pandas or polars DataFrame, an Arrow table, a dict of columns or a NumPy record array"
_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_WORDS = {**_TRUTH, "1": 1.0, "0": 0.0}


class ColumnTable:
    """A table: a pandas or polars frame, an Arrow table, a dict or a NumPy record array."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.names = frame, _names(frame)
        if not self.names:
            raise InvalidArgument("frame", ValueSummary("a table without columns"), "a table with columns")
        self._first = next((name for name in self.names if self.names.count(name) == 1), self.names[0])
        self.rows = len(self.of("frame", self._first, counted=False))
        if not self.rows:
            raise InvalidArgument("frame", ValueSummary("a table without rows"), "a table with at least one row")

    def has(self, name: Any) -> bool:
        return isinstance(name, str | int | tuple) and name in self.names

    def of(self, argument: str, name: Any, *, counted: bool = True) -> NDArray[Any]:
        """Return the column of that name, (n,); an error suggests the nearest name."""
        if not self.has(name):
            hint = suggest_column(name, self.names)
            raise InvalidArgument(argument, name, f"one of the {len(self.names)} columns of the table", hint)
        if self.names.count(name) > 1:
            raise InvalidArgument(argument, name, "the name of one column", "The table has it several times.")
        column = self._array(name)
        if counted and len(column) != self.rows:
            allowed = f"a column of {self.rows} rows, as other columns"
            raise InvalidArgument(f"{argument} {name!r}", ValueSummary(f"{len(column)} rows"), allowed)
        return column

    def numbers(self, argument: str, name: Any, hint: str = "Leave out rows without it.") -> Floats:
        """Return a column as finite floats; true and yes are 1, false and no are 0."""
        column = self.of(argument, name)
        where = f"column {name!r}"
        if column.dtype.kind not in "biuf":
            column = np.array([_number(entry) for entry in column.tolist()], dtype=object)
            if None in column:
                row = column.tolist().index(None)
                entry = self.of(argument, name).tolist()[row]
                raise InvalidStatistic(f"{where}, row {row}", entry, "a finite number", hint)
        with np.errstate(over="ignore"):  # a long double beyond the floats is infinite
            numbers = np.asarray(column, dtype=float)
        if not (fine := np.isfinite(numbers)).all():
            row = int(np.argmin(fine))
            raise InvalidStatistic(f"{where}, row {row}", float(numbers[row]), "a finite number", hint)
        return numbers

    def flags(self, argument: str, name: Any) -> Bools:
        """Return a column of 0 and 1, or yes and no, as booleans."""
        column, flags = self.of(argument, name), np.zeros(self.rows, dtype=bool)
        for row, entry in enumerate(column.tolist()):
            if isinstance(entry, bool) or (isinstance(entry, Real) and entry in (0, 1)):
                flags[row] = bool(entry)
            elif isinstance(entry, str) and entry.strip().lower() in _WORDS:
                flags[row] = bool(_WORDS[entry.strip().lower()])
            else:
                raise InvalidStatistic(f"column {name!r}, row {row}", entry, "True or False, 1 or 0, yes or no")
        return flags

    def labels(self, argument: str, name: Any) -> list[Any]:
        """Return a column of texts, integers or booleans; none may be missing."""
        entries: list[Any] = self.of(argument, name).tolist()
        for row, entry in enumerate(entries):
            if isinstance(entry, np.generic):
                entries[row] = entry = entry.item()
            if isinstance(entry, float) and entry.is_integer():
                entries[row] = int(entry)  # a column of whole numbers that another reader took for floats
            elif not isinstance(entry, str | int):
                raise InvalidStatistic(f"column {name!r}, row {row}", entry, "a text or a whole number")
        return entries

    def _array(self, name: Any) -> NDArray[Any]:
        try:
            column = self.frame.column(name) if hasattr(self.frame, "column_names") else self.frame[name]
            array = column if isinstance(column, np.ndarray) else _values(column)
        except BandannaError:
            raise
        except Exception:  # a foreign object may raise anything, and show what it holds
            array = None
        if array is None:
            raise InvalidStatistic("frame", self.frame, _TABLE)
        if isinstance(array, np.ma.MaskedArray) or array.ndim != 1:
            allowed = "an array with a number or name for each row, without a mask"
            raise InvalidStatistic(f"column {name!r}", array, allowed)
        return array


def _names(frame: Any) -> list[Any]:
    with suppress(Exception):  # a foreign object may raise anything, and show what it holds
        if isinstance(frame, Mapping):
            return list(frame)
        if isinstance(frame, np.ndarray):
            return list(frame.dtype.names or ()) if frame.ndim == 1 else []
        return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    raise InvalidStatistic("frame", frame, _TABLE)


def _values(column: Any) -> NDArray[Any]:
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        raise InvalidStatistic("frame", column, _TABLE)
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy())
    entries = list(column)
    kinds = set(map(type, entries))
    plain = bool(kinds) and kinds <= {int, float, bool} and kinds != {int, bool}
    return np.asarray(entries) if plain and _keeps_integers(entries, kinds) else _objects(entries)


def _keeps_integers(entries: list[Any], kinds: set[type]) -> bool:
    """Return whether NumPy keeps integers exact: a float, or an integer beyond 64 bits, makes floats of all."""
    most = validation.LARGEST_EXACT_INTEGER if kinds != {int} else 2**63 - 1
    return int not in kinds or all(type(entry) is float or abs(entry) <= most for entry in entries)


def _objects(entries: list[Any]) -> NDArray[Any]:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def _number(entry: Any) -> float | None:
    """Return the finite number that a cell holds, else None."""
    if isinstance(entry, str):
        return _TRUTH.get(entry.strip().lower())
    if isinstance(entry, Real | Decimal) and not isinstance(entry, np.timedelta64):
        try:
            number = float(entry)
        except Exception:  # too long for a float, or a foreign number
            number = math.nan
        if math.isfinite(number):
            return number
    return None


def parse_propensity(text: str) -> Any:
    """Read a propensity from the command line: 1/3, A=0.5,B=0.25,... by arm, or a column's name."""
    pairs = [each.rpartition("=") for each in text.split(",")]
    if all(name and equals for name, equals, _ in pairs):
        return {parse_cell(name): _parse_design_number(chance) for name, _, chance in pairs}
    return _parse_design_number(text)


def _parse_design_number(text: str) -> Any:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        return text


# Records for maps of features

_RECORDS = (
    "one record (a dictionary), a list of them, a pandas or polars frame, an Arrow table, a structured array, "
    "or an array (rows, columns)"
)


@dataclass(frozen=True, kw_only=True)
class RecordTable:
    """The wanted columns of some records; `single` if it was one record."""

    rows: int
    columns: Mapping[str, RawColumn]
    single: bool = False


def read_records(records: Any, wanted: Sequence[str], names: Sequence[str] | None = None) -> RecordTable:
    """Read the wanted columns of records; `names` are the column names of a plain array."""
    try:
        return _table(records, wanted, names)
    except BandannaError:
        raise
    except Exception as error:  # a foreign object may raise anything, and show what it holds
        kind = type(error).__name__
    raise InvalidStatistic("records", ValueSummary(f"{ValueSummary.of(records)} ({kind})"), _RECORDS)


def _table(records: Any, wanted: Sequence[str], names: Sequence[str] | None) -> RecordTable:
    if isinstance(records, Mapping):
        return _mapping(records, wanted)
    library = _find_library(records)
    if library is not None:
        return _frame(records, library, wanted)
    if isinstance(records, np.ma.MaskedArray):
        raise InvalidStatistic(
            "records", ValueSummary("masked array"), "an array without a mask", "NaN or None means missing."
        )
    if isinstance(records, np.ndarray | np.void) and records.dtype.names is not None:
        return _structured(records, wanted)
    if isinstance(records, np.ndarray):
        return _array(records, wanted, names)
    return _listed(records, wanted)


def _find_library(records: Any) -> str | None:
    homes = [kind.__module__.partition(".")[0] for kind in type(records).__mro__]
    return next((home for home in homes if home in ("pandas", "polars", "pyarrow")), None)


def _mapping(records: Mapping[str, Any], wanted: Sequence[str]) -> RecordTable:
    found = {name: records[name] for name in wanted if name in records}
    several = {name: _column(value) for name, value in found.items() if _is_column(value)}
    if len(found) < len(wanted) and any(map(_is_column, records.values())):
        _check_columns_exist(list(records), wanted)
    if not several:
        return RecordTable(rows=1, columns={name: [found.get(name)] for name in wanted}, single=True)
    lengths = {name: len(column) for name, column in several.items()}
    if len(several) < len(wanted) or len(set(lengths.values())) > 1:
        given = {name: lengths.get(name, "no list") for name in wanted}
        raise InvalidStatistic("records", ValueSummary(f"columns of the lengths {given}"), "columns of one length")
    return RecordTable(rows=next(iter(lengths.values())), columns=several)


def _is_column(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1) or _is_series(value)


def _is_series(value: Any) -> bool:
    return _find_library(value) is not None and hasattr(value, "to_numpy") and hasattr(value, "__len__")


def _column(value: Any) -> RawColumn:
    if isinstance(value, np.ndarray):
        return _to_plain_array(value)
    library = _find_library(value)
    return value if library is None else _series(value, library)


def _frame(records: Any, library: str, wanted: Sequence[str]) -> RecordTable:
    if library == "pandas" and getattr(records, "ndim", 0) == 1:
        return _mapping(dict(zip(records.index, records.tolist(), strict=True)), wanted)  # a row
    names = getattr(records, "column_names", None) if library == "pyarrow" else getattr(records, "columns", None)
    if names is None or type(records).__name__ == "LazyFrame" or not hasattr(records, "__len__"):
        raise InvalidStatistic("records", records, _RECORDS)
    _check_columns_exist(list(names), wanted)
    return RecordTable(rows=len(records), columns={name: _series(records[name], library) for name in wanted})


def _series(series: Any, library: str) -> RawColumn:
    if library == "pandas":
        kind = getattr(series.dtype, "kind", "O")
        return series.to_numpy(dtype=float, na_value=np.nan) if kind in "biuf" else series.tolist()  # type: ignore[no-any-return]
    if library == "polars":
        if series.dtype.is_numeric():
            return _to_plain_array(series.cast(float, strict=False).to_numpy())
        return series.to_list()  # type: ignore[no-any-return]
    return series.to_pylist()  # type: ignore[no-any-return]


def _structured(records: Any, wanted: Sequence[str]) -> RecordTable:
    _check_columns_exist(list(records.dtype.names), wanted)
    if records.ndim > 1:
        raise InvalidStatistic("records", ValueSummary(f"structured array of shape {records.shape}"), "shape (rows,)")
    columns = {name: _to_plain_array(np.atleast_1d(records[name])) for name in wanted}
    return RecordTable(rows=records.size, columns=columns, single=records.ndim == 0)


def _array(records: Any, wanted: Sequence[str], names: Sequence[str] | None) -> RecordTable:
    given = list(wanted) if names is None else validation.list_entries("names", names, "the names of the columns")
    if records.ndim != 2 or records.shape[1] != len(given):
        allowed = f"shape (rows, {len(given)}): {', '.join(map(str, given[:8]))}" + ", ..." * (len(given) > 8)
        raise InvalidStatistic("records", records, allowed)
    _check_columns_exist(given, wanted)
    return RecordTable(
        rows=len(records), columns={name: _to_plain_array(records[:, given.index(name)]) for name in wanted}
    )


def _listed(records: Any, wanted: Sequence[str]) -> RecordTable:
    rows = validation.list_entries("records", records, _RECORDS)
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            if _find_library(row) != "pandas" or getattr(row, "ndim", 0) != 1:
                raise InvalidStatistic(f"records[{place}]", row, "a dictionary")
            rows[place] = row.to_dict()
    return RecordTable(rows=len(rows), columns={name: [row.get(name) for row in rows] for name in wanted})


def _check_columns_exist(given: Sequence[Any], wanted: Sequence[str]) -> None:
    for name in wanted:
        if given.count(name) != 1:
            count = ValueSummary("two or more" if given.count(name) else "none")
            raise InvalidStatistic(f"records[{name!r}]", count, "one column of the table", suggest_column(name, given))


def _to_plain_array(values: Any) -> RawColumn:
    if values.dtype.kind in "biuf":
        return values  # type: ignore[no-any-return]
    return values.tolist() if values.ndim == 1 else list(values)
