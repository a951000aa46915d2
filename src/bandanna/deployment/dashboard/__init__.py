"""The dashboard."""

from __future__ import annotations
