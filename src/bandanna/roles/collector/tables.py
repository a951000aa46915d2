"""The collector's tables.

plans     a batch as it was announced, until it is over
slots     who has which place of a batch, until it is over: no place is given twice
reports   append-only: what devices sent; the highest version of a place counts; deleted with the batch's receipt
batches   full(closes_at) -> closed(share) -> receipted(receipt), one row for each round of a batch
          dropped: a batch that was announced and never closed; its number is not used again
used      of a batch that is over: the digest of its plan, and a fingerprint of each slot that was in it; until the task
          ends. Whoever has a ticket that came too late is proved, at any time, not to be among them
streams   what mixers hold across batches: sums of batches of higher levels that are not full; and which mixer does

A collector gives places in order. A process with an old memory gives a place that the rows already have, and its
transaction fails; so slots need no unique key. An index of random slots more than doubles the cost of an upload.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from bandanna.storage.database import Transaction

SCHEMA = """
create table plans (epoch {bigint} primary key, plan text not null);
create table slots (
    epoch {bigint} not null, place {bigint} not null, slot {blob} not null, primary key (epoch, place));
create table reports (
    epoch {bigint} not null, round {bigint} not null, place {bigint} not null, version {bigint} not null,
    key_id {bigint} not null, body {blob} not null, primary key (epoch, round, place, version));
create table batches (
    epoch {bigint} not null, round {bigint} not null, state text not null, closes_at {real} not null,
    share text, receipt text, primary key (epoch, round));
create table used (epoch {bigint} primary key, plan {blob} not null, slots {blob} not null);
create table streams (name text primary key, held text not null);
"""

OPEN = "insert into slots (epoch, place, slot) values (?, ?, ?)"
INSERT = "insert into reports (epoch, round, place, version, key_id, body) values (?, ?, ?, ?, ?, ?)"
OF_ROUND = (  # what a round's reports are, the newest version of a place last
    "select place, slot, key_id, body from reports join slots using (epoch, place)"
    " where epoch = ? and round = ? order by place, version"
)

_PRINT = np.dtype(">u8")  # of a slot


def use_up(rows: Transaction, epoch: int, plan: bytes) -> None:
    """Keep of a batch that is over which slots were in it, as its rows say, and forget their places."""
    slots = (slot for (slot,) in rows.execute("select slot from slots where epoch = ?", epoch))
    rows.execute("insert into used values (?, ?, ?)", epoch, plan, _prints(slots).tobytes())
    rows.execute("delete from slots where epoch = ?", epoch)


def plans_used(rows: Transaction) -> dict[int, bytes]:
    """The digests of the plans of all batches that are over."""
    return {int(epoch): bytes(plan) for epoch, plan in rows.execute("select epoch, plan from used")}


def slots_used(rows: Transaction, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The fingerprints of the slots of a batch that is over, in order."""
    ((content,),) = rows.execute("select slots from used where epoch = ?", epoch)
    return np.frombuffer(content, dtype=_PRINT)


def was_used(slot: bytes, used: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> bool:
    """Tell whether a slot was in a batch with these fingerprints.

    Of one that was it always says so; of one that was not it does so wrongly with probability 2^-64 for each slot that
    was, which costs its owner the proof.
    """
    (own,) = _prints([slot])
    place = int(np.searchsorted(used, own))
    return place < len(used) and bool(used[place] == own)


def _prints(slots: Iterable[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The first 8 bytes of the SHA-256 of each, in order."""
    content = b"".join(hashlib.sha256(slot).digest()[: _PRINT.itemsize] for slot in slots)
    return np.sort(np.frombuffer(content, dtype=_PRINT))
