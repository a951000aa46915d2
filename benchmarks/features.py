"""Features: a million rows with a few columns, beside the same numbers scaled by NumPy.

The promise is less than 5 seconds for a million rows with a few columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from bandanna.features import Ball, Hash, Intercept, Map, OneHot, Project, Range
from benchmarks import Ratio, timed

ROWS = 10**6


def measure() -> list[Ratio]:
    """Frames of pandas and polars, without and with texts that are all different."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(45, 20, ROWS),
            "share": rng.random(ROWS),
            "site": rng.choice(["north", "south", "west"], ROWS),
            "zip": rng.integers(0, 5000, ROWS).astype(str),
        }
    )
    numbers = frame[["age", "share"]].to_numpy()
    scaled = timed(lambda: np.clip((numbers - [18, 0]) / [62, 1], 0, 1) * 2 - 1)
    columns = Range(age=(18, 80), share=(0, 1)), OneHot(site=["north", "south"])
    few = Map(*columns, Hash("zip", buckets=16, words=False), Ball(), Intercept())
    words = Map(*columns, Hash("note", buckets=32), Project(8), Ball(), Intercept())
    texts = frame.assign(note=[f"hello world item {i} of the shop" for i in range(ROWS)])
    cases: list[tuple[str, Map, Any, float | None]] = [
        ("pandas", few, frame, 5.0),
        ("polars", few, pl.from_pandas(frame), 5.0),
        ("pandas, with texts", words, texts, None),
    ]
    return [
        Ratio(
            what=f"10^6 records, {name}",
            ours=timed(lambda made=made, table=table: made.mapped(table)),  # type: ignore[misc]
            beside="two ranges",
            theirs=scaled,
            promise=promise,
        )
        for name, made, table, promise in cases
    ]
