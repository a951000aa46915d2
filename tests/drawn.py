"""How many examples Hypothesis draws: few in every run, and many where the long tests run too."""

from __future__ import annotations

from hypothesis import settings

LONG = [False]  # conftest.py knows


def examples(few: int, *, full: int) -> settings:
    """For a test of drawn values: so many without the marker `full`, and so many with it."""
    return settings(max_examples=full if LONG[0] else few)
