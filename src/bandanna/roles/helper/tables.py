"""The helper's tables.

jobs      one round of one batch, its share and the analyzer's receipt:  stored -> released | unusable
slots     who is in batches that are not yet receipted, so that nobody is in two; the newest epochs only
held      what a stream's mixers hold, and after which round: one row, which only moves forward
sums      every sum of a stream that has left: of each level, each number once
keys      of sealed seeds: pending -> active -> expired -> deleted; number 0 is in the task's secrets, not here
binding   the task that this database belongs to
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bandanna.storage.database import Transaction

SCHEMA = """
create table jobs (
    epoch {bigint} not null, round {bigint} not null, rounds {bigint} not null, digest {blob} not null,
    checksum text not null, state text not null, share {blob} not null, signature text not null, receipt text,
    primary key (epoch, round)
);
create index jobs_by_state on jobs (state, epoch);
create table slots (slot {blob} primary key, epoch {bigint} not null);
create index slots_by_epoch on slots (epoch);
create table held (
    stream {bigint} primary key, epoch {bigint} not null, round {bigint} not null, state text not null
);
create table sums (
    stream {bigint} not null, level {bigint} not null, number {bigint} not null, epoch {bigint} not null,
    round {bigint} not null, primary key (stream, level, number)
);
create table keys (
    id {bigint} primary key, secret text, public text not null, state text not null, since {real} not null
);
create table binding (one {bigint} primary key, mark {blob} not null);
"""
KEPT = 16  # epochs whose slots are remembered at most
WAITING, RELEASED, UNUSABLE = "stored", "released", "unusable"
_PORTION = 1000  # values in a statement


class Stored(NamedTuple):
    """A job that was done."""

    epoch: int
    round: int
    digest: bytes
    checksum: str
    state: str
    share: bytes
    signature: str


_COLUMNS = ", ".join(Stored._fields)


def job(transaction: Transaction, epoch: int, round_: int) -> Stored | None:
    """The job of a round, if it was done."""
    rows = transaction.execute(f"select {_COLUMNS} from jobs where epoch = ? and round = ?", epoch, round_)
    return Stored(*rows[0]) if rows else None


def jobs_of(transaction: Transaction, epoch: int) -> list[Stored]:
    """All rounds of a batch that were done."""
    return [Stored(*row) for row in transaction.execute(f"select {_COLUMNS} from jobs where epoch = ?", epoch)]


def waiting(transaction: Transaction) -> list[Stored]:
    """Jobs whose receipt is not there yet, the oldest first."""
    sql = f"select {_COLUMNS} from jobs where state = ? order by epoch, round"
    return [Stored(*row) for row in transaction.execute(sql, WAITING)]


def store(transaction: Transaction, done: Stored, rounds: int) -> None:
    """A job, with everything that its share is."""
    sql = f"insert into jobs ({_COLUMNS}, rounds) values (?, ?, ?, ?, ?, ?, ?, ?)"
    transaction.execute(sql, *done, rounds)


def answered(transaction: Transaction, epoch: int, round_: int, state: str, receipt: str) -> None:
    """What the analyzer has signed of it; a receipt is never taken back."""
    sql = "update jobs set state = ?, receipt = ? where epoch = ? and round = ? and state = ?"
    transaction.execute(sql, state, receipt, epoch, round_, WAITING)


def taken(transaction: Transaction, epoch: int, slots: Sequence[bytes]) -> set[bytes]:
    """Those of these slots that are in another epoch."""
    found: set[bytes] = set()
    for start in range(0, len(slots), _PORTION):
        portion = slots[start : start + _PORTION]
        places = ", ".join("?" * len(portion))
        sql = f"select slot from slots where epoch <> ? and slot in ({places})"
        found.update(row[0] for row in transaction.execute(sql, epoch, *portion))
    return found


def take(transaction: Transaction, epoch: int, slots: Sequence[bytes]) -> None:
    """Remember who is in a batch; forget those of old ones."""
    transaction.execute("delete from slots where epoch <= ?", epoch - KEPT)
    transaction.many("insert into slots (slot, epoch) values (?, ?)", [(slot, epoch) for slot in slots])


def forget_receipted(transaction: Transaction, epoch: int) -> None:
    """The slots of a batch, when all its rounds are receipted."""
    rows = transaction.execute("select rounds, state from jobs where epoch = ?", epoch)
    if rows and sum(state != WAITING for _, state in rows) == rows[0][0]:
        transaction.execute("delete from slots where epoch = ?", epoch)


def held(transaction: Transaction, stream: int) -> tuple[int, int, str] | None:
    """The last batch and round that a stream has gone through, and what its mixer holds since."""
    rows = transaction.execute("select epoch, round, state from held where stream = ?", stream)
    return None if not rows else (int(rows[0][0]), int(rows[0][1]), str(rows[0][2]))


def hold(transaction: Transaction, stream: int, epoch: int, round_: int, state: str) -> None:
    """What its mixer holds after a round, in place of what it held before: a stream is never put back."""
    transaction.execute("delete from held where stream = ?", stream)
    transaction.execute(
        "insert into held (stream, epoch, round, state) values (?, ?, ?, ?)", stream, epoch, round_, state
    )


def let_out(transaction: Transaction, stream: int, sums: Sequence[tuple[int, int]], epoch: int, round_: int) -> None:
    """Enter the sums (level, number) that leave with a round; StorageFailed if one of them has left before."""
    sql = "insert into sums (stream, level, number, epoch, round) values (?, ?, ?, ?, ?)"
    transaction.many(sql, [(stream, level, number, epoch, round_) for level, number in sums])


def mark(transaction: Transaction, own: bytes) -> bytes:
    """The task that the database belongs to; `own` if it is new."""
    rows = transaction.execute("select mark from binding where one = 1")
    if rows:
        return bytes(rows[0][0])
    transaction.execute("insert into binding (one, mark) values (1, ?)", own)
    return own
