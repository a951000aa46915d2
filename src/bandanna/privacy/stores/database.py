"""A ledger store in a party's database, inside the caller's transaction."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from bandanna.errors import BandannaError, ConflictingRelease, Unreadable
from bandanna.privacy.events import EVENTS, Event
from bandanna.privacy.stores import sqlite
from bandanna.privacy.stores.base import LedgerEntry, Result, TableStore
from bandanna.storage.database.base import Transaction
from bandanna.storage.encoding import Encoding

LEDGER_SCHEMA = """
create table ledger_secrets (place {bigint} primary key, secret {blob} not null);
create table ledger_events (id {serial}, mark {blob} not null unique, event text not null);  -- mark: SHA-256 of event
create table ledger_entries (
    number {serial}, task text not null, batch text not null, event {bigint} not null references ledger_events (id),
    fingerprint text not null, release text, unique (task, batch));
create table ledger_members (
    entry {bigint} not null references ledger_entries (number), place {bigint} not null, task text not null,
    member {blob} not null, primary key (entry, place));
create index ledger_people on ledger_members (task, member);
create table ledger_tallies (
    task text not null, event {bigint} not null references ledger_events (id), batches {bigint} not null,
    primary key (task, event));
"""
_AT_ONCE = 500  # users in one query
_HASH, _TEXT = b"\0", b"\1"  # what a stored member begins with


class TransactionStore(TableStore):
    """A store in the tables of `LEDGER_SCHEMA` during one transaction: durable when the caller commits it."""

    _prefix, _tally = "ledger_", "batches"

    def __init__(self, transaction: Transaction, *, encoding: Encoding | None = None) -> None:
        self._transaction = transaction
        self._encoding = encoding or Encoding(EVENTS)
        self._known: dict[str, Event] = {}  # decoded events by their text
        self._key = b""

    def alone(self, work: Callable[[], Result]) -> Result:
        return work()

    def secret(self) -> bytes:
        if not self._key:
            rows = self._run_query("select secret from ledger_secrets where place = 0")
            if not rows:
                drawn = secrets.token_bytes(32)
                rows = self._run_query(
                    "insert into ledger_secrets (place, secret) values (0, ?) returning secret", drawn
                )
            self._key = bytes(rows[0][0])
        return self._key

    def _run_query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._transaction.execute(query, *values)

    def _read(self, text: str) -> Any:
        try:
            return self._encoding.loads(text)
        except Unreadable as error:
            raise BandannaError(f"the ledger's tables hold what this program does not know: {error}") from error

    def _unpack(self, stored: Any) -> str:
        return stored[1:].hex() if stored[:1] == _HASH else str(stored[1:].decode(errors="surrogatepass"))

    def commit(self, entry: LedgerEntry) -> None:
        if self._run_query("select 1 from ledger_entries where task = ? and batch = ?", entry.task, entry.batch):
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        event = self._number(self._encoding.dumps(entry.event))
        release = None if entry.release is None else self._encoding.dumps(entry.release[0])
        ((number,),) = self._run_query(
            "insert into ledger_entries (task, batch, event, fingerprint, release) values (?, ?, ?, ?, ?) "
            "returning number",
            *(entry.task, entry.batch, event, entry.fingerprint, release),
        )
        self._transaction.many(
            "insert into ledger_members (entry, place, task, member) values (?, ?, ?, ?)",
            [(number, place, entry.task, _pack_member(member)) for place, member in enumerate(entry.members)],
        )
        self._run_query(
            "insert into ledger_tallies (task, event, batches) values (?, ?, 1) "
            "on conflict (task, event) do update set batches = ledger_tallies.batches + 1",
            *(entry.task, event),
        )

    def _number(self, text: str) -> int:
        mark = hashlib.sha256(text.encode()).digest()
        rows = self._run_query("select id from ledger_events where mark = ?", mark)
        rows = rows or self._run_query("insert into ledger_events (mark, event) values (?, ?) returning id", mark, text)
        return int(rows[0][0])

    def keep(self, task: str, batch: str, release: Any) -> None:
        text = self._encoding.dumps(release)
        rows = self._run_query("select number, release from ledger_entries where task = ? and batch = ?", task, batch)
        if not rows:
            raise LookupError(f"task {task!r}, batch {batch!r} is not committed")
        ((number, stored),) = rows
        if stored is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        self._run_query("update ledger_entries set release = ? where number = ?", text, number)

    def named(self, task: str) -> bool | None:
        if not self._run_query("select 1 from ledger_tallies where task = ? limit 1", task):
            return None
        return bool(self._run_query("select 1 from ledger_members where task = ? limit 1", task))

    def appearances(self, task: str, users: Iterable[str]) -> dict[str, int]:
        counts = dict.fromkeys(users, 0)
        ids = list(counts)
        for start in range(0, len(ids), _AT_ONCE):
            some = [_pack_member(user) for user in ids[start : start + _AT_ONCE]]
            listed = ", ".join("?" * len(some))
            query = (
                f"select member, count(*) from ledger_members where task = ? and member in ({listed}) group by member"
            )
            for member, count in self._run_query(query, task, *some):
                counts[self._unpack(member)] = count
        return counts


def _pack_member(member: str) -> bytes:
    """Return a member as stored: a first byte for its kind, then a hash's bytes or a text's."""
    stored = sqlite.pack_member(member)
    return _HASH + stored if isinstance(stored, bytes) else _TEXT + stored.encode(errors="surrogatepass")
