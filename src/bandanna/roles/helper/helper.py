"""The second mixer: checks tickets, opens seeds, adds masks, and keeps its share until the analyzer has receipted it.

    counts = share + mask:   the shuffler adds shares, the helper adds masks, the analyzer adds both sums

One job for each round of a batch, whole or not at all: with another set of slots than the shuffler's, the sum would be
uniform noise. What is done for a job is written in one transaction, so that after a crash the same job gives the same
share, and no other one is done in its place.
"""

from __future__ import annotations

from collections.abc import Callable
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
from bandanna.wire.keys import verify
from bandanna.wire.shares import write_share
from bandanna.wire.ticket import agrees, ticket

_SHOWN = 100  # places that a refusal names
_STATES = {202: "sent", 200: "released", 201: "released", 422: "burned", 409: "conflict"}


class Helper:
    """What a helper does, in transactions of its database.

    leader_key  the shuffler's public key;  sign: with the helper's own
    """

    def __init__(
        self,
        db: Database,
        *,
        task_id: str,
        task: bytes,
        ticket_key: bytes,
        leader_key: str,
        keyring: Keyring,
        sign: Callable[[bytes], str],
    ) -> None:
        self._db, self._task_id, self._task, self._ticket_key = db, task_id, task, ticket_key
        self._leader_key, self._keyring, self._sign = leader_key, keyring, sign
        with db.transaction() as transaction:
            found = tables.mark(transaction, task)
        if found != task:
            raise BandannaError(f"{db.name} belongs to another task")

    def job(self, content: bytes, signature: Any, *, epoch: int, round_: int) -> tuple[int, bytes]:
        """(201, share) when it is done and stored, (200, the same share) whenever it comes again; else JobRefused."""
        if not verify(self._leader_key, content, signature):
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
        self._check_tickets(job)
        masks, bad = masks_of(job, self._task, self._keyring.openers())
        try:
            added = summands(job, masks)
        except Unreadable as error:
            raise JobRefused(422, "plan", str(error)) from error
        with self._db.transaction() as transaction:
            known = self._known(transaction, job)
            if known is not None:
                return 200, known.share
            return 201, self._done(transaction, job, added, bad)

    def waiting(self) -> list[Stored]:
        """Shares for which the analyzer has given no receipt yet."""
        with self._db.reading() as transaction:
            return tables.waiting(transaction)

    def answered(self, epoch: int, round_: int, status: int, receipt: Any = None) -> str | None:
        """Enter what the analyzer has said of a share: 202 it waits for the other one, 200 and 201 it is released,
        422 burned, 409 it has another one. The state of the job then; None for an answer that means: send it again."""
        state = _STATES.get(status)
        if state == "released" and not isinstance(receipt, dict):
            state = "sent"
        if state is None:
            return None
        with self._db.transaction() as transaction:
            text = canonical.dumps(receipt).decode() if isinstance(receipt, dict) else None
            tables.answered(transaction, epoch, round_, state, text)
            if state in tables.DONE:
                tables.forget_receipted(transaction, epoch)
                tables.settle_held(transaction, epoch, round_, burned=state == "burned")
            if text is not None and state in tables.DONE:
                number, chain = receipt.get("number"), receipt.get("chain")
                if type(number) is int and isinstance(chain, str):
                    tables.keep_witness(transaction, number, chain)
        if state in tables.DONE:
            self._db.scrub()  # who took part is not needed any more
        return state

    def _known(self, transaction: Transaction, job: Job) -> Stored | None:
        """The same job, done before; another one in its place is refused."""
        known = tables.job(transaction, job.batch.epoch, job.round)
        if known is not None and known.digest != job.digest:
            raise JobRefused(409, "other-job", "another job was done for this round of the batch")
        return known

    def _check_tickets(self, job: Job) -> None:
        """The registrar knows everybody: a shuffler cannot invent users."""
        epoch, key = job.batch.epoch, self._ticket_key
        forged = [
            place
            for place, entry in enumerate(job.entries)
            if not agrees(entry.mac, ticket(key, self._task, epoch, entry.slot))
        ]
        if forged:
            message = f"{len(forged)} entries without a ticket for this epoch"
            raise JobRefused(422, "ticket", message, places=forged[:_SHOWN], count=len(forged))

    def _done(self, transaction: Transaction, job: Job, added: list[Summand], bad: int) -> bytes:
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
            parts = [self._mixed(transaction, job, each) for each in added]
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
            parts=parts,
            witness=tables.witness(transaction),
        )
        stored = Stored(epoch, job.round, job.digest, job.checksum, "stored", share, self._sign(share))
        tables.store(transaction, stored, len(job.batch.rounds))
        return share

    def _mixed(self, transaction: Transaction, job: Job, added: Summand) -> str:
        """What one part forwards. A stream goes on from the last batch that was released: what a burned one has left
        is taken away with its receipt, so nothing is added before that is there."""
        if added.stream is None:
            return added.mixed(None)[1]
        now, last = (job.batch.epoch, job.round), tables.held(transaction, added.stream)
        if last is not None:
            if now <= last[:2]:
                raise JobRefused(409, "order", "a stream that has gone through a later batch already")
            before = tables.job(transaction, *last[:2])
            if before is None or before.state != "released":
                raise JobRefused(503, "waiting", "the batch before has no receipt yet: send it again later")
        mixer, before_it = added.text, None if last is None else canonical.loads(last[2])
        if before_it is not None and before_it["mixer"] != mixer:  # smaller levels would let out those not full
            raise JobRefused(409, "mixer", "a stream goes on with another mixer than it began with")
        held, views = added.mixed(None if before_it is None else before_it["held"])
        tables.hold(transaction, added.stream, *now, canonical.dumps({"mixer": mixer, "held": held}).decode())
        return views
