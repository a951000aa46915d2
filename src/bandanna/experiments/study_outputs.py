"""What a study leaves: its rows as JSON, CSV and Parquet, and a figure."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.errors import MissingExtra
from bandanna.experiments.outputs import write_json
from bandanna.figures.axes import save_both
from bandanna.figures.rewards import plot_rewards
from bandanna.storage.whole import write_whole


def write(rows: Sequence[Mapping[str, Any]], out: str | PathLike[str], *, title: str) -> list[str]:
    """rows.json, rows.csv, rows.parquet, figure.png and figure.svg; a note for each thing that an extra would bring."""
    folder, notes = require.path("out", out, folder=True), []
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{name: row.get(name) for name in columns} for row in rows]
    write_json(folder / "rows.json", {"title": title, "rows": list(whole)})
    write_whole(folder / "rows.csv", lambda beside: beside.write_text(_csv(columns, whole), encoding="utf-8"))
    try:
        _parquet(whole, folder / "rows.parquet")
    except MissingExtra as missing:
        notes.append(str(missing))
    try:
        save_both(plot_rewards(whole, title=title), folder / "figure")
    except MissingExtra as missing:
        notes.append(str(missing))
    return notes


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _parquet(rows: Sequence[Mapping[str, Any]], path: Any) -> None:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("results", "a study as Parquet") from None
    write_whole(path, lambda beside: parquet.write_table(arrow.Table.from_pylist(list(rows)), str(beside)))
