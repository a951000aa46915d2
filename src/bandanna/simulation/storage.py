"""Results as files, without loss: a table of seed, round and regret, and everything else as JSON beside it.

CSV keeps the JSON in its first line, `# {...}`; Parquet in the schema's metadata. A checksum over all of it tells a
damaged file from a whole one. Files are written beside their target and renamed: a killed run leaves no half file.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import BandannaError, MissingExtra
from bandanna.storage.whole import write_whole

FORMAT, VERSION = "bandanna result", 1
_COLUMNS = ("seed", "round", "regret")
_KEY = b"bandanna"  # of the schema's metadata

Table = tuple[list[int], list[int], list[float]]  # the columns
Made = TypeVar("Made")


def write_csv(path: str | PathLike[str], fields: Mapping[str, Any]) -> None:
    """One row per seed and checkpoint; floats are written so that they are read back exactly."""
    rows = zip(*_table(fields), strict=True)
    lines = [f"# {_header(fields)}", ",".join(_COLUMNS), *(f"{s},{t},{regret!r}" for s, t, regret in rows)]
    text = "\n".join(lines) + "\n"
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", newline="\n"))


def write_parquet(path: str | PathLike[str], fields: Mapping[str, Any]) -> None:
    """The same rows as columns; seeds beyond 64 bits are written as text."""
    arrow, parquet = _pyarrow("Result.to_parquet")
    seeds, rounds, regret = _table(fields)
    wide = max(seeds) >= 2**63 or min(seeds) < -(2**63)
    columns = {
        "seed": arrow.array(
            [str(seed) for seed in seeds] if wide else seeds, arrow.string() if wide else arrow.int64()
        ),
        "round": arrow.array(rounds, arrow.int64()),
        "regret": arrow.array(regret, arrow.float64()),
    }
    table = arrow.table(columns).replace_schema_metadata({_KEY: _header(fields).encode()})
    write_whole(path, lambda beside: parquet.write_table(table, str(beside)))


def read(path: str | PathLike[str], make: Callable[..., Made]) -> Made:
    """`make(**fields)` of a file of either kind, told apart by its first bytes."""
    file = require.path("path", path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
    try:
        header, table = _from_parquet(content) if content.startswith(b"PAR1") else _from_csv(content)
        return make(**_fields(header, table))
    except MissingExtra:
        raise
    except (BandannaError, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise BandannaError(f"{file} is not a whole file of Result.to_csv or Result.to_parquet: {error}") from error


def _from_csv(content: bytes) -> tuple[str, Table]:
    first, *lines = content.decode("utf-8").splitlines() or [""]
    if not first.startswith("# {"):
        raise ValueError("its first line is not `# {...}`")
    if not lines or tuple(lines[0].split(",")) != _COLUMNS:
        raise ValueError(f"its second line is not {','.join(_COLUMNS)}")
    rows = [line.split(",") for line in lines[1:]]
    for number, row in enumerate(rows, start=3):
        if len(row) != len(_COLUMNS):
            raise ValueError(f"line {number} has {len(row)} of {len(_COLUMNS)} values")
    return first[2:], ([int(row[0]) for row in rows], [int(row[1]) for row in rows], [float(row[2]) for row in rows])


def _from_parquet(content: bytes) -> tuple[str, Table]:
    arrow, parquet = _pyarrow("Result.load of a Parquet file")
    try:
        table = parquet.ParquetFile(arrow.BufferReader(content)).read()
    except arrow.ArrowException as error:
        raise ValueError(str(error)) from error
    metadata = table.schema.metadata or {}
    if _KEY not in metadata or tuple(table.column_names) != _COLUMNS:
        raise ValueError(f"it has the columns {', '.join(table.column_names)} and no metadata of this package")
    seeds, rounds, regret = (table.column(name).to_pylist() for name in _COLUMNS)
    return metadata[_KEY].decode(), ([int(seed) for seed in seeds], rounds, regret)


def _table(fields: Mapping[str, Any]) -> Table:
    """Rows seed by seed."""
    seeds, rounds = fields["seeds"], fields["checkpoints"].tolist()
    return [seed for seed in seeds for _ in rounds], rounds * len(seeds), fields["regret"].ravel().tolist()


def _header(fields: Mapping[str, Any]) -> str:
    """All but the regret, with the checksum."""
    plain = {name: _plain(value) for name, value in fields.items() if name != "regret"}
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, **plain}
    return json.dumps({**document, "sha256": _checksum(document, fields["regret"])}, allow_nan=False)


def _fields(header: str, table: Table) -> dict[str, Any]:
    """The fields that were written, or an error that says what is missing."""
    document = json.loads(header)
    checksum = document.pop("sha256", None)
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise ValueError(f"it is {document.get('format')!r}, version {document.get('version')!r}; known is {VERSION}")
    seeds, rounds, values = table
    marks = document["checkpoints"]
    if rounds != marks * len(document["seeds"]) or seeds != [s for s in document["seeds"] for _ in marks]:
        raise ValueError(
            f"its {len(rounds)} rows are not the {len(document['seeds'])} x {len(marks)} that it announces"
        )
    regret = np.asarray(values, dtype=np.float64).reshape(len(document["seeds"]), len(marks))
    if checksum != _checksum(document, regret):
        raise ValueError("its content was changed, the checksum differs")
    fields = {name: _lively(value) for name, value in document.items() if name not in ("format", "version")}
    return {**fields, "regret": regret, "guarantee": _guarantee(fields["guarantee"])}


def _checksum(document: Mapping[str, Any], regret: Floats) -> str:
    """Of the canonical JSON and the regret's bytes, every NaN the same."""
    numbers = np.where(np.isnan(regret), math.nan, regret).astype("<f8").tobytes()
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode() + numbers).hexdigest()


def _plain(value: Any) -> Any:
    """JSON for a field; a float that JSON does not know becomes {"float": "inf"}."""
    if isinstance(value, Guarantee):
        return _plain(asdict(value))
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _lively(value: Any) -> Any:
    """The inverse of `_plain`, sequences as tuples."""
    if isinstance(value, dict):
        return float(value["float"]) if set(value) == {"float"} else {name: _lively(e) for name, e in value.items()}
    return tuple(_lively(entry) for entry in value) if isinstance(value, list) else value


def _guarantee(plain: Mapping[str, Any]) -> Guarantee:
    shuffler = None if plain["shuffler"] is None else ApproxDP(**plain["shuffler"])
    return Guarantee(**{**plain, "shuffler": shuffler})


def _pyarrow(needed_for: str) -> tuple[Any, Any]:
    """pyarrow and its Parquet module, imported on first use."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("results", needed_for) from None
