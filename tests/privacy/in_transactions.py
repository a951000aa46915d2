"""A ledger's store whose every call is a transaction of its own: how the one for a caller's transaction is tested."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bandanna.privacy.events import Event
from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, Result
from bandanna.privacy.stores.database import LEDGER_SCHEMA, TransactionStore
from bandanna.storage.database.base import open_database

from ..postgres import server


class InTransactions(LedgerStore):
    """A caller who commits whatever was done, even if the work has raised: then expenses stay, as in other stores."""

    def __init__(self, url: str) -> None:
        self.database = open_database(url, role="ledger", schema=LEDGER_SCHEMA)
        self._exclusive_process = threading.local()

    def alone(self, work: Callable[[], Result]) -> Result:
        """In one transaction."""
        if getattr(self._exclusive_process, "store", None) is not None:
            return work()
        raised: BaseException | None = None
        with self.database.transaction() as transaction:
            self._exclusive_process.store = TransactionStore(transaction)
            try:
                result = self._exclusive_process.store.alone(work)
            except Exception as error:
                raised = error
            finally:
                self._exclusive_process.store = None
        if raised is not None:
            raise raised
        return result

    def _do(self, name: str, *given: Any) -> Any:
        return self.alone(lambda: getattr(self._exclusive_process.store, name)(*given))

    def secret(self) -> bytes:
        return self._do("secret")

    def entries(self) -> list[LedgerEntry]:
        return self._do("entries")

    def find(self, task: str, batch: str) -> LedgerEntry | None:
        return self._do("find", task, batch)

    def commit(self, entry: LedgerEntry) -> None:
        self._do("commit", entry)

    def keep(self, task: str, batch: str, release: Any) -> None:
        self._do("keep", task, batch, release)

    def tasks(self) -> dict[str, Counter[Event]]:
        return self._do("tasks")

    def named(self, task: str) -> bool | None:
        return self._do("named", task)

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        return self._do("appearances", task, people)


def in_sqlite(folder: Path) -> LedgerStore:
    """An empty one, in a file."""
    return InTransactions(str(folder / f"{len(list(folder.iterdir()))}.db"))


def in_postgres(folder: Path) -> LedgerStore:
    """An empty one, on a server."""
    return InTransactions(server().fresh())
