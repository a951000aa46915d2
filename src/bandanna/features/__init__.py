"""Features: a public map from records - dictionaries, tables - to vectors in the unit ball."""

from __future__ import annotations

from bandanna.features.columns import HashColumn, OneHotColumn, RangeColumn
from bandanna.features.corners import corners
from bandanna.features.counts import Counts, Report
from bandanna.features.map import Map, Mapped
from bandanna.features.parts import Ball, Hash, Intercept, OneHot, Project, Range
from bandanna.features.private import Fitted, fit_privately

__all__ = [
    "Map",
    "Range",
    "OneHot",
    "Hash",
    "Project",
    "Ball",
    "Intercept",
    "Mapped",
    "Report",
    "Counts",
    "RangeColumn",
    "OneHotColumn",
    "HashColumn",
    "corners",
    "fit_privately",
    "Fitted",
]
