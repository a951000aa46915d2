"""What a finished experiment leaves: results per curve, figures, and a summary that programs can read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from bandanna.errors import MissingExtra
from bandanna.experiments.drawing import against, axes_of, over_time
from bandanna.experiments.experiment import Curve, Experiment
from bandanna.experiments.table import columns
from bandanna.figures.axes import save_both
from bandanna.figures.panels import MOST
from bandanna.simulation.result import Result
from bandanna.storage.frames import write_csv, write_parquet
from bandanna.storage.whole import write_whole


def stem(experiment: Experiment, index: int) -> str:
    """Name of a curve's files: its number and a plain form of its label."""
    plain = re.sub(r"[^a-z0-9.]+", "-", experiment.curves[index].label.lower()).strip("-.")
    return f"{index + 1:02d}-{plain[:60]}".rstrip("-.")


def rows(experiment: Experiment, results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """One plain row per curve: what it was, what it promised, what it reached."""
    return [_row(curve, results[curve.label]) for curve in experiment.curves]


def _row(curve: Curve, result: Result) -> dict[str, Any]:
    summary = result.summary()
    guarantee = summary["guarantee"]
    return {
        "label": curve.label,
        "algorithm": curve.algorithm,
        "arguments": plain(dict(curve.arguments)),
        "varied": plain(curve.varied),
        "trust": guarantee["trust"],
        "epsilon": guarantee["epsilon"],
        "delta": None if guarantee["epsilon"] is None else guarantee["delta"],
        "bits_per_user": result.bits_per_user,
        **{name: value for name, value in summary.items() if name != "name"},
    }


def write(experiment: Experiment, results: Mapping[str, Result], out: str | PathLike[str]) -> list[str]:
    """Results per curve, one table of all, figures, summary.json; returns notes of what a missing extra prevented."""
    directory = Path(out)
    notes: list[str] = []
    (directory / "results").mkdir(parents=True, exist_ok=True)
    for index, curve in enumerate(experiment.curves):
        results[curve.label].to_csv(directory / "results" / f"{stem(experiment, index)}.csv")
        with _optional(notes):
            results[curve.label].to_parquet(directory / "results" / f"{stem(experiment, index)}.parquet")
    tidy = columns(experiment, results)
    write_csv(directory / "table.csv", tidy)
    with _optional(notes):
        write_parquet(directory / "table.parquet", tidy, "table.parquet")
    with _optional(notes):
        if len(experiment.points) <= MOST:
            save_both(over_time(experiment, results), directory / "figure")
        for key in axes_of(experiment):
            save_both(against(experiment, results, key), directory / f"figure-{key}")
    write_json(directory / "summary.json", {"title": experiment.title, "rows": rows(experiment, results)})
    return notes


@contextmanager
def _optional(notes: list[str]) -> Iterator[None]:
    """What an extra would have brought is noted, once."""
    try:
        yield
    except MissingExtra as missing:
        if not any(f"[{missing.extra}]" in note for note in notes):
            notes.append(str(missing))


def plain(value: Any) -> Any:
    """JSON values; infinities, which JSON does not have, as words."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Strict JSON, whole or not at all."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
