"""The registrar's tables.

users     a ticket that was given: the person (a keyed hash), the epoch, the slot
          none -> given -> moved: a refusal takes the row away, and a later epoch gets another one
witness   every publication that the analyzer has told of, with the cosignature: none -> stands, for ever
binding   what this database belongs to: a hash of the task and of the key that hides people
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from bandanna.storage.database import Transaction

SCHEMA = """
create table users (
    person {blob} not null, epoch {bigint} not null, slot {blob} not null, primary key (person, epoch)
);
create table witness (
    number {bigint} primary key, epoch {bigint} not null, chain text not null, document text not null,
    cosignature text not null
);
create table binding (one {bigint} primary key, mark {blob} not null);
"""

Held = dict[bytes, dict[int, bytes]]  # person -> epoch -> slot


class Witness(NamedTuple):
    """A publication that stands: its number and chain, the epoch that is awaited after it, what the analyzer has signed
    of it, and the registrar's own signature."""

    number: int
    epoch: int
    chain: str
    document: str
    cosignature: str


def held_by(transaction: Transaction, people: Collection[bytes]) -> Held:
    """The tickets of these people."""
    held: Held = {person: {} for person in people}
    if not held:
        return held
    asked = list(held)
    asked += asked[-1:] * ((1 << (len(asked) - 1).bit_length()) - len(asked))  # few statements, each prepared once
    places = ", ".join("?" * len(asked))
    rows = transaction.execute(f"select person, epoch, slot from users where person in ({places})", *asked)
    for person, epoch, slot in rows:
        held[person][epoch] = slot
    return held


def change(transaction: Transaction, before: Held, after: Held) -> None:
    """Write what is different."""
    gone, new = set(_rows(before)) - set(_rows(after)), set(_rows(after)) - set(_rows(before))
    transaction.many("delete from users where person = ? and epoch = ? and slot = ?", gone)
    transaction.many("insert into users (person, epoch, slot) values (?, ?, ?)", sorted(new))


def witness(transaction: Transaction) -> Witness | None:
    """The newest, if there is any."""
    columns = ", ".join(Witness._fields)
    rows = transaction.execute(f"select {columns} from witness order by number desc limit 1")
    return Witness(*rows[0]) if rows else None


def keep(transaction: Transaction, newest: Witness) -> None:
    """One more: a number that stands already is refused."""
    columns = ", ".join(Witness._fields)
    transaction.execute(f"insert into witness ({columns}) values (?, ?, ?, ?, ?)", *newest)


def mark(transaction: Transaction, own: bytes) -> bytes:
    """What the database belongs to; `own` if it is new."""
    rows = transaction.execute("select mark from binding where one = 1")
    if rows:
        return bytes(rows[0][0])
    transaction.execute("insert into binding (one, mark) values (1, ?)", own)
    return own


def look_again(transaction: Transaction) -> None:
    """PostgreSQL plans by what it knows of a table: of one that was just restored, nothing, and it would read all."""
    if transaction.dialect == "postgres":
        transaction.execute("analyze users")


def counts(transaction: Transaction) -> int:
    """How many tickets there are."""
    return int(transaction.execute("select count(*) from users")[0][0])


def _rows(held: Held) -> Iterable[tuple[bytes, int, bytes]]:
    return ((person, epoch, slot) for person, tickets in held.items() for epoch, slot in tickets.items())
