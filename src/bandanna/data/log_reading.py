"""Logs read from tables and files."""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, MissingExtra, ValueSummary, suggest_column
from bandanna.types import Bools, Floats

# Logs in files: Parquet by pyarrow, CSV (commas, semicolons, tabs) by the standard library; told by first bytes.


_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?|[nN]a[nN]|-?inf", re.ASCII)


def read_table(path: str | PathLike[str]) -> Any:
    """An Arrow table, or a dict of columns, whose cells are whole numbers, numbers, texts or None, each by itself."""
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
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=_find_separator(text), strict=True)
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
            wanted = f"a CSV file begins with a line of column names, here of {len(header)}"
            told = f"{name}, line {line}, row {number}: {len(row)} of {len(header)} values"
            raise BandannaError(f"{told}; {wanted}, and has a value for each in every other line")
    columns = zip(*(row for _, row in body), strict=True)
    return {title: list(map(parse_cell, column)) for title, column in zip(header, columns, strict=True)}


def _find_separator(text: str) -> str:
    """What separates values: a comma, or what spreadsheets write elsewhere; by the names of columns alone."""
    header = next(filter(None, map(str.strip, text.splitlines())), "")
    return next((each for each in ",;\t" if each in header), ",")


def parse_cell(text: str) -> Any:
    """A whole number, a number, a text, or None where there is none; a text such as 007 or 1_000 is no number.

    By itself: what stands in the cells of other people must not decide what somebody's cell means.
    """
    bare = text.strip()
    for kind, form in ((int, _WHOLE), (float, _NUMBER)):
        if form.fullmatch(bare):
            return kind(bare)
    return text if bare else None


# Columns of a table, whatever holds them: pandas, polars, Arrow, a dict of columns, a NumPy record array.
#
# Nothing of those libraries is imported: a table is known by what it can do. Errors name the column, the row and what
# is
# allowed there.


_TABLE = "a pandas or polars DataFrame, an Arrow table, a dict of columns or a NumPy record array"
_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_WORDS = {**_TRUTH, "1": 1.0, "0": 0.0}


class ColumnTable:
    """A table by its columns, all of one length."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.names = frame, _names(frame)
        if not self.names:
            raise InvalidArgument(
                "frame", ValueSummary("a table without columns"), "at least arm, reward and propensity"
            )
        self._first = next((name for name in self.names if self.names.count(name) == 1), self.names[0])
        self.rows = len(self.of("frame", self._first, counted=False))
        if not self.rows:
            raise InvalidArgument("frame", ValueSummary("a table without rows"), "at least one row")

    def has(self, name: Any) -> bool:
        """Whether there is a column of that name."""
        return isinstance(name, str | int | tuple) and name in self.names

    def of(self, argument: str, name: Any, *, counted: bool = True) -> NDArray[Any]:
        """The column of that name, (n,); a name that is not there is answered with the nearest."""
        if not self.has(name):
            hint = suggest_column(name, self.names)
            raise InvalidArgument(argument, name, f"{hint}one of the {len(self.names)} columns of the table")
        if self.names.count(name) > 1:
            raise InvalidArgument(argument, name, "a name that one column has: the table has it several times")
        column = self._array(name)
        if counted and len(column) != self.rows:
            allowed = f"{self.rows} rows, as other columns have"
            raise InvalidArgument(f"{argument} {name!r}", ValueSummary(f"{len(column)} rows"), allowed)
        return column

    def numbers(self, argument: str, name: Any, allowed: str | None = None) -> Floats:
        """A column of finite numbers, or of truth: yes and no are 1 and 0; what is missing is named by its row."""
        column = self.of(argument, name)
        where = f"column {name!r}"
        if column.dtype.kind not in "biuf":
            column = np.array([_number(entry) for entry in column.tolist()], dtype=object)
            if None in column:
                row = column.tolist().index(None)
                raise InvalidStatistic(
                    _name_row(where, row), self.of(argument, name).tolist()[row], allowed or _MISSING
                )
        with np.errstate(over="ignore"):  # a long double beyond the floats is infinite
            numbers = np.asarray(column, dtype=float)
        if not (fine := np.isfinite(numbers)).all():
            row = int(np.argmin(fine))
            raise InvalidStatistic(_name_row(where, row), float(numbers[row]), allowed or _MISSING)
        return numbers

    def flags(self, argument: str, name: Any) -> Bools:
        """A column of yes and no: booleans, 0 and 1, or those words."""
        column, flags = self.of(argument, name), np.zeros(self.rows, dtype=bool)
        for row, entry in enumerate(column.tolist()):
            if isinstance(entry, bool) or (isinstance(entry, Real) and entry in (0, 1)):
                flags[row] = bool(entry)
            elif isinstance(entry, str) and entry.strip().lower() in _WORDS:
                flags[row] = bool(_WORDS[entry.strip().lower()])
            else:
                raise InvalidStatistic(_name_row(f"column {name!r}", row), entry, "True or False, 1 or 0, yes or no")
        return flags

    def labels(self, argument: str, name: Any) -> list[Any]:
        """A column of names: texts, whole numbers or booleans, none of them missing."""
        entries: list[Any] = self.of(argument, name).tolist()
        for row, entry in enumerate(entries):
            if isinstance(entry, np.generic):
                entries[row] = entry = entry.item()
            if isinstance(entry, float) and entry.is_integer():
                entries[row] = int(entry)  # a column of whole numbers that another reader took for floats
            elif not isinstance(entry, str | int):
                raise InvalidStatistic(_name_row(f"column {name!r}", row), entry, "a name: a text or a whole number")
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
            allowed = "one number or name for each row, without a mask"
            raise InvalidStatistic(f"column {name!r}", array, allowed)
        return array


_MISSING = "a finite number: leave out rows where it is missing, or say what stands for it"


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
    """Whether NumPy keeps whole numbers as they are: a float among them, or one beyond 64 bits, makes floats of all."""
    most = validation.LARGEST_EXACT_INTEGER if kinds != {int} else 2**63 - 1
    return int not in kinds or all(type(entry) is float or abs(entry) <= most for entry in entries)


def _objects(entries: list[Any]) -> NDArray[Any]:
    """As they are: NumPy would make texts of names that are texts and numbers."""
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def _number(entry: Any) -> float | None:
    """None of what is no finite number."""
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


def _name_row(where: str, row: int) -> str:
    return f"{where}, row {row}"


# Propensities as a command line has them, in words.


def parse_propensity(text: str) -> Any:
    """A probability by design, such as 1/3; one for each arm, A=0.5,B=0.25,...; or the name of a column."""
    pairs = [each.rpartition("=") for each in text.split(",")]
    if all(name and equals for name, equals, _ in pairs):
        return {parse_cell(name): _parse_design_number(chance) for name, _, chance in pairs}
    return _parse_design_number(text)


def _parse_design_number(text: str) -> Any:
    """A number, or the text as it is."""
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        return text
