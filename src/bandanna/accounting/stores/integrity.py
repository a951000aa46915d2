"""Whether a ledger's file is whole: a keyed sum over all its rows, kept in the same transactions as the rows.

Every row has a keyed hash, and the file keeps their sum modulo 2^256, so that a row can be added or taken away without
reading the others. A file of which some pages are of before a transaction and some of after it - because its rollback
journal was lost when it was moved - has another sum than it says, and so has one in which a bit was flipped.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from itertools import groupby
from typing import Any

SCHEMA = """
create table meta (key text primary key, value blob) without rowid;
create table events (id integer primary key, event text unique not null);
create table entries (
    number integer primary key, task text not null, batch text not null, event integer not null,
    fingerprint text not null, release text, unique (task, batch));
create table members (
    entry integer, place integer, task text not null, member text not null, primary key (entry, place)) without rowid;
create index people on members (task, member);
create table tallies (task text, event integer, count integer, primary key (task, event)) without rowid;
"""
ENTRY = """
select number, task, batch, events.event, fingerprint, release
from entries join events on events.id = entries.event
"""
_HASH = re.compile("[0-9a-f]{64}", re.ASCII)
_SIZE = 32  # bytes of a hash
_LAWS = {  # what must not be found
    "an entry without its event": "select 1 from entries where event not in (select id from events)",
    "members of no entry": "select 1 from members where entry not in (select number from entries)",
    "members of another task than their entry": """
        select 1 from members join entries on entry = number where members.task is not entries.task""",
    "members that are missing": "select 1 from members group by entry having count(*) != max(place) + 1",
    "tallies that are not those of the entries": """
        select 1 from (select task, event, count(*) from entries group by task, event except select * from tallies)
        union all
        select 1 from (select * from tallies except select task, event, count(*) from entries group by task, event)""",
    "values of a wrong type": """
        select 1 from entries where typeof(task) != 'text' or typeof(batch) != 'text' or typeof(fingerprint) != 'text'
            or typeof(release) not in ('text', 'null')
        union all select 1 from members where typeof(task) != 'text'
            or typeof(member) != case when length(member) = 32 and typeof(member) = 'blob' then 'blob' else 'text' end
        union all select 1 from events where typeof(event) != 'text'
        union all select 1 from meta where typeof(key) != 'text'
            or typeof(value) != case when key in ('secret', 'sum') then 'blob' else 'text' end""",
}


def packed(member: str) -> str | bytes:
    """As a member is stored: a hash of 64 hexadecimal digits by its 32 bytes, anything else as it is."""
    return bytes.fromhex(member) if _HASH.fullmatch(member) else member


def unpacked(stored: str | bytes) -> str:
    """The inverse of `packed`."""
    return stored.hex() if isinstance(stored, bytes) else stored


def of_entry(number: int, task: str, batch: str, event: str, fingerprint: str, members: Iterable[str]) -> list[Any]:
    """What is hashed of an expense."""
    return ["entry", number, task, batch, event, fingerprint, *members]


def of_release(number: int, release: str) -> list[Any]:
    """What is hashed of a stored release."""
    return ["release", number, release]


def of_note(key: str, value: str) -> list[Any]:
    """What is hashed of a note."""
    return ["note", key, value]


def shifted(total: bytes, secret: bytes, *, plus: Iterable[list[Any]] = (), minus: Iterable[list[Any]] = ()) -> bytes:
    """The sum after rows were added and taken away."""
    number = int.from_bytes(total)
    number += sum(_hash(secret, row) for row in plus) - sum(_hash(secret, row) for row in minus)
    return (number % (1 << 8 * _SIZE)).to_bytes(_SIZE)


def summed(sql: sqlite3.Connection, secret: bytes) -> bytes:
    """The sum of all rows that are there."""
    return shifted(bytes(_SIZE), secret, plus=_rows(sql))


def fault(sql: sqlite3.Connection) -> str | None:
    """What is wrong with the tables, whatever their sum; None if nothing is."""
    (first,) = sql.execute("pragma integrity_check(1)").fetchone()
    if first != "ok":
        return str(first)
    if _tables(sql) != _expected_tables():
        return "its tables are not those of a ledger"
    return next((told for told, law in _LAWS.items() if sql.execute(law).fetchone()), None)


def _tables(sql: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(sql.execute("select type, name, tbl_name, sql from sqlite_master"))


@lru_cache(maxsize=1)
def _expected_tables() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as sql:
        sql.executescript(SCHEMA)
        return _tables(sql)


def _rows(sql: sqlite3.Connection) -> Iterator[list[Any]]:
    query = "select entry, member from members order by entry, place"
    grouped = groupby(sql.execute(query), lambda row: row[0])
    people = {entry: [unpacked(member) for _, member in rows] for entry, rows in grouped}
    for number, task, batch, event, fingerprint, release in sql.execute(ENTRY):
        yield of_entry(number, task, batch, event, fingerprint, people.get(number, ()))
        if release is not None:
            yield of_release(number, release)
    for key, value in sql.execute("select key, value from meta where key not in ('secret', 'sum')"):
        yield of_note(key, value)


def _hash(secret: bytes, row: list[Any]) -> int:
    return int.from_bytes(hmac.digest(secret, json.dumps(row).encode(), hashlib.sha256))
