"""Feature maps: from records to vectors in the unit ball."""

from __future__ import annotations

from bandanna.data.features.columns import Counts, HashColumn, OneHotColumn, RangeColumn, Report
from bandanna.data.features.map import Ball, Hash, Intercept, Map, Mapped, OneHot, Project, Range, corners
from bandanna.data.features.private import Fitted, fit_privately

__all__ = [
    "Ball",
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
