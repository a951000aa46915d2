"""Accept, close, forget: every step is one transaction, and what was acknowledged is in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.roles.collector import closing
from bandanna.roles.collector.filling import Filling
from bandanna.roles.collector.tables import INSERT
from bandanna.roles.collector.verdict import MALFORMED, Verdict
from bandanna.storage.database import Database, Transaction
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.plan import Batch
from bandanna.wire.record import FINAL, Fields, split
from bandanna.wire.sealing import checksum
from bandanna.wire.shares import write_share
from bandanna.wire.ticket import Tickets, bound, refusal

Plan = tuple[Sequence[Batch], tuple[int, int]]  # the running batch and the one after it; epoch and round awaited

_KEPT = 2  # batches that are over, of which it is still known which slots were in them


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A round of a batch that waits for its receipt: what is to be forwarded."""

    epoch: int
    round: int
    share: bytes


class Collector:
    """The slots of the running batch and of the one after it.

    task, key  of the tickets
    grace      seconds between full and closed;  answered: of tests, close when all have reported
    name       who forwards;  finish: what a mixer does before it closes a batch, for mixers that draw noise
    """

    MOST = 1000  # records in a request

    def __init__(
        self,
        database: Database,
        *,
        task_id: str,
        task: bytes,
        key: bytes,
        grace: float,
        answered: bool = False,
        name: str = "shuffler",
        clock: Callable[[], float] = time.time,
        finish: closing.Finish = closing.nothing,
    ) -> None:
        self._database, self._task_id, self._task, self._key = database, task_id, task, key
        self._grace, self._answered, self._name, self._clock, self._finish = grace, answered, name, clock, finish
        self._tickets = Tickets(key, task)
        self._lock = threading.RLock()
        self._fillings: dict[int, Filling] = {}
        self._over: dict[int, Filling] = {}
        self.running = (0, 0)  # epoch and round of the batch that is closed next
        self.closes_at: float | None = None  # when that is; None: it waits for slots, or for its receipt
        self._closed = False  # the running round
        self._waits = False  # whether a closed round waits for its receipt
        self._told = False  # whether it knows of any plan
        self._known = False  # whether memory is what the rows say
        self._restore()

    def _restore(self) -> None:
        """From the rows, unless memory is known to agree with them."""
        if self._known:
            return
        fillings: dict[int, Filling] = {}
        with self._database.reading() as rows:
            for epoch, text in rows.execute("select epoch, plan from plans order by epoch"):
                fillings[epoch] = Filling(Batch.from_dict(loads(text)))
            query = "select epoch, round, place, version, slot, body from reports order by epoch, place, round, version"
            for epoch, round_, place, version, slot, body in rows.execute(query):
                filling = fillings[epoch]
                if slot not in filling.places:
                    filling.open(slot)
                filling.put(round_, place, version, body)
            done = "select epoch, count(*) from batches where state = 'receipted' group by epoch"
            receipted = {int(epoch): int(count) for epoch, count in rows.execute(done)}
        self._fillings = fillings
        if fillings:
            first = min(fillings)
            self.running = max(self.running, (first, receipted.get(first, 0)))
        self._told = self._told or bool(fillings)
        self._look()
        self._known = True

    def _look(self) -> None:
        """Which round is closed next, and when."""
        with self._database.reading() as rows:
            found = rows.execute("select epoch, round, state, closes_at from batches order by epoch, round")
        states = {(epoch, round_): (state, at) for epoch, round_, state, at in found}
        state, at = states.get(self.running, ("filling", None))
        self.closes_at = at if state == "full" else None
        self._closed = state in ("closed", "receipted")
        self._waits = any(state == "closed" for state, _ in states.values())

    def plan(self, batches: Sequence[Batch], running: tuple[int, int]) -> None:
        """The newest public plan: the running batch and its round, and the batch after it, where it is known."""
        with self._changing():
            self._replan({batch.epoch: batch for batch in batches if batch.rounds}, running)
            self.running, self._told = running, True
            self._look()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone, with a memory that agrees with the rows; if it fails, memory is read from them before it is used."""
        with self._lock:
            self._restore()
            self._known = False
            yield
            self._known = True

    def _replan(self, wanted: dict[int, Batch], running: tuple[int, int]) -> None:
        with self._database.transaction() as rows:
            _check_streams(rows, wanted, running[0])
            for epoch in [each for each in self._fillings if each not in wanted]:
                self._forget(rows, epoch)
            for epoch, batch in wanted.items():
                if epoch not in self._fillings:
                    _check_new(rows, epoch)
                    rows.execute("insert into plans values (?, ?)", epoch, dumps(batch.to_dict()).decode())
                    self._fillings[epoch] = Filling(batch)
            filling = self._fillings.get(running[0])
            if filling is not None and filling.full:
                self._begin(rows, running)

    def _begin(self, rows: Transaction, running: tuple[int, int]) -> None:
        """A round whose batch is full closes when grace has passed since now."""
        query = "insert into batches values (?, ?, 'full', ?, null, null) on conflict do nothing"
        rows.execute(query, *running, self._clock() + self._grace)

    def _forget(self, rows: Transaction, epoch: int) -> None:
        rows.execute("delete from reports where epoch = ?", epoch)
        rows.execute("delete from plans where epoch = ?", epoch)
        rows.execute("insert into batches values (?, 0, 'dropped', 0, null, null) on conflict do nothing", epoch)
        rows.execute("delete from batches where epoch < ?", epoch - 20)  # receipts of long ago witness nothing new
        self._over[epoch] = self._fillings.pop(epoch)
        for old in sorted(self._over)[:-_KEPT]:
            del self._over[old]

    def accept(self, requests: Sequence[bytes]) -> list[list[Verdict]]:
        """Keep what may be kept of these requests, in one transaction: when this returns, it is durable."""
        with self._changing():
            parsed = [self._parsed(request) for request in requests]
            wrong = self._out_of_range(parsed)
            rows: list[tuple[Any, ...]] = []
            before = self._full_running()
            verdicts = [[MALFORMED] if records is None else self._admitted(records, wrong, rows) for records in parsed]
            if rows:
                begins = self._full_running() and not before
                with self._database.transaction() as written:
                    written.many(INSERT, rows)
                    if begins:
                        self._begin(written, self.running)
                if begins:
                    self._look()
            return verdicts

    def _full_running(self) -> bool:
        filling = self._fillings.get(self.running[0])
        return filling is not None and (filling.full or self.running[1] >= len(filling.sizes))

    def _parsed(self, request: bytes) -> list[Fields] | None:
        try:
            return split(request, self.MOST) or None
        except InvalidArgument:
            return None

    def _out_of_range(self, parsed: Sequence[list[Fields] | None]) -> set[int]:
        """Records (by identity) whose numbers no honest device sends, where a mixer can see them."""
        groups: dict[tuple[int, int], list[Fields]] = {}
        for records in parsed:
            for record in records or ():
                groups.setdefault((record[2], record[3]), []).append(record)
        wrong: set[int] = set()
        for (epoch, number), group in groups.items():
            filling = self._fillings.get(epoch)
            if filling is None or number >= len(filling.plan.rounds):
                continue
            round_, size = filling.plan.rounds[number], filling.sizes[number]
            whole = [record for record in group if len(record[6]) == size]
            if whole and not closing.in_range(round_, [record[6] for record in whole]):
                wrong.update(id(one) for one in whole if not closing.in_range(round_, [one[6]]))
        return wrong

    def _admitted(self, records: list[Fields], wrong: set[int], rows: list[tuple[Any, ...]]) -> list[Verdict]:
        """One verdict for each record of a request."""
        tickets = [self._checked(record, wrong) for record in records]
        offered: dict[tuple[int, bytes], set[int]] = {}  # the rounds for which a request has good reports of a slot
        if any(len(filling.sizes) > 1 for filling in self._fillings.values()):
            for record, found in zip(records, tickets, strict=True):
                if isinstance(found, bytes):
                    offered.setdefault((record[2], record[0]), set()).add(record[3])
        return [
            self._placed(record, found, offered, rows) if isinstance(found, bytes) else found
            for record, found in zip(records, tickets, strict=True)
        ]

    def _checked(self, record: Fields, wrong: set[int]) -> bytes | Verdict:
        """A record's ticket; or what is wrong with it, whatever its slot has sent before."""
        slot, mac, epoch, round_, version, _, body = record
        filling = self._fillings.get(epoch)
        late = filling is None and self._told and epoch <= self.running[0]
        known = self._over.get(epoch) if filling is None else filling
        if known is None:  # without its plan a ticket cannot be told from a forged one: both are told as little
            return Verdict(reason="closed" if late else "early")
        ticket = bound(mac, known.plan.digest)
        if not self._tickets.agree(ticket, epoch, slot):  # forged, or for a batch of another plan
            return Verdict(reason="ticket")
        if filling is None:
            return self._too_late(known, slot) if late else Verdict(reason="early")
        if round_ >= len(filling.sizes) or version > FINAL or len(body) != filling.sizes[round_]:
            return Verdict(reason="length")
        return Verdict(reason="range") if wrong and id(record) in wrong else ticket

    def _placed(
        self, record: Fields, ticket: bytes, offered: dict[tuple[int, bytes], set[int]], rows: list[tuple[Any, ...]]
    ) -> Verdict:
        """A place for a good record, if there is one."""
        slot, _, epoch, round_, version, key_id, body = record
        filling, running = self._fillings[epoch], self.running
        over = (epoch, round_) < running or (self._closed and (epoch, round_) == running)
        place = filling.places.get(slot)
        if place is None:
            if epoch > running[0] and not self._full_running():
                return Verdict(reason="early")
            if len(filling.places) >= filling.plan.slots:
                return Verdict(reason="full", refusal=refusal(self._key, self._task, epoch, slot))
            if over:
                return Verdict(reason="closed")
            if len(filling.sizes) > 1 and len(offered[epoch, slot]) != len(filling.sizes):
                return Verdict(reason="incomplete")
            place = filling.open(slot)
        else:
            known = filling.has(round_, place, version, body)
            if known or known is None:
                return Verdict(place) if known else Verdict(reason="other")
            if over:
                return Verdict(reason="closed")
        filling.put(round_, place, version, body)
        rows.append((epoch, round_, place, version, slot, ticket, key_id, body))
        return Verdict(place)

    def _too_late(self, over: Filling, slot: bytes) -> Verdict:
        unused = slot not in over.places
        proof = refusal(self._key, self._task, over.plan.epoch, slot) if unused else b""
        return Verdict(reason="closed", refusal=proof)

    def close_due(self) -> bool:
        """Close the running round if it is due: its share is computed from the rows, and durable."""
        if self._known and self.closes_at is None:
            return False
        with self._changing():
            filling = self._fillings.get(self.running[0])
            if filling is None or self.closes_at is None:
                return False
            self.closes_at = min(self.closes_at, self._clock() + self._grace)  # a clock that was set back
            due = filling.answered(self.running[1]) if self._answered else self._clock() >= self.closes_at
            if not due:
                return False
            with self._database.transaction() as rows:
                share = self._share(rows, filling.plan, *self.running)
                query = "update batches set state = 'closed', share = ? where epoch = ? and round = ?"
                rows.execute(query, share.decode(), *self.running)
            self._look()
            return True

    def _share(self, rows: Transaction, plan: Batch, epoch: int, round_: int) -> bytes:
        query = "select place, slot, body from reports where epoch = ? and round = ? order by place, version"
        newest = {place: (slot, body) for place, slot, body in rows.execute(query, epoch, round_)}
        if sorted(newest) != list(range(plan.slots)):
            raise InvalidStatistic("reports", len(newest), f"one for each of {plan.slots} slots")
        bodies = [newest[place][1] for place in range(plan.slots)]
        views = closing.views(rows, plan, round_, bodies, self._finish)
        last = _last_receipt(rows)
        return write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=round_,
            mixer=self._name,
            count=plan.slots,
            checksum=checksum(slot for slot, _ in newest.values()),
            bad=0,
            parts=views,
            witness=None if last is None else (last["number"], last["chain"]),
        )

    def waiting(self) -> list[Closed]:
        """Rounds that are closed and have no receipt."""
        if self._known and not self._waits:
            return []
        query = "select epoch, round, share from batches where state = 'closed' order by epoch, round"
        with self._database.reading() as rows:
            return [Closed(epoch=e, round=r, share=share.encode()) for e, r, share in rows.execute(query)]

    def entries(self, epoch: int, round_: int) -> tuple[Batch, list[tuple[bytes, bytes, int, bytes]]] | None:
        """The plan of a batch, and slot, mac, key and body of every place: what a helper's job is made of.

        None if the batch is over: its reports are gone.
        """
        query = (
            "select place, slot, mac, key_id, body from reports where epoch = ? and round = ? order by place, version"
        )
        with self._lock, self._database.reading() as rows:
            if epoch not in self._fillings:
                return None
            newest = {place: tuple(rest) for place, *rest in rows.execute(query, epoch, round_)}
            return self._fillings[epoch].plan, [newest[place] for place in sorted(newest)]

    def receipted(self, epoch: int, round_: int, receipt: bytes) -> None:
        """What was forwarded has arrived: the reports of the round are deleted, those of the batch with its last."""
        with self._changing():
            with self._database.transaction() as rows:
                query = (
                    "update batches set state = 'receipted', share = null, receipt = ? where epoch = ? and round = ?"
                )
                rows.execute(query, receipt.decode(), epoch, round_)
                rows.execute("delete from reports where epoch = ? and round = ?", epoch, round_)
            self._look()
        self._database.scrub()  # what was deleted is gone from the log of changes too

    def last_receipt(self) -> Any | None:
        """The newest, as a witness of what the analyzer has released."""
        with self._database.reading() as rows:
            return _last_receipt(rows)

    def glance(self) -> tuple[int, int, int]:
        """Running batch, its open slots, those that it needs: a moment old perhaps, and without waiting for a lock."""
        epoch = self.running[0]
        filling = self._fillings.get(epoch)
        return (epoch, 0, 0) if filling is None else (epoch, len(filling.places), filling.plan.slots)

    def progress(self) -> dict[str, Any]:
        """For whoever watches: public numbers."""
        (epoch, round_), fillings = self.running, self._fillings.copy()  # without waiting for who writes
        open_ = next((each for each in fillings.values() if not each.full), None)
        filling = fillings.get(epoch)
        return {
            "epoch": epoch,
            "round": round_,
            "open": None if open_ is None else open_.plan.epoch,
            "slots": 0 if filling is None else len(filling.places),
            "of": 0 if filling is None else filling.plan.slots,
            "closes_at": self.closes_at,
        }


def _last_receipt(rows: Transaction) -> Any | None:
    """The newest that the analyzer has signed; batches that it knew better have none."""
    query = "select receipt from batches where state = 'receipted' order by epoch desc, round desc limit 20"
    receipts = (loads(text) for (text,) in rows.execute(query))
    return next((each for each in receipts if each["number"] >= 0), None)


def _check_new(rows: Transaction, epoch: int) -> None:
    """Refuse a batch under a number that was used: slots were refused for good there, and reports were forwarded."""
    ((last,),) = rows.execute("select max(epoch) from batches")
    if last is not None and epoch <= last:
        raise BandannaError(f"batch {epoch} is announced after batch {last}: the analyzer has gone back")


def _check_streams(rows: Transaction, wanted: dict[int, Batch], epoch: int) -> None:
    """Refuse to go on with a stream of which batches are missing here: sums of higher levels would lack people."""
    if not any(part.stream is not None for batch in wanted.values() for each in batch.rounds for part in each.parts):
        return
    query = "select max(epoch) from batches where state = 'receipted' and receipt not like ?"
    ((last,),) = rows.execute(query, '%"outcome":"over"%')  # of which the analyzer knew other totals
    if epoch > (-1 if last is None else last) + 1:
        raise BandannaError(f"batch {epoch} is next, and those after {last} were not added here: restore the database")
