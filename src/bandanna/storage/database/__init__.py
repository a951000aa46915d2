"""Databases of a deployment's parties: SQLite and PostgreSQL."""

from __future__ import annotations
