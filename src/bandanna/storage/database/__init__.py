"""Databases of the roles: SQLite and PostgreSQL."""

from __future__ import annotations
