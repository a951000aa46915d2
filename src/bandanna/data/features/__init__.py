"""Feature maps: from records to vectors in the unit ball, by public knowledge."""

from __future__ import annotations

from bandanna.data.features.columns import Counts, HashColumn, OneHotColumn, RangeColumn, Report
from bandanna.data.features.map import (
    Fitted,
    Hash,
    Intercept,
    Map,
    Mapped,
    OneHot,
    Project,
    Range,
    UnitBall,
    corners,
    fit_privately,
)

__all__ = [
    "UnitBall",
    "Counts",
    "Fitted",
    "Hash",
    "HashColumn",
    "Intercept",
    "Map",
    "Mapped",
    "OneHot",
    "OneHotColumn",
    "Project",
    "Range",
    "RangeColumn",
    "Report",
    "corners",
    "fit_privately",
]
