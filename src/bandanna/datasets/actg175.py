"""ACTG 175: a randomised trial of four treatments of HIV infection (Hammer et al. 1996)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.datasets.finding import content_of, installed
from bandanna.datasets.reading import columns_of_csv
from bandanna.errors import BandannaError, MissingExtra
from bandanna.features.map import Map
from bandanna.features.parts import Range

_PACKAGE, _FILE = "lifelines", "datasets/ACTG175.csv"
_BASELINE = ("age", "wtkg", "hemo", "homo", "drugs", "karnof", "race", "gender", "str2", "symptom", "cd40", "cd80")
_ARMS = ("zidovudine", "zidovudine and didanosine", "zidovudine and zalcitabine", "didanosine")

# Adults with 200 to 500 CD4 cells could take part: a range that the trial's protocol made public.
FEATURES = Map(Range(cd40=(200, 500)))
BASELINE = Map(
    Range(age=(18, 70), wtkg=(40, 120), karnof=(70, 100), cd40=(200, 500), cd80=(0, 2000)),
    Range({name: (0, 1) for name in _BASELINE if name not in ("age", "wtkg", "karnof", "cd40", "cd80")}),
)

CARD = Card(
    name="actg175",
    title="ACTG 175, a randomised trial of four treatments of HIV infection",
    kind="log",
    rows=2_139,
    arms=_ARMS,
    reward="1 if the CD4 cell count after 20 weeks is above that at entry (cd420 > cd40), else 0",
    propensities="1/4 each, by randomisation",
    features="CD4 cells at entry by default; 12 columns at entry are in the records (actg175.BASELINE maps them all)",
    public="cd40 in [200, 500], as the trial's protocol says who could take part",
    source="Hammer et al., New England Journal of Medicine 335 (1996); R package speff2trial",
    package="lifelines, lifelines/datasets/ACTG175.csv",
    package_licence="MIT",
    data_licence="not stated in the package; speff2trial, from which it comes, is GPL-2",
    get="pip install 'bandanna[data]'; or pip download --no-deps lifelines, and path= of the wheel",
)


def load(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """From the installed package, or from the file or the package at `path`."""
    columns = columns_of_csv(_content(path), (*_BASELINE, "cd420", "arms"), "ACTG175.csv")
    arms, after = columns.pop("arms"), columns.pop("cd420")
    if not np.isin(arms, range(4)).all() or np.isnan(after).any() or np.isnan(columns["cd40"]).any():
        raise BandannaError("ACTG175.csv has other arms than 0 to 3, or counts that are missing")
    return DataSet(
        card=CARD,
        records=columns,
        features=FEATURES if features is None else features,
        arms=_ARMS,
        rewards=np.asarray(after > columns["cd40"], dtype=float),
        given=arms.astype(np.int64),
        propensities=np.full(len(arms), 0.25),
        floor=0.25,
    )


def where() -> Path | None:
    """Of the installed file."""
    return installed(_PACKAGE, _FILE)


def _content(path: str | PathLike[str] | None) -> bytes:
    if path is not None:
        return content_of(path, _FILE)
    file = where()
    if file is None:
        raise MissingExtra("data", "ACTG 175 (of lifelines; or path= of your own ACTG175.csv)")
    return file.read_bytes()
