"""A browser makes the same features of a record as Python, to the last bit, and treats the same values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Project, Range, UnitBall
from bandanna.errors import InvalidStatistic

from .running import CLIENT, ROOT, node

pytestmark = pytest.mark.browser

SHARED = ROOT / "tests" / "features" / "vectors.json"


def mapped(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of clients/js/test/features.mjs, one for each map."""
    found: list[dict[str, Any]] = json.loads(node("features.mjs", document))
    return found


def test_the_shared_vectors() -> None:
    """A browser computes other features than those that all languages share."""
    document = json.loads(SHARED.read_text(encoding="utf-8"))
    for found, case in zip(mapped(document), document["cases"], strict=True):
        assert [each["features"] for each in found["mapped"]] == case["vectors"], case["name"]


def test_many_drawn_records() -> None:
    """Features of drawn records, or what was done to them, are others than Python's."""
    rng = np.random.default_rng(0)
    texts = ["", "Tea", "green tea", "T\u00c9A \u8336", "a b a B", "1 2 3", None]
    numbers = [None, True, -1e300, 0.1, 18, 80, 44.25, "x"]
    records = [
        {"age": numbers[rng.integers(8)], "size": float(rng.normal()), "site": texts[rng.integers(7)], "note": note}
        for note in (" ".join(map(str, rng.integers(0, 50, rng.integers(0, 9)))) for _ in range(300))
    ]
    parts = (
        Range(age=(18, 80), size=(-1.5, 1 / 3)),
        OneHot(site=["Tea", "", 1], unknown="other"),
        Hash("note", buckets=37),
    )
    maps = [
        Map(*parts),
        Map(parts[0], Hash("site", buckets=3, words=False, seed=11), UnitBall(scale=2.5), Intercept()),
        Map(*parts, Project(9, seed=2**40), UnitBall(scale=1.25)),
        Map(Range(size=(-1, 1), outside="refuse"), OneHot(site=["Tea"], missing="refuse")),
    ]
    found = mapped({"records": records, "cases": [{"map": made.to_dict()} for made in maps]})
    for made, answer in zip(maps, found, strict=True):
        assert answer["dim"] == made.dim
        for record, theirs in zip(records, answer["mapped"], strict=True):
            check(made, record, theirs)


def check(made: Map, record: dict[str, Any], theirs: dict[str, Any]) -> None:
    """One record."""
    try:
        ours = made.mapped([record])
    except InvalidStatistic:
        assert "refused" in theirs
        return
    assert np.array_equal(ours.values[0], theirs["features"])
    treated = {name: what for name, counts in ours.report.columns.items() for what, n in vars(counts).items() if n}
    assert theirs["treated"] == treated
    assert theirs["clipped"] == bool(ours.report.clipped)


def test_ranges_of_a_schema_are_a_map() -> None:
    schema = {"names": ["size", "age"], "ranges": {"age": [18, 80], "size": [0, 2.5]}}
    (found,) = mapped({"records": [{"age": 30, "size": 1}], "cases": [{"map": schema}]})
    ours = Map(Range(size=(0, 2.5), age=(18, 80)))({"age": 30, "size": 1})
    assert found["mapped"][0]["features"] == ours.tolist()


def test_the_module_is_apart() -> None:
    """The client itself grows by the map, or the module has no types."""
    assert "bandanna features" not in (CLIENT / "dist" / "bandanna.mjs").read_text()
    assert "readMap" in (CLIENT / "dist" / "types" / "features.d.ts").read_text()
    assert Path(CLIENT / "dist" / "features.d.ts").exists()
