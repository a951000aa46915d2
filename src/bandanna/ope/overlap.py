"""Where a log and a target meet: how weights are distributed. Computed from raw rows, for whoever may see those."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.calling import by_name
from bandanna.logs.log import Log
from bandanna.ope.weighing import Weighed, weighed
from bandanna.protocols.trust import none

_BINS = 20


@by_name("bd.ope.overlap")
def overlap(log: Log, target: Any, *, weight_bound: float | None = None) -> dict[str, Any]:
    """The weights of a target, from raw rows and without any privacy: for choosing a bound on data that one may see.

    A bound that was chosen after looking at the log tells of the log: choose it on other data, or by design.
    """
    return details_of(weighed(log, target, weight_bound, none()))


def details_of(case: Weighed) -> dict[str, Any]:
    """Plain values for JSON."""
    raw, total = np.sort(case.raw), float(case.raw.sum())
    most = max(float(raw[-1]), 1e-12)
    counts, edges = np.histogram(raw, bins=_BINS, range=(0.0, most))
    largest = max(1, len(raw) // 100)
    return {
        "matched": float(np.mean(raw > 0)),
        "mean_weight": float(np.mean(raw)),
        "largest_weight": float(raw[-1]),
        "weight_of_largest_percent": float(raw[-largest:].sum() / total) if total > 0 else 0.0,
        "least_propensity": float(case.log.propensities.min()),
        "histogram": {"edges": [float(edge) for edge in edges], "counts": [int(count) for count in counts]},
    }
