"""Numbers of Hypothesis examples: few in every run, many with the marker `full`."""

from __future__ import annotations

from hypothesis import settings

LONG = [False]  # conftest.py knows


def examples(few: int, *, full: int) -> settings:
    """Return settings with so many examples without the marker `full`, and so many with it."""
    return settings(max_examples=full if LONG[0] else few)
