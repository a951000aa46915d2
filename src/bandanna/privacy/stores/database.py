"""A ledger store in a party's database, inside the caller's transaction."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from bandanna.errors import BandannaError, ConflictingRelease, Unreadable
from bandanna.privacy.events import EVENTS, Event
from bandanna.privacy.stores import sqlite
from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, Result
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
_ENTRY = """
select number, task, batch, ledger_events.event, fingerprint, release
from ledger_entries join ledger_events on ledger_events.id = ledger_entries.event
"""
_AT_ONCE = 500  # people in one question
_HASH, _TEXT = b"\0", b"\1"  # what a stored member begins with


class TransactionStore(LedgerStore):
    """A store in the tables of `LEDGER_SCHEMA` during one transaction: durable when the caller commits it.

    Releases may be numbers, texts, arrays, lists, tuples, dictionaries and `Estimate`s, and values that `encoding`
    knows.
    """

    def __init__(self, transaction: Transaction, *, encoding: Encoding | None = None) -> None:
        self._ask = transaction.execute
        self._many = transaction.many
        self._encoding = encoding or Encoding(EVENTS)
        self._known: dict[str, Event] = {}  # decoded events by their text
        self._key = b""

    def alone(self, work: Callable[[], Result]) -> Result:
        """Do the work: the caller's transaction is exclusive already."""
        return work()

    def secret(self) -> bytes:
        """Return the key; the first call draws it."""
        if not self._key:
            rows = self._ask("select secret from ledger_secrets where place = 0")
            if not rows:
                drawn = secrets.token_bytes(32)
                rows = self._ask("insert into ledger_secrets (place, secret) values (0, ?) returning secret", drawn)
            self._key = bytes(rows[0][0])
        return self._key

    def entries(self) -> list[LedgerEntry]:
        """Return all entries, in order of commitment."""
        people: dict[int, list[str]] = {}
        for number, member in self._ask("select entry, member from ledger_members order by entry, place"):
            people.setdefault(number, []).append(_unpack_member(member))
        return [self._entry(row, people.get(row[0], [])) for row in self._ask(_ENTRY + " order by number")]

    def find(self, task: str, batch: str) -> LedgerEntry | None:
        """Return the entry or None."""
        for row in self._ask(_ENTRY + " where task = ? and batch = ?", task, batch):
            members = self._ask("select member from ledger_members where entry = ? order by place", row[0])
            return self._entry(row, [_unpack_member(member) for (member,) in members])
        return None

    def _entry(self, row: tuple[Any, ...], members: list[str]) -> LedgerEntry:
        _, task, batch, event, fingerprint, release = row
        return LedgerEntry(
            task=task,
            batch=batch,
            event=self._event(event),
            fingerprint=fingerprint,
            members=tuple(members),
            release=None if release is None else (self._read(release),),
        )

    def _event(self, text: str) -> Event:
        if text not in self._known:
            self._known[text] = self._read(text)
        return self._known[text]

    def _read(self, text: str) -> Any:
        try:
            return self._encoding.loads(text)
        except Unreadable as error:
            raise BandannaError(f"the ledger's tables hold what this program does not know: {error}") from error

    def commit(self, entry: LedgerEntry) -> None:
        """Add an entry; refuse an id that is taken."""
        if self._ask("select 1 from ledger_entries where task = ? and batch = ?", entry.task, entry.batch):
            raise ConflictingRelease(f"task {entry.task!r}, batch {entry.batch!r} is committed already")
        event = self._number(self._encoding.dumps(entry.event))
        release = None if entry.release is None else self._encoding.dumps(entry.release[0])
        ((number,),) = self._ask(
            "insert into ledger_entries (task, batch, event, fingerprint, release) values (?, ?, ?, ?, ?) "
            "returning number",
            *(entry.task, entry.batch, event, entry.fingerprint, release),
        )
        self._many(
            "insert into ledger_members (entry, place, task, member) values (?, ?, ?, ?)",
            [(number, place, entry.task, _pack_member(member)) for place, member in enumerate(entry.members)],
        )
        self._ask(
            "insert into ledger_tallies (task, event, batches) values (?, ?, 1) "
            "on conflict (task, event) do update set batches = ledger_tallies.batches + 1",
            *(entry.task, event),
        )

    def _number(self, text: str) -> int:
        """Return the number of the event's row; add the row if there is none."""
        mark = hashlib.sha256(text.encode()).digest()
        rows = self._ask("select id from ledger_events where mark = ?", mark)
        rows = rows or self._ask("insert into ledger_events (mark, event) values (?, ?) returning id", mark, text)
        return int(rows[0][0])

    def keep(self, task: str, batch: str, release: Any) -> None:
        """Store a release; refuse to replace one."""
        text = self._encoding.dumps(release)
        rows = self._ask("select number, release from ledger_entries where task = ? and batch = ?", task, batch)
        if not rows:
            raise LookupError(f"task {task!r}, batch {batch!r} is not committed")
        ((number, kept),) = rows
        if kept is not None:
            raise ConflictingRelease(f"task {task!r}, batch {batch!r} is released already")
        self._ask("update ledger_entries set release = ? where number = ?", text, number)

    def tasks(self) -> dict[str, Counter[Event]]:
        """Return the counts, which a table keeps."""
        tasks: dict[str, Counter[Event]] = {}
        query = "from ledger_tallies join ledger_events on ledger_events.id = ledger_tallies.event"
        for task, event, batches in self._ask(f"select task, ledger_events.event, batches {query}"):
            tasks.setdefault(task, Counter())[self._event(event)] = batches
        return tasks

    def named(self, task: str) -> bool | None:
        """Look up the task's members in an index."""
        if not self._ask("select 1 from ledger_tallies where task = ? limit 1", task):
            return None
        return bool(self._ask("select 1 from ledger_members where task = ? limit 1", task))

    def appearances(self, task: str, people: Iterable[str]) -> dict[str, int]:
        """Look up many people at once in an index."""
        seen = dict.fromkeys(people, 0)
        everybody = list(seen)
        for start in range(0, len(everybody), _AT_ONCE):
            some = [_pack_member(person) for person in everybody[start : start + _AT_ONCE]]
            listed = ", ".join("?" * len(some))
            query = (
                f"select member, count(*) from ledger_members where task = ? and member in ({listed}) group by member"
            )
            for member, count in self._ask(query, task, *some):
                seen[_unpack_member(member)] = count
        return seen


def _pack_member(member: str) -> bytes:
    """Return a member as it is stored: a first byte for its kind, then a hash's 32 bytes or a text's own."""
    stored = sqlite.pack_member(member)
    return _HASH + stored if isinstance(stored, bytes) else _TEXT + stored.encode(errors="surrogatepass")


def _unpack_member(stored: bytes) -> str:
    return stored[1:].hex() if stored[:1] == _HASH else stored[1:].decode(errors="surrogatepass")
