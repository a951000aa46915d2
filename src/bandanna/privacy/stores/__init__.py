"""Stores of a ledger: in memory, in an SQLite file, in an agent's journals, or in a party's database."""

from __future__ import annotations

from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

__all__ = [
    "LedgerEntry",
    "LedgerStore",
    "MemoryStore",
    "SQLiteStore",
]
