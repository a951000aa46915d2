"""Numbers: linear algebra, exact sums, searches, trees, random streams and designs."""

from __future__ import annotations
