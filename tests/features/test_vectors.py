"""The features that other languages must compute too: `vectors.json` beside this file, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Project, Range, UnitBall

FILE = Path(__file__).with_name("vectors.json")
SITES = ["north", "south", 3, 2.5]
MAPS = {
    "ranges": Map(Range(age=(18, 80), weight=(0.1, 1 / 3))),
    "categories": Map(OneHot(site=SITES), OneHot(kind=["a", "b"], unknown="other", missing="other")),
    "texts": Map(Hash("note", buckets=8), Hash("site", buckets=5, words=False, seed=4_294_967_295)),
    "projected": Map(Hash("note", buckets=300), Range(age=(18, 80)), Project(7, seed=3), UnitBall(scale=1.5)),
    "all": Map(Range(age=(18, 80)), OneHot(site=SITES), Hash("note", buckets=16), Project(4), UnitBall(), Intercept()),
}
RECORDS: list[dict[str, Any]] = [
    {"age": 18, "weight": 0.1, "site": "north", "kind": "a", "note": "Green tea, please: 2 cups"},
    {"age": 80, "weight": 0.2, "site": 3, "kind": "b", "note": "green green GREEN"},
    {"age": 41.7, "weight": 0.3, "site": 2.5, "kind": "c", "note": "caf\u00e9 \u6771\u4eac \U0001f642 x"},
    {"age": -5, "weight": 7, "site": "South", "kind": None, "note": ""},
    {"age": None, "weight": True, "site": False, "note": 7.25},
    {"age": "30", "weight": 1e300, "site": "3", "kind": "b ", "note": None},
    {"age": 55, "weight": 0.25, "site": "south", "kind": "a", "note": "a-b_c.d\u00a0e\tf"},
]


def written() -> dict[str, Any]:
    """What the file says."""
    cases = [
        {"name": name, "map": made.to_dict(), "vectors": made.mapped(RECORDS).values.tolist()}
        for name, made in MAPS.items()
    ]
    return {"records": RECORDS, "cases": cases}


@pytest.mark.parametrize("name", MAPS)
def test_vectors_stay_what_they_are(name: str) -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    case = next(case for case in stored["cases"] if case["name"] == name)
    made = Map.from_dict(case["map"])
    assert made == MAPS[name]
    assert np.array_equal(made.mapped(stored["records"]).values, np.array(case["vectors"]))


if __name__ == "__main__":  # python tests/features/test_vectors.py writes the file anew
    FILE.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
