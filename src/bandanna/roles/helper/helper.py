"""The second mixer: opens seeds, checks their tickets, adds masks, and keeps its share until it is receipted.

    counts = share + mask:   the shuffler adds shares, the helper adds masks, the analyzer adds both sums

One job for each round of a batch, whole or not at all: with another set of slots than the shuffler's, the sum would be
uniform noise. What is done for a job is written in one transaction, so that after a crash the same job gives the same
share, and no other one is done in its place.

What shows that a seed is of somebody whom the registrar knows is sealed with it: a shuffler can neither invent people
nor put seeds of its own in the place of others'. If one seed is bad no sum is made at all: a sum over those that are
left would be of fewer people than its noise is for. The round is told to be unusable, and the analyzer burns it.
"""

from __future__ import annotations

from typing import Any

from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.roles.helper import tables
from bandanna.roles.helper.errors import JobRefused
from bandanna.roles.helper.keyring import Keyring
from bandanna.roles.helper.mixing import Summand, masks_of, summands
from bandanna.roles.helper.tables import Stored
from bandanna.storage.database import Database, Transaction
from bandanna.wire import canonical
from bandanna.wire.jobs import Job, read_job
from bandanna.wire.keys import Signer, verify
from bandanna.wire.sealing import write_seal_key
from bandanna.wire.shares import check_receipt, write_share
from bandanna.wire.ticket import HELPER, Tickets


class Helper:
    """What a helper does, in transactions of its database.

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
        self._db, self._task_id, self._task, self._tickets = db, task_id, task, Tickets(ticket_key, task, HELPER)
        self._leader_key, self._analyzer_key, self._keyring, self._sign = leader_key, analyzer_key, keyring, sign
        with db.transaction() as transaction:
            found = tables.mark(transaction, task)
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
        masks, bad = masks_of(job, self._task, self._keyring.openers(), self._tickets)
        try:
            added = summands(job, masks)
        except Unreadable as error:
            raise JobRefused(422, "plan", str(error)) from error
        with self._db.transaction() as transaction:
            known = self._known(transaction, job)
            if known is not None:
                return 200, known.share
            return 201, self._done(transaction, job, added, bad, key)

    def waiting(self) -> list[Stored]:
        """Shares for which the analyzer has given no receipt yet; Fenced where another process sends them."""
        self._db.check_claim()
        with self._db.reading() as transaction:
            return tables.waiting(transaction)

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
            done = tables.job(transaction, epoch, round_)
            counts = done is not None and not canonical.loads(done.share)["bad"] and not other
            released = counts and receipt.get("outcome") == "released"
            state = tables.RELEASED if released else tables.UNUSABLE
            tables.answered(transaction, epoch, round_, state, canonical.dumps(receipt).decode())
            tables.forget_receipted(transaction, epoch)
            known = tables.job(transaction, epoch, round_)
        self._db.scrub()  # who took part is not needed any more
        return state if known is None else known.state

    def _known(self, transaction: Transaction, job: Job) -> Stored | None:
        """The same job, done before; another one in its place is refused."""
        known = tables.job(transaction, job.batch.epoch, job.round)
        if known is not None and known.digest != job.digest:
            raise JobRefused(409, "other-job", "another job was done for this round of the batch")
        return known

    def _done(self, transaction: Transaction, job: Job, added: list[Summand], bad: int, key: dict[str, Any]) -> bytes:
        """The share, with everything that goes with it."""
        epoch, slots = job.batch.epoch, [entry.slot for entry in job.entries]
        others = tables.jobs_of(transaction, epoch)
        if any(other.checksum != job.checksum for other in others):
            raise JobRefused(409, "slots", "other slots than in another round of the same batch")
        if tables.taken(transaction, epoch, slots):
            raise JobRefused(422, "slots", "a slot that is in another batch")
        if not others:
            tables.take(transaction, epoch, slots)
        try:
            parts = [self._mixed(transaction, job, each, usable=not bad) for each in added]
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
        stored = Stored(epoch, job.round, job.digest, job.checksum, "stored", share, self._sign("share", share))
        tables.store(transaction, stored, len(job.batch.rounds))
        return share

    def _mixed(self, transaction: Transaction, job: Job, added: Summand, *, usable: bool) -> str:
        """Return what one part forwards, and move its stream forward.

        Of a job that is not usable nothing is added: the stream is at its round then, and the round's receipt ends it.
        A stream goes on when the round before has a receipt that it was released. After a round that could not be used
        it never does: a sum with a hole is none, and a stream that is put back lets out sums of the same people twice.
        """
        if added.stream is None:
            return added.mixed(None)[1] if usable else ""
        now, last = (job.batch.epoch, job.round), tables.held(transaction, added.stream)
        if last is not None:
            before = tables.job(transaction, *last[:2])
            if before is None or before.state == tables.UNUSABLE:
                raise JobRefused(409, "ended", "a stream that has ended with a round that could not be used")
            if now <= last[:2]:
                raise JobRefused(409, "order", "a stream that has gone through a later batch already")
            if before.state != tables.RELEASED:
                raise JobRefused(503, "waiting", "the batch before has no receipt yet: send it again later")
        mixer, before_it = added.text, None if last is None else canonical.loads(last[2])
        if before_it is not None and before_it["mixer"] != mixer:  # smaller levels would let out those not full
            raise JobRefused(409, "mixer", "a stream goes on with another mixer than it began with")
        held = None if before_it is None else before_it["held"]
        held, views, sums = added.mixed(held) if usable else (held, "", [])
        tables.hold(transaction, added.stream, *now, canonical.dumps({"mixer": mixer, "held": held}).decode())
        tables.let_out(transaction, added.stream, sums, *now)
        return views
