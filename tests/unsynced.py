"""SQLite without waiting for the disk, where processes may die but no machine does: the files are the same.

What is written is synced by `pragma synchronous = full`: tests/storage and tests/privacy look at that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest


class Unsynced(sqlite3.Connection):
    def execute(self, query: str, *given: Any) -> sqlite3.Cursor:
        return super().execute(query.replace("synchronous = full", "synchronous = off"), *given)


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    """Do not sync in this process."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Unsynced))
        yield
