"""Storage: private files, values as JSON, and databases in SQLite or PostgreSQL."""

from __future__ import annotations
