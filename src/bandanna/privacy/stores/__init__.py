"""Where a ledger is kept: in memory, in SQLite, in journals, in a role's database."""

from __future__ import annotations

from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

__all__ = [
    "LedgerEntry",
    "LedgerStore",
    "MemoryStore",
    "SQLiteStore",
]
