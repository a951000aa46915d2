"""Stores of a ledger, in memory and in files."""

from __future__ import annotations

from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, MemoryStore
from bandanna.privacy.stores.sqlite import SQLiteStore

__all__ = [
    "LedgerEntry",
    "LedgerStore",
    "MemoryStore",
    "SQLiteStore",
]
