"""Statlog Shuttle: in which of seven states a space shuttle's radiators are. Sensors, no people."""

from __future__ import annotations

import importlib
import os
import tempfile
import warnings
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.datasets.finding import content_of
from bandanna.datasets.reading import columns_of_csv
from bandanna.errors import BandannaError, MissingExtra
from bandanna.features.map import Map
from bandanna.features.parts import Ball, Range

_FILE = "mlbench/data/Shuttle.rda"
_LIBRARIES = ("/usr/lib/R/site-library", "/usr/local/lib/R/site-library", "/usr/lib/R/library")  # Debian's, and R's own
_COLUMNS = tuple(f"V{i}" for i in range(1, 10))
_ARMS = ("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open")

FEATURES = Map(Range(V1=(43, 60), V2=(-50, 50), V7=(0, 40), V9=(0, 40)), Ball(scale=1.35))

CARD = Card(
    name="shuttle",
    title="Statlog Shuttle: which of seven states the radiators are in",
    kind="table",
    rows=58_000,
    arms=_ARMS,
    reward="1 for the right state, else 0",
    propensities="none: the right state is known for every row",
    features="four of nine sensors",
    public="ranges of sensors, round numbers around where the states differ. They were chosen by us with the data at "
    "hand, which costs nobody any privacy here: these are sensors. With people's records it would",
    source="Catlett, University of Sydney; NASA; Statlog (UCI Machine Learning Repository); R package mlbench",
    package="Debian's r-cran-mlbench, mlbench/data/Shuttle.rda, read with rdata",
    package_licence="GPL-2",
    data_licence="not stated in the package",
    get="apt install r-cran-mlbench and pip install 'bandanna[data]'; or apt download r-cran-mlbench, and path= of the "
    ".deb; or path= of a CSV file with V1 to V9 and Class",
    people=False,
)


def load(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """From R's library where mlbench is installed, or from the package, the .rda or a CSV file at `path`."""
    columns = _read(path)
    labels = np.asarray(columns.pop("Class"), dtype=str)
    places = {name: place for place, name in enumerate(_ARMS)}
    unknown = next((row for row, label in enumerate(labels.tolist()) if label not in places), None)
    if unknown is not None:
        raise BandannaError(f"the Shuttle data have a class in row {unknown} that is none of {', '.join(_ARMS)}")
    right = np.array([places[label] for label in labels.tolist()])
    return DataSet(
        card=CARD,
        records={name: np.asarray(columns[name], dtype=float) for name in _COLUMNS},
        features=FEATURES if features is None else features,
        arms=_ARMS,
        rewards=np.eye(len(_ARMS))[right],
    )


def where() -> Path | None:
    """In R's libraries."""
    folders = [each for each in os.environ.get("R_LIBS", "").split(os.pathsep) if each]
    files = (Path(folder, *_FILE.split("/")) for folder in (*folders, *_LIBRARIES))
    return next((file for file in files if file.is_file()), None)


def _read(path: str | PathLike[str] | None) -> dict[str, Any]:
    found = where() if path is None else None
    if path is None and found is None:
        raise BandannaError(f"Shuttle is not installed: {CARD.get}")
    content = content_of(path, _FILE) if path is not None else found.read_bytes()  # type: ignore[union-attr]
    if path is not None and Path(path).suffix == ".csv":
        return dict(columns_of_csv(content, (*_COLUMNS, "Class"), "Shuttle", texts=("Class",)))
    return _of_rda(content)


def _of_rda(content: bytes) -> dict[str, Any]:
    try:
        rdata = importlib.import_module("rdata")
    except ImportError:
        raise MissingExtra("data", "Shuttle.rda (by rdata)") from None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of another's reader
        file = Path(folder, "Shuttle.rda")
        file.write_bytes(content)
        with suppress(Exception):  # whatever a reader of foreign files raises, and shows of them
            frame = rdata.read_rda(file)["Shuttle"]
            numbers = {name: np.asarray(frame[name], dtype=float) for name in _COLUMNS}
            return {**numbers, "Class": np.asarray(frame["Class"])}
    raise BandannaError("not the file Shuttle.rda of mlbench")
