"""Own files as data sets: a log with an arm, a reward and its probability in a row, or a table of right arms."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.spelling import did_you_mean
from bandanna.datasets.card import Card
from bandanna.datasets.catalogue import cards
from bandanna.datasets.dataset import DataSet
from bandanna.environments.table import Table
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.features.map import Map
from bandanna.logs.columns import Columns
from bandanna.logs.design import propensity_of
from bandanna.logs.log import Log
from bandanna.logs.reading import read as read_file


def read(
    path: str | PathLike[str],
    *,
    arm: str | None = None,
    reward: str | None = None,
    propensity: str | float | Mapping[Any, float] | None = None,
    label: str | None = None,
    features: Map | None = None,
    floor: float | None = None,
    success: Any = None,
) -> DataSet:
    """A CSV or Parquet file: `arm`, `reward` and `propensity` of a log, or the `label` of a table.

    features  a public map from its columns; without one users have no features, and arms alone are told apart
    propensity, floor, success   as of `bd.Log.from_frame`
    """
    file = require.path("path", path)
    if label is None and arm is None and not file.exists():
        near = did_you_mean(str(file), [card.name for card in cards()]).strip()
        raise BandannaError(f"{file} is neither a file nor a data set of `bandanna datasets`{near and f': {near}'}")
    if (label is None) == (arm is None):
        allowed = "--arm, --reward and --propensity for a log, or --label for a table of right arms"
        raise BandannaError(f"{file.name}: which columns? {allowed}")
    frame = read_file(file)
    if features is not None and not isinstance(features, Map):
        raise InvalidArgument("features", type(features).__name__, "a map: bd.features.Map(...)")
    if label is not None:
        return _table(file, frame, label, features)
    if reward is None or propensity is None:
        missing = "--reward" if reward is None else "--propensity"
        raise BandannaError(f"{file.name}: {missing} is missing: a log needs the arm, its reward and its probability")
    design = propensity_of(propensity) if isinstance(propensity, str) else propensity
    log = Log.from_frame(frame, arm=arm, reward=reward, propensity=design, floor=floor, success=success)
    return DataSet(
        card=_card(file, "log", len(log), tuple(map(str, log.names))),
        records=_records(frame),
        features=features,
        arms=tuple(map(str, log.names)),
        rewards=log.scaled_rewards(),
        given=log.arms,
        propensities=log.propensities,
        floor=log.floor,
    )


def _table(file: Path, frame: Any, label: str, features: Map | None) -> DataSet:
    names = np.asarray(list(map(str, Columns(frame).labels("label", label))))
    rewards: Floats = np.asarray(Table.from_labels(np.zeros((len(names), 1)), names).rewards)
    arms = tuple(np.unique(names).tolist())
    return DataSet(
        card=_card(file, "table", len(names), arms),
        records=_records(frame),
        features=features,
        arms=arms,
        rewards=rewards,
    )


def _records(frame: Any) -> dict[str, Any]:
    """Columns by name."""
    names = frame.column_names if hasattr(frame, "column_names") else list(frame)
    return {name: frame[name] for name in names}


def _card(file: Path, kind: str, rows: int, arms: tuple[str, ...]) -> Card:
    return Card(
        name=file.name,
        title=file.name,
        kind=kind,
        rows=rows,
        arms=arms,
        reward="1 for the right arm" if kind == "table" else "as the file says",
        propensities="none: the right arm is known" if kind == "table" else "as the file says",
        features="by the map that was given",
        public="what the map says",
        source="a file of your own",
        package="-",
        package_licence="-",
        data_licence="yours to know",
        get="-",
    )
