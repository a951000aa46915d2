"""One tidy table of an experiment: a row for every curve and seed, every setting a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bandanna.experiments.experiment import Curve, Experiment
from bandanna.experiments.grid import short
from bandanna.simulation.result import Result

_LENGTH = 60  # of a text that says what a setting was


def columns(experiment: Experiment, results: Mapping[str, Result], *, rounds: str = "last") -> dict[str, list[Any]]:
    """Columns of all curves, one after the other; with `rounds="all"` a row for every checkpoint too.

    Those of `Result.to_frame`: `label` names the curve, epsilon and delta are those of what ran. Besides:

    series           the label without what was varied
    algorithm        its name, as `bandanna list` has it
    algorithm.KEY    settings as the file has them, among them `algorithm.epsilon`, which was asked for
    environment.KEY  arguments of the world; path
    """
    parts = [_of(curve, results[curve.label].columns(rounds=rounds)) for curve in experiment.curves]
    names = dict.fromkeys(name for part in parts for name in part)
    lengths = [len(part["label"]) for part in parts]
    return {
        name: [each for part, n in zip(parts, lengths, strict=True) for each in part.get(name, [None] * n)]
        for name in names
    }


def _of(curve: Curve, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    rows = len(table["label"])
    known = {"series": curve.series.called, "algorithm": curve.algorithm, "path": curve.point.path}
    known |= {f"algorithm.{key}": _plain(value) for key, value in curve.arguments.items()}
    known |= {f"environment.{key}": _plain(value) for key, value in curve.point.environment.items()}
    return {**table, **{name: [value] * rows for name, value in known.items()}}


def _plain(value: Any) -> Any:
    """Numbers and words as they are, tables and lists as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    text = short(value)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]} ..."
