"""Open Bandit Dataset, small: impressions of a fashion shop, with the probabilities of what was shown."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from bandanna.core import require
from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.datasets.finding import content_of, installed
from bandanna.datasets.reading import columns_of_csv
from bandanna.errors import BandannaError
from bandanna.features.map import Map
from bandanna.features.parts import Hash

_PACKAGE = "obp"
_USER = tuple(f"user_feature_{i}" for i in range(4))
_ITEMS = {"all": 80, "men": 34, "women": 46}

FEATURES = Map(Hash(*_USER, buckets=4, words=False))

CARD = Card(
    name="obd",
    title="Open Bandit Dataset (small): what a fashion shop has shown, and what was clicked",
    kind="log",
    rows=10_000,
    arms="80, 34 or 46 items (all, men, women)",
    reward="1 if the item was clicked, else 0: 38 to 69 clicks in 10,000, for evaluation rather than for learning",
    propensities="logged, of each impression; 1 by the number of items where the policy was random",
    features="four anonymous categories of the user, in 4 buckets each",
    public="nothing but the names of the columns: categories are hashed",
    source="Saito, Aihara, Matsutani and Narita, Open Bandit Dataset and Pipeline (NeurIPS 2021); ZOZO, Inc.",
    package="obp 0.5.7, obp/dataset/obd/{random,bts}/{all,men,women}/*.csv",
    package_licence="Apache-2.0",
    data_licence="not stated for the data in the package",
    get="pip download --no-deps --ignore-requires-python obp, and path= of the archive: the package itself wants an "
    "older Python, and need not be installed",
)


def load(
    path: str | PathLike[str] | None = None, features: Map | None = None, *, policy: str = "random", part: str = "men"
) -> DataSet:
    """From obp where it is installed (it is not imported), or from its archive at `path`.

    policy  "random" or "bts" (Bernoulli Thompson sampling): what has chosen
    part    "all", "men" or "women"
    """
    require.one_of("policy", policy, ("random", "bts"))
    items = _ITEMS[require.one_of("part", part, tuple(_ITEMS))]
    file = f"dataset/obd/{policy}/{part}/{part}.csv"
    found = installed(_PACKAGE, file) if path is None else None
    if path is None and found is None:
        raise BandannaError(f"the Open Bandit Dataset is not installed: {CARD.get}")
    content = content_of(path, file) if path is not None else found.read_bytes()  # type: ignore[union-attr]
    columns = columns_of_csv(content, ("item_id", "click", "propensity_score", *_USER), f"{part}.csv", texts=_USER)
    given, clicks, chances = (columns.pop(name) for name in ("item_id", "click", "propensity_score"))
    if not np.isin(given, range(items)).all() or not np.isin(clicks, (0, 1)).all():
        raise BandannaError(f"{part}.csv has other items than 0 to {items - 1}, or clicks other than 0 and 1")
    if not np.all((chances > 0) & (chances <= 1)):
        raise BandannaError(f"{part}.csv has propensities outside of (0, 1]")
    return DataSet(
        card=CARD,
        records=columns,
        features=FEATURES if features is None else features,
        arms=tuple(f"item {i}" for i in range(items)),
        rewards=clicks,
        given=given.astype(np.int64),
        propensities=chances,
        floor=float(chances.min()) if policy == "random" else None,
    )


def where() -> Path | None:
    """Of the installed files."""
    return installed(_PACKAGE, "dataset/obd/random/men/men.csv")
