"""Columns of data frames, CSV and Parquet files as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.features.columns import RawColumn
from bandanna.errors import BandannaError, InvalidStatistic, ValueSummary, suggest_column

_ALLOWED = (
    "one record (a dictionary), a list of them, a pandas or polars frame, an Arrow table, a structured array, "
    "or an array (rows, columns)"
)


@dataclass(frozen=True, kw_only=True)
class RecordTable:
    """So many rows of the columns that were asked for; `single`: it was one record."""

    rows: int
    columns: Mapping[str, RawColumn]
    single: bool = False


def read_records(records: Any, wanted: Sequence[str], names: Sequence[str] | None = None) -> RecordTable:
    """The wanted columns of records; `names` are those of the columns of an array, else they are the wanted ones."""
    try:
        return _table(records, wanted, names)
    except BandannaError:
        raise
    except Exception as error:  # a foreign object may raise anything, and show what it holds
        kind = type(error).__name__
    raise InvalidStatistic("records", ValueSummary(f"{ValueSummary.of(records)} ({kind})"), _ALLOWED)


def _table(records: Any, wanted: Sequence[str], names: Sequence[str] | None) -> RecordTable:
    if isinstance(records, Mapping):
        return _mapping(records, wanted)
    library = _find_library(records)
    if library is not None:
        return _frame(records, library, wanted)
    if isinstance(records, np.ma.MaskedArray):
        raise InvalidStatistic(
            "records", ValueSummary("masked array"), "an array without a mask: NaN or None is missing"
        )
    if isinstance(records, np.ndarray | np.void) and records.dtype.names is not None:
        return _structured(records, wanted)
    if isinstance(records, np.ndarray):
        return _array(records, wanted, names)
    return _listed(records, wanted)


def _find_library(records: Any) -> str | None:
    """Whose frame or series it is."""
    homes = [kind.__module__.partition(".")[0] for kind in type(records).__mro__]
    return next((home for home in homes if home in ("pandas", "polars", "pyarrow")), None)


def _mapping(records: Mapping[str, Any], wanted: Sequence[str]) -> RecordTable:
    """One record, or columns by name."""
    found = {name: records[name] for name in wanted if name in records}
    several = {name: _column(value) for name, value in found.items() if _is_column(value)}
    if len(found) < len(wanted) and any(map(_is_column, records.values())):
        _check_columns_exist(list(records), wanted)
    if not several:
        return RecordTable(rows=1, columns={name: [found.get(name)] for name in wanted}, single=True)
    lengths = {name: len(column) for name, column in several.items()}
    if len(several) < len(wanted) or len(set(lengths.values())) > 1:
        given = {name: lengths.get(name, "no list") for name in wanted}
        raise InvalidStatistic(
            "records", ValueSummary(f"columns of the lengths {given}"), "lists of one length for all columns"
        )
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
        raise InvalidStatistic("records", records, _ALLOWED)
    _check_columns_exist(list(names), wanted)
    return RecordTable(rows=len(records), columns={name: _series(records[name], library) for name in wanted})


def _series(series: Any, library: str) -> RawColumn:
    """A column of a frame: numbers with NaN, or a list."""
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
    rows = validation.list_entries("records", records, _ALLOWED)
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            if _find_library(row) != "pandas" or getattr(row, "ndim", 0) != 1:
                raise InvalidStatistic(f"records[{place}]", row, "a dictionary, as every record")
            rows[place] = row.to_dict()
    return RecordTable(rows=len(rows), columns={name: [row.get(name) for row in rows] for name in wanted})


def _check_columns_exist(given: Sequence[Any], wanted: Sequence[str]) -> None:
    for name in wanted:
        if given.count(name) != 1:
            near = suggest_column(name, given)
            what = ValueSummary("there twice" if given.count(name) else "not there")
            raise InvalidStatistic(f"records[{name!r}]", what, f"{near}a table has every column of the map, once")


def _to_plain_array(values: Any) -> RawColumn:
    """An array of numbers as it is, of anything else as a list."""
    if values.dtype.kind in "biuf":
        return values  # type: ignore[no-any-return]
    return values.tolist() if values.ndim == 1 else list(values)
