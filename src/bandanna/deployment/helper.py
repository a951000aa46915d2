"""The helper, the second mixer: opens sealed seeds, adds masks, and keeps its shares until they have receipts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bandanna import validation
from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.batch_plan import Part
from bandanna.deployment.messages.canonical import (
    HELPER,
    SEED,
    Opener,
    Signer,
    TicketKeys,
    expand_masks,
    is_equal_mac,
    sealing_key,
    verify,
)
from bandanna.deployment.messages.report import sealing_info, write_seal_key
from bandanna.deployment.messages.share import MixJob, check_receipt, read_job, write_share
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.protocols.concurrent_shuffle import LevelMixer
from bandanna.protocols.factory import make_mixer_encoding, mix_messages
from bandanna.protocols.mixers import FullBatches, SummingMixer
from bandanna.storage.database.base import Database, Transaction
from bandanna.types import Ints

# Refusals


class JobRefused(BandannaError):
    """A job that the helper refuses."""

    def __init__(self, status: int, reason: str, message: str, **details: Any) -> None:
        self.status, self.reason, self.details = status, reason, details
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self.details), (self.status, self.reason, str(self))


# Keys


MOST_KEYS = 256
DELAY = 3600.0  # seconds for which a new key is pending


class Keyring:
    """The keys for which devices seal seeds, in the helper's database.

        pending -> active (after `delay` seconds) -> expired -> deleted

    One key is active. Every share names it to the analyzer, and publications to all devices. A deleted key opens no
    seed any more. Reports name a key in one byte, so a task has at most 256. `first` has secret and public half of key
    0.
    """

    def __init__(
        self, db: Database, *, first: tuple[str, str], delay: float = DELAY, now: Callable[[], float] = time.time
    ) -> None:
        self._db, self._first = db, first
        self._delay, self._now = validation.non_negative("delay", delay), now
        with db.transaction() as rows:
            stored = rows.execute("select public from keys where id = 0")
            if not stored:
                sql = "insert into keys (id, secret, public, state, since) values (0, null, ?, 'active', ?)"
                rows.execute(sql, first[1], self._now())
        if stored and stored[0][0] != first[1]:
            raise BandannaError(f"{db.name} has another first key than the task")

    def openers(self) -> dict[int, Opener]:
        """Return the openers of seeds for all keys that are not deleted, by number."""
        with self._db.reading() as rows:
            keys = rows.execute("select id, secret from keys where state <> 'deleted'")
        return {number: Opener(self._first[0] if secret is None else secret) for number, secret in keys}

    def public(self) -> list[dict[str, Any]]:
        """Return number, public key, state and activation time of all keys."""
        with self._db.transaction() as rows:
            self._activate_due(rows)
            keys = rows.execute("select id, public, state, since from keys where state <> 'deleted' order by id")
        return [dict(zip(("id", "public", "state", "since"), key, strict=True)) for key in keys]

    def active(self) -> tuple[int, str]:
        """Return number and public half of the key for which devices seal."""
        return next((each["id"], each["public"]) for each in self.public() if each["state"] == "active")

    def rotate(self) -> int:
        """Make the next key, which is pending for `delay` seconds, and return its number."""
        secret, public = sealing_key()
        with self._db.transaction() as transaction:
            self._activate_due(transaction)
            if transaction.execute("select id from keys where state = 'pending'"):
                raise BandannaError("a key is pending already: wait until it is active")
            number = int(transaction.execute("select max(id) from keys")[0][0]) + 1
            if number >= MOST_KEYS:
                raise BandannaError(f"all {MOST_KEYS} keys of the task are used: create another task")
            sql = "insert into keys (id, secret, public, state, since) values (?, ?, ?, 'pending', ?)"
            transaction.execute(sql, number, secret, public, self._now() + self._delay)
            self._activate_due(transaction)
        return number

    def delete(self, number: Any) -> None:
        """Delete an expired key. The operator must also remove key 0 from the task's secrets."""
        with self._db.transaction() as transaction:
            self._activate_due(transaction)
            expired = [row[0] for row in transaction.execute("select id from keys where state = 'expired' order by id")]
            if type(number) is not int or number not in expired:
                hint = f"Expired are {', '.join(map(str, expired)) or 'none'}"
                raise InvalidArgument("id", number, "the number of an expired key", hint)
            transaction.execute("update keys set state = 'deleted', secret = null where id = ?", number)
        self._db.scrub()

    def _activate_due(self, transaction: Transaction) -> None:
        """Activate a pending key after its delay; the key before it expires."""
        sql = "select id from keys where state = 'pending' and since <= ?"
        for (number,) in transaction.execute(sql, self._now()):
            transaction.execute("update keys set state = 'expired' where state = 'active'")
            transaction.execute("update keys set state = 'active' where id = ?", number)


# Masks


@dataclass(frozen=True, kw_only=True)
class PartMasks:
    """The masks of one part of a round, in the order of places, and the mixer that adds them."""

    stream: int | None
    mixer: SummingMixer | LevelMixer
    messages: Ints  # (users, length)

    def add(self, state: str | None) -> tuple[str, str, list[tuple[int, int]]]:
        """Add the masks to the state of a mixer (None: empty).

        Return the state, what is forwarded, and the level and number of each sum of a stream in it.
        """
        before = self.mixer.empty() if state is None else make_mixer_encoding().loads(state)
        after, views = mix_messages(self.mixer, before, self.messages)
        full = [view for view in views if isinstance(view, FullBatches)]
        sums = [(level, view.users // each.users) for view in full for level, each in enumerate(view.levels)]
        return make_mixer_encoding().dumps(after), make_mixer_encoding().dumps(views), sums


def split_masks_by_part(job: MixJob, masks: list[Ints]) -> list[PartMasks]:
    """Return the masks of each part of the job's round; raise Unreadable for an impossible plan."""
    parts = job.parts.parts
    if not job.parts.by_arm:
        return [_masks_of_part(part, messages) for part, messages in zip(parts, masks, strict=True)]
    try:
        arms = job.batch.arms_at(np.arange(len(job.entries)))
    except (IndexError, ValueError, TypeError) as error:
        raise Unreadable("a plan that does not assign the arms of all places") from error
    if sorted(set(arms.tolist())) != sorted(-1 if part.arm is None else part.arm for part in parts):
        raise Unreadable("a plan whose parts are not those of its arms")
    return [_masks_of_part(part, masks[0][arms == part.arm]) for part in parts]


def _masks_of_part(part: Part, messages: Ints) -> PartMasks:
    mixer = make_mixer_encoding().loads(part.mixer or "null")
    if not isinstance(mixer, SummingMixer | LevelMixer) or mixer.length != part.length:
        raise Unreadable("a plan whose mixer does not add counts of this length")
    if part.stream is not None and not isinstance(mixer, LevelMixer):
        raise Unreadable("a plan with a stream whose mixer has no levels")
    return PartMasks(stream=part.stream, mixer=mixer, messages=messages)


def open_masks(job: MixJob, task: bytes, openers: Mapping[int, Opener], tickets: TicketKeys) -> tuple[list[Ints], int]:
    """Return the masks of all users for each part, (users, length), and the number of bad seeds.

    A bad seed cannot be opened as that of this slot, round and plan, or comes without the ticket's key. Its masks are
    zeros, and no sum is made.
    """
    lengths, epoch, bad = job.parts.lengths, job.batch.epoch, 0
    masks = [np.zeros((len(job.entries), length), dtype=np.int64) for length in lengths]
    for place, entry in enumerate(job.entries):
        opener, info = openers.get(entry.key_id), sealing_info(task, job.batch, job.round, entry.slot)
        try:
            opened = b"" if opener is None else opener.open(entry.sealed, info)
        except BandannaError:
            opened = b""
        if not opened or not is_equal_mac(opened[SEED:], tickets.key(epoch, entry.slot)):
            bad += 1
            continue
        for rows, own in zip(masks, expand_masks(opened[:SEED], lengths), strict=True):
            rows[place] = own
    return masks, bad


# Tables


# jobs           one round of a batch, its share and the analyzer's receipt: stored -> released | unusable
# slots          the slots of batches without receipts, so that no slot is in two; the newest epochs only
# stream_states  the mixer's state of a stream and the round after which it was; one row, which only moves forward
# sums           every released sum of a stream: each number of each level once
# keys           of sealed seeds: pending -> active -> expired -> deleted; the secret of number 0 is the task's
# binding        the task that this database belongs to
SCHEMA = """
create table jobs (
    epoch {bigint} not null, round {bigint} not null, rounds {bigint} not null, digest {blob} not null,
    checksum text not null, state text not null, share {blob} not null, signature text not null, receipt text,
    primary key (epoch, round)
);
create index jobs_by_state on jobs (state, epoch);
create table slots (slot {blob} primary key, epoch {bigint} not null);
create index slots_by_epoch on slots (epoch);
create table stream_states (
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
MOST_EPOCHS = 16  # whose slots are stored
WAITING, RELEASED, UNUSABLE = "stored", "released", "unusable"
_MOST_VALUES = 1000  # in a statement


class StoredJob(NamedTuple):
    """A job that was done, as the table has it."""

    epoch: int
    round: int
    digest: bytes
    checksum: str
    state: str
    share: bytes
    signature: str


_COLUMNS = ", ".join(StoredJob._fields)


def _select_job(rows: Transaction, epoch: int, round_: int) -> StoredJob | None:
    found = rows.execute(f"select {_COLUMNS} from jobs where epoch = ? and round = ?", epoch, round_)
    return StoredJob(*found[0]) if found else None


# The helper


class Helper:
    """The second mixer: opens seeds, checks their tickets, adds masks, and keeps the share until it has a receipt.

        counts = share + mask:   the shuffler adds shares, the helper adds masks, the analyzer adds both sums

    A job is one whole round of a batch: with other slots than the shuffler's, the sum would be uniform noise. It is
    done in one transaction, so after a crash the same job gives the same share, and no other job replaces it.

    The ticket's key is sealed with each seed, so a shuffler can neither invent users nor replace their seeds. If one
    seed is bad, no sum is made: the others are fewer users than its noise is for. The analyzer burns the round.

    Parameters
    ----------
    ticket_key
        The key of tickets that the registrar and this helper share.
    leader_key, analyzer_key
        Public keys of the shuffler and of the analyzer.
    keyring
        The keys that open seeds.
    """

    def __init__(
        self,
        db: Database,
        *,
        task_id: str,
        task: bytes,
        ticket_key: bytes,
        leader_key: str,
        analyzer_key: str,
        keyring: Keyring,
        sign: Signer,
    ) -> None:
        self._db, self._task_id, self._task, self._tickets = db, task_id, task, TicketKeys(ticket_key, task, HELPER)
        self._leader_key, self._analyzer_key, self.keyring, self._sign = leader_key, analyzer_key, keyring, sign
        with db.transaction() as rows:
            found = rows.execute("select mark from binding where one = 1")
            if not found:
                rows.execute("insert into binding (one, mark) values (1, ?)", task)
        if found and bytes(found[0][0]) != task:
            raise BandannaError(f"{db.name} belongs to another task")

    def job(self, content: bytes, signature: Any, *, epoch: int, round_: int) -> tuple[int, bytes]:
        """Do a job and return (201, share), or (200, share) if it was done before; raise JobRefused."""
        if not verify(self._leader_key, self._task_id, "job", content, signature):
            raise JobRefused(403, "signature", "a job that the shuffler has not signed")
        try:
            job = read_job(content, self._task_id)
        except Unreadable as error:
            raise JobRefused(422, "job", str(error)) from error
        if (job.batch.epoch, job.round) != (epoch, round_):
            raise JobRefused(422, "job", "a job for another batch than its address says")
        with self._db.reading() as rows:
            done = self._find_done(rows, job)
        if done is not None:
            return 200, done.share
        key = write_seal_key(*self.keyring.active(), self._sign)
        masks, bad = open_masks(job, self._task, self.keyring.openers(), self._tickets)
        try:
            parts = split_masks_by_part(job, masks)
        except Unreadable as error:
            raise JobRefused(422, "plan", str(error)) from error
        with self._db.transaction() as rows:
            done = self._find_done(rows, job)  # by another request, in the meantime
            return (201, self._finish_job(rows, job, parts, bad, key)) if done is None else (200, done.share)

    def waiting(self) -> list[StoredJob]:
        """Return the jobs without a receipt, oldest first; raise FencedError if another process sends them."""
        self._db.check_claim()
        sql = f"select {_COLUMNS} from jobs where state = ? order by epoch, round"
        with self._db.reading() as rows:
            return [StoredJob(*row) for row in rows.execute(sql, WAITING)]

    def receipted(self, epoch: int, round_: int, receipt: Any, *, other: bool = False) -> str:
        """Store the analyzer's receipt of a round; raise Unreadable unless the analyzer has signed it.

        Only a signed receipt changes anything here. `other`: the round was released from another share than the
        helper's. Return the job's state: "released", or "unusable", which ends its streams. A job with a bad seed is
        always unusable.
        """
        check_receipt(receipt, task_id=self._task_id, epoch=epoch, round_=round_, key=self._analyzer_key)
        with self._db.transaction() as rows:
            done = _select_job(rows, epoch, round_)
            counts = done is not None and not canonical.loads(done.share)["bad"] and not other
            state = RELEASED if counts and receipt.get("outcome") == "released" else UNUSABLE
            sql = "update jobs set state = ?, receipt = ? where epoch = ? and round = ? and state = ?"  # once
            rows.execute(sql, state, canonical.dumps(receipt).decode(), epoch, round_, WAITING)
            rounds = rows.execute("select rounds, state from jobs where epoch = ?", epoch)
            if rounds and sum(each != WAITING for _, each in rounds) == rounds[0][0]:
                rows.execute("delete from slots where epoch = ?", epoch)
            done = _select_job(rows, epoch, round_)
        self._db.scrub()  # delete the slots from logs, too
        return state if done is None else done.state

    def _find_done(self, rows: Transaction, job: MixJob) -> StoredJob | None:
        done = _select_job(rows, job.batch.epoch, job.round)
        if done is not None and done.digest != job.digest:
            raise JobRefused(409, "other-job", "another job was done for this round of the batch")
        return done

    def _finish_job(
        self, rows: Transaction, job: MixJob, masks: list[PartMasks], bad: int, key: dict[str, Any]
    ) -> bytes:
        epoch, slots = job.batch.epoch, [entry.slot for entry in job.entries]
        others = rows.execute("select checksum from jobs where epoch = ?", epoch)
        if any(checksum != job.checksum for (checksum,) in others):
            raise JobRefused(409, "slots", "other slots than in another round of the same batch")
        for start in range(0, len(slots), _MOST_VALUES):
            portion = slots[start : start + _MOST_VALUES]
            sql = f"select slot from slots where epoch <> ? and slot in ({', '.join('?' * len(portion))})"
            if rows.execute(sql, epoch, *portion):
                raise JobRefused(422, "slots", "a slot that is in another batch")
        if not others:
            rows.execute("delete from slots where epoch <= ?", epoch - MOST_EPOCHS)
            rows.many("insert into slots (slot, epoch) values (?, ?)", [(slot, epoch) for slot in slots])
        try:
            parts = [self._mix_part(rows, job, each, usable=not bad) for each in masks]
        except InvalidArgument as error:  # fewer users than the noise is calibrated for
            raise JobRefused(422, "plan", str(error)) from error
        share = write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=job.round,
            mixer="helper",
            count=len(job.entries),
            checksum=job.checksum,
            bad=bad,
            parts=[] if bad else parts,
            key=key,
        )
        stored = StoredJob(epoch, job.round, job.digest, job.checksum, WAITING, share, self._sign("share", share))
        sql = f"insert into jobs ({_COLUMNS}, rounds) values (?, ?, ?, ?, ?, ?, ?, ?)"
        rows.execute(sql, *stored, len(job.batch.rounds))
        return share

    def _mix_part(self, rows: Transaction, job: MixJob, masks: PartMasks, *, usable: bool) -> str:
        """Return what one part forwards, and move its stream forward.

        A stream continues when the round before has a receipt that it was released, and never after an unusable round:
        a stream that is put back would release sums of the same users twice.
        """
        stream, now = masks.stream, (job.batch.epoch, job.round)
        if stream is None:
            return masks.add(None)[1] if usable else ""
        mixer, state = make_mixer_encoding().dumps(masks.mixer), None
        last = rows.execute("select epoch, round, state from stream_states where stream = ?", stream)
        if last:
            epoch, round_, text = last[0]
            before = _select_job(rows, epoch, round_)
            if before is None or before.state == UNUSABLE:
                raise JobRefused(409, "ended", "a stream that has ended with an unusable round")
            if now <= (epoch, round_):
                raise JobRefused(409, "order", "a stream that has had a later batch already")
            if before.state != RELEASED:
                raise JobRefused(503, "waiting", "the batch before has no receipt yet: send it again later")
            stored = canonical.loads(text)
            if stored["mixer"] != mixer:  # with smaller levels, sums that are not full would be released
                raise JobRefused(409, "mixer", "a stream continues with another mixer than it began with")
            state = stored["state"]
        state, views, sums = masks.add(state) if usable else (state, "", [])
        rows.execute("delete from stream_states where stream = ?", stream)
        text = canonical.dumps({"mixer": mixer, "state": state}).decode()
        rows.execute("insert into stream_states (stream, epoch, round, state) values (?, ?, ?, ?)", stream, *now, text)
        # The primary key refuses a sum that was released before.
        sql = "insert into sums (stream, level, number, epoch, round) values (?, ?, ?, ?, ?)"
        rows.many(sql, [(stream, level, number, *now) for level, number in sums])
        return views
