"""Own files as data sets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from bandanna.data.datasets import read
from bandanna.data.features.map import Map, OneHot, Range
from bandanna.errors import BandannaError, InvalidArgument

ROWS = "arm,reward,p,age,site,right\n" + "".join(
    f"{'ab'[i % 2]},{i % 3 == 0:d},0.5,{20 + i},{'north' if i % 2 else 'south'},{'xyz'[i % 3]}\n" for i in range(30)
)
USERS = Map(Range(age=(18, 80)), OneHot(site=["north", "south"]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A CSV file."""
    (tmp_path / "own.csv").write_text(ROWS)
    return tmp_path / "own.csv"


def test_a_log(file: Path) -> None:
    """Arms, rewards, probabilities or features of an own log are not those of the file."""
    data = read(file, arm="arm", reward="reward", propensity="p", features=USERS)
    assert (data.arms, len(data), data.dim) == (("a", "b"), 30, 3)
    assert data.log().propensities.tolist() == [0.5] * 30
    same = read(file, arm="arm", reward="reward", propensity="0.5")
    assert same.dim == 0
    assert same.floor == 0.5
    assert same.log(contexts="arms").dim == 2


def test_a_table(file: Path, tmp_path: Path) -> None:
    """Labels are not arms, or Parquet says another thing than CSV."""
    data = read(file, label="right", features=USERS)
    assert (data.arms, data.rewards[1].tolist()) == (("x", "y", "z"), [0.0, 1.0, 0.0])
    assert data.table().n_arms == 3
    columns = {"right": ["xyz"[i % 3] for i in range(30)], "age": list(range(20, 50)), "site": ["north"] * 30}
    pa.parquet.write_table(pa.table(columns), tmp_path / "own.parquet")
    assert read(tmp_path / "own.parquet", label="right", features=USERS).dim == 3


def test_what_is_missing_is_named(file: Path) -> None:
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
