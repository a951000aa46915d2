"""The helper, a second mixer: jobs, masks, keys and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """With the status and the reason that the shuffler is answered, and what else it is told."""

    def __init__(self, status: int, reason: str, message: str, **details: Any) -> None:
        self.status, self.reason, self.details = status, reason, details
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the parts."""
        return _unpickle_job_refused, (self.status, self.reason, str(self), self.details)


def _unpickle_job_refused(status: int, reason: str, message: str, details: dict[str, Any]) -> JobRefused:
    return JobRefused(status, reason, message, **details)


# Keys


MOST = 256
DELAY = 3600.0  # seconds for which a new key is pending


class Keyring:
    """The keys for which devices seal seeds, in the helper's database; `first` is the task's pair, secret and public.

        pending -> active (after `delay` seconds) -> expired -> deleted

    One key is active. Every share tells the analyzer which, and devices learn it from publications, which are the same
    for all of them. A key that is not deleted opens what was sealed for it; a deleted one opens nothing again. Number 0
    is the task's own. Reports name a key in one byte, so a task has at most 256.
    """

    def __init__(
        self, db: Database, *, first: tuple[str, str], delay: float = DELAY, now: Callable[[], float] = time.time
    ) -> None:
        self._db, self._first = db, first
        self._delay, self._now = validation.non_negative("delay", delay), now
        with db.transaction() as transaction:
            known = transaction.execute("select public from keys where id = 0")
            if not known:
                sql = "insert into keys (id, secret, public, state, since) values (0, null, ?, 'active', ?)"
                transaction.execute(sql, first[1], self._now())
        if known and known[0][0] != first[1]:
            raise BandannaError(f"{db.name} has another first key than the task")

    def openers(self) -> dict[int, Opener]:
        """Of all keys that are not deleted."""
        with self._db.reading() as transaction:
            rows = transaction.execute("select id, secret from keys where state <> 'deleted'")
        return {number: Opener(self._first[0] if secret is None else secret) for number, secret in rows}

    def public(self) -> list[dict[str, Any]]:
        """What the operator may know: number, public key, state, and since when (pending: from when) it is active."""
        with self._db.transaction() as transaction:
            self._settle(transaction)
            sql = "select id, public, state, since from keys where state <> 'deleted' order by id"
            rows = transaction.execute(sql)
        return [{"id": one, "public": public, "state": state, "since": since} for one, public, state, since in rows]

    def active(self) -> tuple[int, str]:
        """Number and public half of the key for which devices are to seal."""
        return next((each["id"], each["public"]) for each in self.public() if each["state"] == "active")

    def rotate(self) -> int:
        """Make the next key, pending until `delay` seconds have passed; its number."""
        secret, public = sealing_key()
        with self._db.transaction() as transaction:
            self._settle(transaction)
            if transaction.execute("select id from keys where state = 'pending'"):
                raise BandannaError("a key is pending already: wait until it is active")
            number = int(transaction.execute("select max(id) from keys")[0][0]) + 1
            if number >= MOST:
                raise BandannaError(f"all {MOST} keys of the task are used: make another task")
            sql = "insert into keys (id, secret, public, state, since) values (?, ?, ?, 'pending', ?)"
            transaction.execute(sql, number, secret, public, self._now() + self._delay)
            self._settle(transaction)
        return number

    def delete(self, number: Any) -> None:
        """An expired key, for ever; of number 0 also remove the secret from the task's secrets."""
        with self._db.transaction() as transaction:
            self._settle(transaction)
            expired = [row[0] for row in transaction.execute("select id from keys where state = 'expired' order by id")]
            if type(number) is not int or number not in expired:
                raise InvalidArgument(
                    "id", number, f"an expired key: {', '.join(map(str, expired)) or 'there is none'}"
                )
            transaction.execute("update keys set state = 'deleted', secret = null where id = ?", number)
        self._db.scrub()

    def _settle(self, transaction: Transaction) -> None:
        """A pending key whose time has come is active, and the one before is not any more."""
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

    @property
    def text(self) -> str:
        """The mixer, as a plan holds it."""
        return make_mixer_encoding().dumps(self.mixer)

    def mixed(self, held: str | None) -> tuple[str, str, list[tuple[int, int]]]:
        """Add the masks to what is held.

        Parameters
        ----------
        held
            What is held before them; None for nothing.

        Returns
        -------
        tuple[str, str, list[tuple[int, int]]]
            What is held after them, what is forwarded, and the level and number of each sum of a stream in it.
        """
        before = self.mixer.empty() if held is None else make_mixer_encoding().loads(held)
        after, views = mix_messages(self.mixer, before, self.messages)
        full = [view for view in views if isinstance(view, FullBatches)]
        sums = [(level, view.users // each.users) for view in full for level, each in enumerate(view.levels)]
        return make_mixer_encoding().dumps(after), make_mixer_encoding().dumps(views), sums


def split_masks_by_part(job: MixJob, masks: list[Ints]) -> list[PartMasks]:
    """One for each part of the job's round; Unreadable if the plan cannot be followed."""
    parts = job.parts.parts
    if not job.parts.by_arm:
        return [_masks_of_part(part, rows) for part, rows in zip(parts, masks, strict=True)]
    try:
        arms = job.batch.arms_at(np.arange(len(job.entries)))
    except (IndexError, ValueError, TypeError) as error:
        raise Unreadable("a plan that does not say who plays which arm") from error
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
    """For each part that a user reports for the masks of everybody, (users, length), and how many users are bad.

    Bad is whose seed cannot be opened as that of this slot, round and plan, or comes without the ticket's key: the
    shuffler has put something else in its place, or the user has sent it. Their masks are zeros, and no sum is made.
    """
    lengths, epoch, bad = job.parts.lengths, job.batch.epoch, 0
    made = [np.zeros((len(job.entries), length), dtype=np.int64) for length in lengths]
    for place, entry in enumerate(job.entries):
        info = sealing_info(task, job.batch, job.round, entry.slot)
        seed = _open_seed(openers.get(entry.key_id), entry.sealed, info, tickets.key(epoch, entry.slot))
        if seed is None:
            bad += 1
            continue
        for rows, own in zip(made, expand_masks(seed, lengths), strict=True):
            rows[place] = own
    return made, bad


def _open_seed(opener: Opener | None, sealed: bytes, info: bytes, key: bytes) -> bytes | None:
    """The seed, if it was sealed for this, together with the ticket's key."""
    if opener is None:
        return None
    try:
        opened = opener.open(sealed, info)
    except BandannaError:
        return None
    return opened[:SEED] if is_equal_mac(opened[SEED:], key) else None


# Tables


# jobs      one round of one batch, its share and the analyzer's receipt:  stored -> released | unusable
# slots     who is in batches that are not yet receipted, so that nobody is in two; the newest epochs only
# held      what a stream's mixers hold, and after which round: one row, which only moves forward
# sums      every sum of a stream that has left: of each level, each number once
# keys      of sealed seeds: pending -> active -> expired -> deleted; number 0 is in the task's secrets, not here
# binding   the task that this database belongs to
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


class StoredJob(NamedTuple):
    """A job that was done."""

    epoch: int
    round: int
    digest: bytes
    checksum: str
    state: str
    share: bytes
    signature: str


_COLUMNS = ", ".join(StoredJob._fields)


def select_job(transaction: Transaction, epoch: int, round_: int) -> StoredJob | None:
    """The job of a round, if it was done."""
    rows = transaction.execute(f"select {_COLUMNS} from jobs where epoch = ? and round = ?", epoch, round_)
    return StoredJob(*rows[0]) if rows else None


def select_jobs(transaction: Transaction, epoch: int) -> list[StoredJob]:
    """All rounds of a batch that were done."""
    return [StoredJob(*row) for row in transaction.execute(f"select {_COLUMNS} from jobs where epoch = ?", epoch)]


def select_waiting(transaction: Transaction) -> list[StoredJob]:
    """Jobs whose receipt is not there yet, the oldest first."""
    sql = f"select {_COLUMNS} from jobs where state = ? order by epoch, round"
    return [StoredJob(*row) for row in transaction.execute(sql, WAITING)]


def store_job(transaction: Transaction, done: StoredJob, rounds: int) -> None:
    """A job, with everything that its share is."""
    sql = f"insert into jobs ({_COLUMNS}, rounds) values (?, ?, ?, ?, ?, ?, ?, ?)"
    transaction.execute(sql, *done, rounds)


def store_receipt(transaction: Transaction, epoch: int, round_: int, state: str, receipt: str) -> None:
    """What the analyzer has signed of it; a receipt is never taken back."""
    sql = "update jobs set state = ?, receipt = ? where epoch = ? and round = ? and state = ?"
    transaction.execute(sql, state, receipt, epoch, round_, WAITING)


def select_foreign_slots(transaction: Transaction, epoch: int, slots: Sequence[bytes]) -> set[bytes]:
    """Those of these slots that are in another epoch."""
    found: set[bytes] = set()
    for start in range(0, len(slots), _PORTION):
        portion = slots[start : start + _PORTION]
        places = ", ".join("?" * len(portion))
        sql = f"select slot from slots where epoch <> ? and slot in ({places})"
        found.update(row[0] for row in transaction.execute(sql, epoch, *portion))
    return found


def store_slots(transaction: Transaction, epoch: int, slots: Sequence[bytes]) -> None:
    """Remember who is in a batch; forget those of old ones."""
    transaction.execute("delete from slots where epoch <= ?", epoch - KEPT)
    transaction.many("insert into slots (slot, epoch) values (?, ?)", [(slot, epoch) for slot in slots])


def forget_receipted(transaction: Transaction, epoch: int) -> None:
    """The slots of a batch, when all its rounds are receipted."""
    rows = transaction.execute("select rounds, state from jobs where epoch = ?", epoch)
    if rows and sum(state != WAITING for _, state in rows) == rows[0][0]:
        transaction.execute("delete from slots where epoch = ?", epoch)


def select_stream(transaction: Transaction, stream: int) -> tuple[int, int, str] | None:
    """The last batch and round that a stream has gone through, and what its mixer holds since."""
    rows = transaction.execute("select epoch, round, state from held where stream = ?", stream)
    return None if not rows else (int(rows[0][0]), int(rows[0][1]), str(rows[0][2]))


def store_stream(transaction: Transaction, stream: int, epoch: int, round_: int, state: str) -> None:
    """What its mixer holds after a round, in place of what it held before: a stream is never put back."""
    transaction.execute("delete from held where stream = ?", stream)
    transaction.execute(
        "insert into held (stream, epoch, round, state) values (?, ?, ?, ?)", stream, epoch, round_, state
    )


def store_released_sums(
    transaction: Transaction, stream: int, sums: Sequence[tuple[int, int]], epoch: int, round_: int
) -> None:
    """Enter the sums (level, number) that leave with a round; StorageFailed if one of them has left before."""
    sql = "insert into sums (stream, level, number, epoch, round) values (?, ?, ?, ?, ?)"
    transaction.many(sql, [(stream, level, number, epoch, round_) for level, number in sums])


def check_task(transaction: Transaction, own: bytes) -> bytes:
    """The task that the database belongs to; `own` if it is new."""
    rows = transaction.execute("select mark from binding where one = 1")
    if rows:
        return bytes(rows[0][0])
    transaction.execute("insert into binding (one, mark) values (1, ?)", own)
    return own


# The helper


class Helper:
    """The second mixer: open seeds, check their tickets, add masks, and keep the share until it has a receipt.

        counts = share + mask:   the shuffler adds shares, the helper adds masks, the analyzer adds both sums

    A job is one round of a batch, whole or not at all: with another set of slots than the shuffler's, the sum would be
    uniform noise. A job is done in one transaction, so after a crash the same job gives the same share, and no other
    job is done in its place.

    The ticket's key is sealed with each seed: a shuffler can neither invent people nor replace their seeds by its own.
    If one seed is bad, no sum is made: a sum over the others would be of fewer people than its noise is for. The share
    then says that the round is unusable, and the analyzer burns it.

    ticket_key  the one that the registrar and this helper share
    leader_key, analyzer_key  public keys of the shuffler and of the analyzer;  sign: with the helper's own
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
        self._leader_key, self._analyzer_key, self._keyring, self._sign = leader_key, analyzer_key, keyring, sign
        with db.transaction() as transaction:
            found = check_task(transaction, task)
        if found != task:
            raise BandannaError(f"{db.name} belongs to another task")

    def job(self, content: bytes, signature: Any, *, epoch: int, round_: int) -> tuple[int, bytes]:
        """(201, share) when it is done and stored, (200, the same share) whenever it comes again; else JobRefused."""
        if not verify(self._leader_key, self._task_id, "job", content, signature):
            raise JobRefused(403, "signature", "a job that the shuffler has not signed")
        try:
            job = read_job(content, self._task_id)
        except Unreadable as error:
            raise JobRefused(422, "job", str(error)) from error
        if (job.batch.epoch, job.round) != (epoch, round_):
            raise JobRefused(422, "job", "a job for another batch than its address says")
        with self._db.reading() as transaction:
            known = self._known(transaction, job)
        if known is not None:
            return 200, known.share
        key = write_seal_key(*self._keyring.active(), self._sign)
        masks, bad = open_masks(job, self._task, self._keyring.openers(), self._tickets)
        try:
            added = split_masks_by_part(job, masks)
        except Unreadable as error:
            raise JobRefused(422, "plan", str(error)) from error
        with self._db.transaction() as transaction:
            known = self._known(transaction, job)
            if known is not None:
                return 200, known.share
            return 201, self._finish_job(transaction, job, added, bad, key)

    def waiting(self) -> list[StoredJob]:
        """Shares for which the analyzer has given no receipt yet; Fenced where another process sends them."""
        self._db.check_claim()
        with self._db.reading() as transaction:
            return select_waiting(transaction)

    def receipted(self, epoch: int, round_: int, receipt: Any, *, other: bool = False) -> str:
        """Enter the analyzer's receipt of a round; Unreadable, and nothing changes, unless the analyzer has signed it.

        No answer of the analyzer but a receipt changes anything here: whoever is between could invent any other.

        Parameters
        ----------
        epoch, round_
            The round that it has to be a receipt of.
        receipt
            What the analyzer has sent.
        other
            Whether the analyzer says that the round was released from another share than the helper's.

        Returns
        -------
        str
            The state of the job: "released", or "unusable", which ends its streams. A job with a bad seed is unusable
            whatever the analyzer has signed: nothing was added for it.
        """
        check_receipt(receipt, task_id=self._task_id, epoch=epoch, round_=round_, key=self._analyzer_key)
        with self._db.transaction() as transaction:
            done = select_job(transaction, epoch, round_)
            counts = done is not None and not canonical.loads(done.share)["bad"] and not other
            released = counts and receipt.get("outcome") == "released"
            state = RELEASED if released else UNUSABLE
            store_receipt(transaction, epoch, round_, state, canonical.dumps(receipt).decode())
            forget_receipted(transaction, epoch)
            known = select_job(transaction, epoch, round_)
        self._db.scrub()  # who took part is not needed any more
        return state if known is None else known.state

    def _known(self, transaction: Transaction, job: MixJob) -> StoredJob | None:
        """The same job, done before; another one in its place is refused."""
        known = select_job(transaction, job.batch.epoch, job.round)
        if known is not None and known.digest != job.digest:
            raise JobRefused(409, "other-job", "another job was done for this round of the batch")
        return known

    def _finish_job(
        self, transaction: Transaction, job: MixJob, added: list[PartMasks], bad: int, key: dict[str, Any]
    ) -> bytes:
        """The share, with everything that goes with it."""
        epoch, slots = job.batch.epoch, [entry.slot for entry in job.entries]
        others = select_jobs(transaction, epoch)
        if any(other.checksum != job.checksum for other in others):
            raise JobRefused(409, "slots", "other slots than in another round of the same batch")
        if select_foreign_slots(transaction, epoch, slots):
            raise JobRefused(422, "slots", "a slot that is in another batch")
        if not others:
            store_slots(transaction, epoch, slots)
        try:
            parts = [self._mix_part(transaction, job, each, usable=not bad) for each in added]
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
        stored = StoredJob(epoch, job.round, job.digest, job.checksum, "stored", share, self._sign("share", share))
        store_job(transaction, stored, len(job.batch.rounds))
        return share

    def _mix_part(self, transaction: Transaction, job: MixJob, added: PartMasks, *, usable: bool) -> str:
        """Return what one part forwards, and move its stream forward.

        Of a job that is not usable nothing is added: the stream is at its round then, and the round's receipt ends it.
        A stream goes on when the round before has a receipt that it was released. After a round that could not be used
        it never does: a sum with a hole is none, and a stream that is put back lets out sums of the same people twice.
        """
        if added.stream is None:
            return added.mixed(None)[1] if usable else ""
        now, last = (job.batch.epoch, job.round), select_stream(transaction, added.stream)
        if last is not None:
            before = select_job(transaction, *last[:2])
            if before is None or before.state == UNUSABLE:
                raise JobRefused(409, "ended", "a stream that has ended with a round that could not be used")
            if now <= last[:2]:
                raise JobRefused(409, "order", "a stream that has gone through a later batch already")
            if before.state != RELEASED:
                raise JobRefused(503, "waiting", "the batch before has no receipt yet: send it again later")
        mixer, before_it = added.text, None if last is None else canonical.loads(last[2])
        if before_it is not None and before_it["mixer"] != mixer:  # smaller levels would let out those not full
            raise JobRefused(409, "mixer", "a stream goes on with another mixer than it began with")
        held = None if before_it is None else before_it["held"]
        held, views, sums = added.mixed(held) if usable else (held, "", [])
        store_stream(transaction, added.stream, *now, canonical.dumps({"mixer": mixer, "held": held}).decode())
        store_released_sums(transaction, added.stream, sums, *now)
        return views
