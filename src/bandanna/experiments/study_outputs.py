"""What a study leaves: its rows as JSON, CSV and Parquet, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from bandanna.core import require
from bandanna.errors import MissingExtra
from bandanna.experiments.outputs import write_json
from bandanna.figures.axes import save_both
from bandanna.figures.rewards import plot_rewards
from bandanna.storage import frames


def write(rows: Sequence[Mapping[str, Any]], out: str | PathLike[str], *, title: str) -> list[str]:
    """rows.json, rows.csv, rows.parquet, figure.png and figure.svg; a note for each thing that an extra would bring."""
    folder, notes = require.path("out", out, folder=True), []
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{name: row.get(name) for name in names} for row in rows]
    columns = {name: [row[name] for row in whole] for name in names}
    write_json(folder / "rows.json", {"title": title, "rows": list(whole)})
    frames.write_csv(folder / "rows.csv", columns)
    try:
        frames.write_parquet(folder / "rows.parquet", columns, "a study as Parquet")
    except MissingExtra as missing:
        notes.append(str(missing))
    try:
        save_both(plot_rewards(whole, title=title), folder / "figure")
    except MissingExtra as missing:
        notes.append(str(missing))
    return notes
