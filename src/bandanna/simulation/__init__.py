"""The simulator."""

from __future__ import annotations
