"""Data sets by name and own files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import bandanna as bd
from bandanna.data import datasets
from bandanna.data.datasets import find_installed, read, read_content
from bandanna.data.features.map import Map, OneHot, Range
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, MissingExtra

from . import files


def saved(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_trial_is_a_log_with_its_randomised_propensities(tmp_path: Path) -> None:
    """Arms, rewards or probabilities of ACTG 175 are not those of the file, or its range is another one."""
    data = bd.datasets.load("actg175", path=saved(tmp_path, "ACTG175.csv", files.actg()))
    assert (len(data), len(data.arms), data.dim) == (400, 4, 1)
    assert int(np.argmax(data.means)) == 1
    assert set(data.rewards) == {0.0, 1.0}
    log = data.log()
    assert (log.n_arms, log.dim, log.floor) == (4, 1, 0.25)
    low = data.records["cd40"] <= 200
    assert np.all(data.contexts[low] == -1)
    np.testing.assert_allclose(data.contexts[:, 0], np.clip((data.records["cd40"] - 350) / 150, -1, 1), atol=1e-15)
    with pytest.raises(InvalidArgument, match="the rewards of all arms"):
        data.table()
    assert "400 events" in repr(data)


def test_arms_without_features_are_corners_and_a_constant(tmp_path: Path) -> None:
    data = bd.datasets.load("actg175", path=saved(tmp_path, "ACTG175.csv", files.actg()))
    shown = data.log(contexts="arms").contexts
    assert shown.shape == (400, 4, 4)
    assert np.all(shown == shown[:1])
    inner = shown[0, :, :-1] @ shown[0, :, :-1].T
    np.testing.assert_allclose(inner, np.eye(4) * 4 / 3 - 1 / 3, atol=1e-15)
    with pytest.raises(InvalidArgument, match="contexts"):
        data.log(contexts="arm")


def test_vouchers_are_a_log_with_observed_shares(tmp_path: Path) -> None:
    data = bd.datasets.load("thornton", path=saved(tmp_path, "thornton_hiv.csv", files.thornton()))
    assert len(data) == 38
    assert data.given is not None
    assert data.propensities is not None
    assert np.bincount(data.given).tolist() == [10, 10, 9, 9]
    assert data.propensities[0] == 10 / 38
    assert data.floor == 9 / 38


def test_impressions_are_a_log_with_logged_propensities(tmp_path: Path) -> None:
    """Impressions are not found in the archive of the package, or lose their logged probabilities."""
    path = files.tarred(tmp_path / "obp-0.5.7.tar.gz", {"obp-0.5.7/obp/dataset/obd/random/men/men.csv": files.obd()})
    data = bd.datasets.load("obd", path=path)
    assert (len(data), len(data.arms), data.dim) == (200, 34, 16)
    assert data.log().floor == pytest.approx(1 / 34)
    np.testing.assert_allclose(np.linalg.norm(data.contexts, axis=1), 1.0)
    with pytest.raises(BandannaError, match=r"no dataset/obd/bts/men/men\.csv"):
        bd.datasets.load("obd", path=path, policy="bts")
    with pytest.raises(InvalidArgument, match="'all', 'men', 'women'"):
        bd.datasets.load("obd", path=path, part="man")


def test_prompts_are_a_table_of_rewards(tmp_path: Path) -> None:
    texts = {
        "pareto_bandit/data/examples/val.jsonl": files.routing(),
        "x/data/examples/test_holdout.jsonl": files.routing(5),
    }
    data = bd.datasets.load("routing", path=files.wheel(tmp_path / "paretobandit.whl", texts))
    assert len(data) == 35
    assert data.rewards[0].tolist() == pytest.approx([0.0, 0.95, 0.8])
    assert data.table().n_arms == 3
    log = data.log(seed=3)
    assert log.floor == pytest.approx(1 / 3)
    assert np.array_equal(log.rewards, data.rewards[np.arange(35), log.arms])
    single = bd.datasets.load("routing", path=saved(tmp_path, "val.jsonl", files.routing(7)))
    assert len(single) == 7


def test_sensors_are_a_table_with_public_ranges(tmp_path: Path) -> None:
    data = bd.datasets.load("shuttle", path=saved(tmp_path, "shuttle.csv", files.shuttle()))
    assert np.array_equal(np.argmax(data.rewards, axis=1), np.arange(70) % 7)
    assert data.table(contexts="arms").dim == 7
    with pytest.raises(BandannaError, match="a class in row 4 that is none of"):
        bd.datasets.load("shuttle", path=saved(tmp_path, "s.csv", files.shuttle().replace("Bypass", "Nowhere")))
    with pytest.raises(BandannaError, match=r"not the file Shuttle\.rda|bandanna\[data\]"):
        bd.datasets.load("shuttle", path=saved(tmp_path, "Shuttle.rda", "no R"))


def test_another_feature_map_replaces_the_default(tmp_path: Path) -> None:
    path = saved(tmp_path, "ACTG175.csv", files.actg())
    both = Map(Range(cd40=(0, 1000), age=(18, 80)))
    assert bd.datasets.load("actg175", path=path, features=both).dim == 2
    with pytest.raises(InvalidStatistic, match="Column 10 has a similar name"):
        bd.datasets.load("actg175", path=path, features=Map(Range(cd4=(0, 1))))
    with pytest.raises(InvalidArgument, match=r"bd\.features\.Map"):
        bd.datasets.load("actg175", path=path, features={"cd40": (0, 1)})  # type: ignore[arg-type]


def test_files_are_found_in_folders_and_archives(tmp_path: Path) -> None:
    inside, text = "datasets/ACTG175.csv", {"lifelines/datasets/ACTG175.csv": "a", "lifelines/datasets/other.csv": "b"}
    below = {"./usr/lib/lifelines/datasets/ACTG175.csv": "a"}
    for place in (
        files.wheel(tmp_path / "a.whl", text),
        files.tarred(tmp_path / "a.tar.gz", text),
        files.debian(tmp_path / "a.deb", below),
    ):
        assert read_content(place, inside) == b"a"
        with pytest.raises(BandannaError, match="has no datasets/none"):
            read_content(place, "datasets/none")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    saved(tmp_path / "deep" / "er", "ACTG175.csv", "c")
    assert read_content(tmp_path / "deep", inside) == b"c"
    saved(tmp_path / "deep", "ACTG175.csv", "d")
    with pytest.raises(BandannaError, match="more than one"):
        read_content(tmp_path / "deep", inside)
    for place, words in ((tmp_path / "nowhere", "cannot be read"), (saved(tmp_path, "x.tar.gz", "no"), "damaged")):
        with pytest.raises(BandannaError, match=words):
            read_content(place, inside)


def test_an_installed_package_is_read_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lifelines"
    (package / "datasets").mkdir(parents=True)
    saved(package, "__init__.py", "raise RuntimeError('imported')")
    saved(package / "datasets", "ACTG175.csv", files.actg(40))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lifelines", raising=False)
    assert find_installed("lifelines", "datasets/ACTG175.csv") == package / "datasets" / "ACTG175.csv"
    assert datasets.is_installed("actg175")
    assert len(bd.datasets.load("actg175")) == 40


def test_missing_packages_and_names_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "find_installed", lambda *_: None)
    shuttle = datasets._SOURCES["shuttle"]
    monkeypatch.setitem(datasets._SOURCES, "shuttle", shuttle._replace(where=lambda: None))
    for name in ("actg175", "thornton", "routing"):
        with pytest.raises(MissingExtra, match=r"bandanna\[data\]"):
            bd.datasets.load(name)
    for name, words in (("obd", "pip download"), ("shuttle", "apt install r-cran-mlbench")):
        with pytest.raises(BandannaError, match=words):
            bd.datasets.load(name)
    with pytest.raises(InvalidArgument, match="Did you mean 'actg175'"):
        bd.datasets.load("acgt175")
    with pytest.raises(InvalidArgument, match="It takes path, features"):
        bd.datasets.load("actg175", part="men")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("actg175", "a,b\n1,2\n"),
        ("actg175", ""),
        ("actg175", files.actg(5).replace(",3\n", ",7\n").replace(",1\n", ",7\n").replace(",0\n", ",7\n")),
        ("actg175", files.actg(5)[:-5]),
        ("thornton", files.thornton().replace("2.8", "28")),
        ("routing", "{}\n"),
        ("routing", "not json\n"),
        ("routing", "[]\n"),
    ],
)
def test_damaged_files_are_refused(name: str, text: str, tmp_path: Path) -> None:
    suffix = {"routing": ".jsonl"}.get(name, ".csv")
    with pytest.raises(BandannaError):
        bd.datasets.load(name, path=saved(tmp_path, f"file{suffix}", text))


def test_every_card_is_complete() -> None:
    for card in bd.datasets.cards():
        assert all(value for name, value in card.to_dict().items() if name != "people"), card.name
        assert card.kind in ("log", "table")
    page = (Path(__file__).parents[2] / "docs" / "reference" / "data-sets.md").read_text(encoding="utf-8")
    for card in bd.datasets.cards():
        assert f"`{card.name}`" in page
        assert f"{card.rows:,}" in page


ROWS = "arm,reward,p,age,site,right\n" + "".join(
    f"{'ab'[i % 2]},{i % 3 == 0:d},0.5,{20 + i},{'north' if i % 2 else 'south'},{'xyz'[i % 3]}\n" for i in range(30)
)
USERS = Map(Range(age=(18, 80)), OneHot(site=["north", "south"]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "own.csv").write_text(ROWS)
    return tmp_path / "own.csv"


def test_an_own_file_is_a_log(file: Path) -> None:
    """Arms, rewards, probabilities or features of an own log are not those of the file."""
    data = read(file, arm="arm", reward="reward", propensity="p", features=USERS)
    assert (data.arms, len(data), data.dim) == (("a", "b"), 30, 3)
    assert data.log().propensities.tolist() == [0.5] * 30
    same = read(file, arm="arm", reward="reward", propensity="0.5")
    assert same.dim == 0
    assert same.floor == 0.5
    assert same.log(contexts="arms").dim == 2


def test_an_own_table_of_labels_is_an_environment(file: Path, tmp_path: Path) -> None:
    data = read(file, label="right", features=USERS)
    assert (data.arms, data.rewards[1].tolist()) == (("x", "y", "z"), [0.0, 1.0, 0.0])
    assert data.table().n_arms == 3
    columns = {"right": ["xyz"[i % 3] for i in range(30)], "age": list(range(20, 50)), "site": ["north"] * 30}
    pa.parquet.write_table(pa.table(columns), tmp_path / "own.parquet")
    assert read(tmp_path / "own.parquet", label="right", features=USERS).dim == 3


def test_missing_columns_of_an_own_file_are_named(file: Path) -> None:
    with pytest.raises(BandannaError, match="--arm, --reward and --propensity"):
        read(file)
    with pytest.raises(BandannaError, match="--propensity is missing"):
        read(file, arm="arm", reward="reward")
    with pytest.raises(InvalidArgument, match="Column 1 has a similar name"):
        read(file, arm="arm", reward="rewrd", propensity=0.5)
    with pytest.raises(InvalidArgument, match=r"bd\.features\.Map"):
        read(file, label="right", features=3)  # type: ignore[arg-type]
    with pytest.raises(BandannaError, match="cannot be read"):
        read(file.with_name("none.csv"), label="right")
