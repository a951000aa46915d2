"""Where a ledger is kept: in memory, in SQLite, in journals, in a role's database."""

from __future__ import annotations

from bandanna.privacy.stores.base import Entry, LedgerStore, MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

__all__ = [
    "Entry",
    "LedgerStore",
    "MemoryStore",
    "SQLiteStore",
]
