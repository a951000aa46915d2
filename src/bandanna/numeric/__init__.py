"""Numerical tools without privacy: exact sums, linear algebra, random streams, searches, compiled loops."""

from __future__ import annotations
