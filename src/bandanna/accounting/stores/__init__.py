"""Where the ledger's entries live: in memory, or in a file that survives the process."""

from __future__ import annotations

from bandanna.accounting.stores.base import Entry, LedgerStore
from bandanna.accounting.stores.memory import MemoryStore
from bandanna.accounting.stores.sqlite import SQLiteStore

__all__ = ["Entry", "LedgerStore", "MemoryStore", "SQLiteStore"]
