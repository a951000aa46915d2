"""Logs in files: Parquet by pyarrow, CSV (commas, semicolons, tabs) by the standard library; told by first bytes."""

from __future__ import annotations

import csv
import importlib
import io
import re
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.errors import BandannaError, MissingExtra

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?|[nN]a[nN]|-?inf", re.ASCII)


def read(path: str | PathLike[str]) -> Any:
    """An Arrow table, or a dict of columns, whose cells are whole numbers, numbers, texts or None, each by itself."""
    file = require.path("path", path)
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
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=_between(text), strict=True)
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
    return {title: list(map(cell_of, column)) for title, column in zip(header, columns, strict=True)}


def _between(text: str) -> str:
    """What separates values: a comma, or what spreadsheets write elsewhere; by the names of columns alone."""
    header = next(filter(None, map(str.strip, text.splitlines())), "")
    return next((each for each in ",;\t" if each in header), ",")


def cell_of(text: str) -> Any:
    """A whole number, a number, a text, or None where there is none; a text such as 007 or 1_000 is no number.

    By itself: what stands in the cells of other people must not decide what somebody's cell means.
    """
    bare = text.strip()
    for kind, form in ((int, _WHOLE), (float, _NUMBER)):
        if form.fullmatch(bare):
            return kind(bare)
    return text if bare else None
